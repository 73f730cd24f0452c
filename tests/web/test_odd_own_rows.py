"""Every address over odd rows of riverui's own tables: a row costs a line, never a page, and what
goes on behind the pages goes on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from starlette.applications import Starlette

from riverui.features.figures.reader.limits import FigureLimits
from riverui.features.operations.run import OperationLimits
from riverui.features.operations.runner import OPERATIONS
from riverui.web.limits import DashboardLimits
from tests import factory
from tests.conftest import create_database, drop_database, with_database
from tests.engine.conftest import until
from tests.factory import Make
from tests.odd_rows import OwnRow, insert_odd_own_rows, odd_error
from tests.web.html import parse
from tests.web.test_hostile import hidden_in
from tests.web.test_odd_rows import ANSWER, PAGE
from tests.web.test_routes import ENTRIES, method

Connection = AsyncConnection[dict[str, Any]]

SHOWN = {
    "riverui_dead_job": "dead-letters",
    "riverui_error_group": "errors",
    "riverui_operation": "operations",
    "riverui_periodic_job": "periodic-jobs",
    "riverui_workflow": "workflows",
}
"""What of a table has pages of its own, and where."""
ASKED = {
    "/api/autocomplete": "facet=job_kind",
    "/api/pro/dead-letter-jobs/autocomplete": "facet=job_kind",
    "/api/pro/producers": "queue_name=default",
    "/api/progress": "q=kind:usual",
    "/dead-letters/bulk": "verb=retry",
    "/jobs/bulk": "verb=retry&q=kind:usual",
    "/jobs/search": None,
    "/jobs/new": None,
    "/api/pro/workflows/1/task-signals": None,
    "/api/pro/workflows/1/task-wait-diagnostics": None,
}
"""What an address needs to be asked; None where it is not about rows."""
WINDOWS = ("overview.index", "kinds.index", "kinds.show", "queues.show", "figures.show")
LONGEST = 10.0
"""Seconds that an answer may take, on a machine that is busy with other tests."""


class Corpus(NamedTuple):
    """A database with every odd row, from which the tests' own are cloned."""

    database: str
    rows: list[OwnRow]


@pytest.fixture(scope="module")
def corpus(admin_url: str, own_template_database: str) -> Iterator[Corpus]:
    """Yield odd rows of every table, and jobs that they tell of."""
    name = create_database(admin_url, template=own_template_database)

    async def fill() -> list[OwnRow]:
        url = with_database(admin_url, name)
        async with await AsyncConnection.connect(url, autocommit=True, row_factory=dict_row) as db:
            await factory.queue(db)
            rows = await insert_odd_own_rows(db)
            await db.execute(
                "insert into river_job (id, args, kind, max_attempts, state)"
                " select n, '{}', 'usual', 25, 'pending' from generate_series(1, %s) n",
                [len(rows)],
            )
            await db.execute("select setval('river_job_id_seq', %s)", [len(rows)])
            await db.execute("insert into riverui_workflow (id) values ('usual')")
            for row in rows:
                if row.table == "riverui_error_group":
                    errors = [factory.attempt_error(error=odd_error(row.number))]
                    await factory.job(db, "discarded", errors=errors)
            return rows

    yield Corpus(name, asyncio.run(fill()))
    drop_database(admin_url, name)


@pytest.fixture
def database_url(admin_url: str, corpus: Corpus) -> Iterator[str]:
    """Yield a database with the corpus in it, for one test."""
    name = create_database(admin_url, template=corpus.database)
    yield with_database(admin_url, name)
    drop_database(admin_url, name)


