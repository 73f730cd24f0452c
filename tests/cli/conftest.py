"""Jobs to look at, and a dashboard that serves them, beside the database itself."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import psycopg
import pytest
import uvicorn

from riverui.actions.new_jobs import LateInserter
from riverui.cli.serve.dashboard import inserter
from riverui.engine.feature_list import plain_pilot
from riverui.storage.connect import connect
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.auth.tokens import new_token
from riverui.web.http.context import AppOptions
from tests.test_cli import Run, run

__all__ = ["run"]

SHOP = """
insert into river_queue (name, created_at, updated_at, paused_at) values
  ('default', now(), now(), null), ('mail', now(), now(), null), ('slow', now(), now(), now());
insert into river_job (id, kind, args, queue, tags, scheduled_at) values
  (1, 'mail_send', '{"to": 1, "subject": "Hello \\u001b[2J"}', 'mail', '{vip}', now()),
  (2, 'mail_send', '{"to": 2}', 'mail', '{}', now());
insert into river_job (id, kind, args, state, attempt, max_attempts, attempted_at, attempted_by,
  finalized_at, errors, metadata) values
  (3, 'charge', '{"amount": 12.50000000000000000001}', 'discarded', 2, 2, now(), '{me}', now(),
    array['{"at": "2026-11-21T09:00:00Z", "attempt": 1, "error": "refused", "trace": ""}',
      '{"at": "2026-11-21T09:10:00Z", "attempt": 2, "error": "timeout \\u001b[31m",
        "trace": "Traceback:\\n  boom()"}']::jsonb[],
    '{"trace_id": 12345678901234567890123, "output": {"ok": false},
      "river:log": [{"attempt": 2, "log": "first\\nsecond \\u001b[2J\\n"}]}'),
  (4, 'charge', '{}', 'completed', 1, 2, now(), '{me}', now(), '{}', '{}');
insert into river_job (id, kind, args, state, attempt, max_attempts, attempted_at, attempted_by)
  values (5, 'report', '{}', 'running', 1, 25, now() - interval '1 minute', '{me}');
select setval('river_job_id_seq', 100);
"""
"""Five jobs in three queues, one of them paused."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class Ways:
    """The two ways to ask, as the environment of a command."""

    database: Mapping[str, str]
    api: Mapping[str, str]
    url: str
    """The dashboard's."""

    def both(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return both."""
        return self.database, self.api


@pytest.fixture
def shop(database_url: str) -> str:
    """Return the URL of a database with some jobs."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(SHOP)
    return database_url


@pytest.fixture
def own_tables(shop: str, run: Run) -> None:
    """Make riverui's own tables. To be asked for before a dashboard, which then knows of them."""
    assert run("migrate-up", "--line", "riverui", DATABASE_URL=shop)[0] == 0


@pytest.fixture
def ways(shop: str) -> Iterator[Ways]:
    """Yield both ways to ask: the database, and a dashboard of it that listens."""
    token, line = new_token("cli", "all")
    reading, reader = new_token("reader", "read")
    assert reading != token
    driver = connect(shop)
    app = build_app(
        driver,
        SignIn(basic_auth=("ada", "s3cret word"), api_tokens=f"{line}\n{reader}"),
        pilot=plain_pilot(),
        options=AppOptions(close_driver=True, inserter=LateInserter(lambda: inserter(driver))),
    )
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        # From here on it can be reached: who comes early waits.
        sock.listen()
        port = sock.getsockname()[1]
        server = _Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        serving.start()
        try:
            url = f"http://127.0.0.1:{port}"
            yield Ways(
                database={"DATABASE_URL": shop},
                api={"RIVERUI_API_URL": url, "RIVERUI_API_TOKEN": token},
                url=url,
            )
        finally:
            server.should_exit = True
            serving.join()


@pytest.fixture
def rows(shop: str) -> Callable[[str], list[tuple[object, ...]]]:
    """Return what a statement finds."""

    def read(sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(shop, autocommit=True) as connection:
            return connection.execute(sql.encode()).fetchall()

    return read


Both = Callable[..., tuple[int, str, str]]


@pytest.fixture
def both(run: Run, ways: Ways) -> Both:
    """Return what a command answers, the same on the database and on the API."""

    def call(*argv: str) -> tuple[int, str, str]:
        first, second = (run(*argv, **way) for way in ways.both())
        assert _timeless(first) == _timeless(second)
        return first

    return call


def _timeless(answer: tuple[int, str, str]) -> tuple[int, str, str]:
    """Return it without what passes between two answers."""
    told = re.sub(r"\d+ (s|m \d+ s) ago", "<ago>", answer[1])
    return answer[0], re.sub(" +", " ", told), answer[2]


def execute(url: str, statement: str, *values: object) -> None:
    """Run a statement on a database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode(), values or None)