def addresses(rows: list[OwnRow]) -> dict[str, str]:
    """Return every address that can be asked for by GET, and whose row it is; nobody's where it is
    of a list.
    """
    found = {}
    usual = {"name": "default", "kind": "usual", "field": "args", "attempt": 1, "chart": "ended"}
    usual |= {"id": 1, "job_id": 1, "fingerprint": "x"}
    for entry in ENTRIES:
        if method(entry) != "GET" or entry.name in ("static", "health"):
            continue
        path = entry.path_format.format_map(usual)
        query = ASKED.get(path, "")
        if query is not None:
            found[f"{path}?{query}"] = "nobody" if entry.param_convertors else ""
        if entry.name in WINDOWS:
            found |= {f"{path}?window={window}": "" for window in ("24h", "7d", "90d")}
        parts = entry.path_format.split("/")
        for row in rows if parts[-1].startswith("{") else ():
            if SHOWN.get(row.table) == parts[-2]:
                (key,) = row.key.values()
                shown = "/".join([*parts[:-1], quote(key, safe="")])
                found[shown] = f"{row.table}, {row.column} = {row.value[:60]}"
    return found


async def test_every_address_answers(
    client: AsyncClient, corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    failures = []
    for address, row in addresses(corpus.rows).items():
        caplog.clear()
        try:
            async with asyncio.timeout(LONGEST):
                answer = await client.get(address)
        except Exception as error:
            failures.append(f"{address} ({row}): {error!r}")
            continue
        # What a row does not let be shown is that row's own page alone.
        found = answer.status_code < 400 or (row and answer.status_code in (400, 404))
        if not found or len(answer.content) > (ANSWER if address.startswith("/api/") else PAGE):
            told = [repr(record.exc_info[1]) for record in caplog.records if record.exc_info]
            words = re.sub(r"(<[^>]*>|\s)+", " ", answer.text)[-300:]
            size = len(answer.content)
            failures.append(
                f"{address} ({row}): {answer.status_code}, {size:,} bytes, {told or words}"
            )
        elif "\u202e" in answer.text and "text/html" in answer.headers["content-type"]:
            failures += [f"{address} ({row}): {text}" for text in hidden_in(parse(answer.text))]
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:100])


async def test_the_rest_of_a_list_is_there(client: AsyncClient, corpus: Corpus) -> None:
    usual = {row.table: row.key for row in reversed(corpus.rows) if not row.column}
    client_id = usual["riverui_client"]["id"]
    for path in ("/workers", "/api/workers"):
        assert client_id in (await client.get(path)).text, path
    operation = usual["riverui_operation"]["id"]
    assert (await client.get(f"/operations/{operation}")).status_code == 200
    odd = next(row.key["id"] for row in corpus.rows if row.column == "skipped")
    assert (
        "Parts of its row cannot be read: skipped." in (await client.get(f"/operations/{odd}")).text
    )
    report = (await client.get("/api/health-report")).json()
    told = {check["name"]: check for part in report["sections"] for check in part["checks"]}
    assert told["clients"]["result"] == "passed"


@pytest.mark.parametrize(
    "dashboard_limits",
    [
        DashboardLimits(
            features=(OperationLimits(running=20, look=timedelta(milliseconds=10)),),
            figures=FigureLimits(abandoned=timedelta(0)),
        )
    ],
)
async def test_what_goes_on_behind_the_pages_goes_on(
    app: Starlette, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Every operation that may be claimed ends, those that cannot be read as failed; and figures
    are stored, though there is a minute of the far future.
    """
    board = app.state.dashboard
    board.get(OPERATIONS).watch()

    async def ended() -> bool:
        found = await make.rows(
            "select id from riverui_operation where ended_at is null and verb = 'retry'"
            " and held_until < now() and features = '' and fence < 9223372036854775807"
        )
        return not found

    await until(ended)
    failed = await make.execute(
        "select status, error from riverui_operation where skipped @> '{\"odd\": 3}'"
    )
    assert {(row["status"], row["error"]) for row in await failed.fetchall()} == {
        ("failed", "Its row cannot be read: skipped.")
    }
    assert await board.figures.writer.tick()
    assert not [record for record in caplog.records if record.exc_info]
