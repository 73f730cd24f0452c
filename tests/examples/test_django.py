"""`examples/django`, as its README tells it: migrated, tested, served by two servers, worked."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import create_database, drop_database, with_database
from tests.ports import free_port
from tests.program import Program, environment
from tests.worker.conftest import wait_for

FOLDER = Path(__file__).parents[2] / "examples/django"
BIN = Path(sys.executable).parent
MAIL = {"name": "mail"}
PASSWORD = "a password for the tests"


class Project:
    """The example on a database of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = conninfo_to_dict(url)
        self.environ = environment(
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
            PGDATABASE=str(parts["dbname"]),
            PGHOST=str(parts["host"]),
            PGPASSWORD=str(parts.get("password") or ""),
            PGPORT=str(parts.get("port") or ""),
            PGUSER=str(parts.get("user") or ""),
        )

    def manage(self, *words: str) -> str:
        """Run a command of manage.py, and return what it says."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=FOLDER,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def running(self, *command: str | Path) -> Iterator[Program]:
        """Run a program in the folder of the project as long as the block lasts."""
        program = Program(*command, folder=FOLDER, environ=self.environ)
        try:
            yield program
        finally:
            program.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.process.wait(20)
            program.close()

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


@pytest.fixture(scope="module")
def project(admin_url: str) -> Iterator[Project]:
    """Yield the example, migrated, with a member of the staff."""
    name = create_database(admin_url)
    found = Project(with_database(admin_url, name))
    found.manage("migrate", "--verbosity", "0")
    found.manage("createsuperuser", "--noinput", "--username", "ann", "--email", "ann@example.com")
    yield found
    drop_database(admin_url, name)


def test_its_own_tests_pass(project: Project) -> None:
    told = project.manage("test")
    assert re.search(r"Ran 6 tests.*\n\nOK", told), told


def test_nothing_is_left_to_say(project: Project) -> None:
    assert "no issues" in project.manage("check", "--database", "default")
    assert "No changes detected" in project.manage("makemigrations", "--check")


def test_the_commands_work_on_the_database_of_the_settings(project: Project) -> None:
    assert project.manage("riverui", "migrate-list").count("\n") == 8
    assert "--health-port" in project.manage("riverui_worker", "--help")
    assert "Usage: manage.py riverui" in project.manage("help", "riverui")
    assert "health" in project.manage("riverui")


def answers(url: str) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(f"{url}/admin/login/", timeout=20).status_code == 200
    return False


SERVERS: Mapping[str, list[str | Path]] = {
    "gunicorn": [BIN / "gunicorn", "--threads", "4", "config.wsgi", "--bind"],
    "uvicorn": [BIN / "uvicorn", "config.asgi:application", "--host", "127.0.0.1", "--port"],
}


@pytest.mark.parametrize("server", SERVERS)
def test_orders_are_taken_worked_and_looked_at(project: Project, server: str) -> None:
    """WSGI and ASGI: the view inserts, a worker works it, the staff signs in and sees it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    at = f"127.0.0.1:{port}" if server == "gunicorn" else str(port)
    with project.running(*SERVERS[server], at):
        wait_for(lambda: answers(url), seconds=60)
        form = {"email": f"{server}@example.com", "total": "3.50"}
        order = httpx2.post(f"{url}/orders/", data=form, timeout=20).json()["id"]
        httpx2.post(f"{url}/quick-orders/", data=form, timeout=20).raise_for_status()
        with project.running(sys.executable, "manage.py", "riverui_worker") as worker:
            worker.prints(f"Subject: Order {order}")
            worker.prints(f"Subject: Order {order + 1}")
            assert worker.stop() == 0
        assert project.rows("select state from river_job where state <> 'completed'") == []
        with httpx2.Client(base_url=url, follow_redirects=True, timeout=20) as browser:
            sign_in(browser, "/riverui/jobs?state=completed")
            page = browser.get("/riverui/jobs?state=completed").text
            assert "send_receipt" in page
            style = re.search(r'href="([^"]+/app.css)"', page)
            assert style
            assert "immutable" in browser.get(style[1]).headers["cache-control"]
            saved = browser.post("/riverui/preferences", data={"theme": "dark"})
            assert 'data-theme="dark"' in saved.text, "the cookie came through"
            foreign = browser.post(
                "/riverui/queues/pause", data=MAIL, headers={"Origin": "http://evil"}
            )
            assert foreign.status_code == 403
            paused = browser.post("/riverui/queues/pause", data=MAIL, headers={"Origin": url})
            assert paused.status_code == 200
            assert project.rows("select name from river_queue where paused_at is not null")
            browser.post("/riverui/queues/resume", data=MAIL, headers={"Origin": url})


@pytest.mark.parametrize("server", SERVERS)
def test_a_long_export_is_a_stream(project: Project, server: str) -> None:
    """It begins before it ends, and whoever hangs up in the middle leaves nothing behind."""
    project.rows(
        "insert into river_job (kind, args, max_attempts, state, finalized_at)"
        " select 'many', jsonb_build_object('text', repeat('x', 2000)), 1, 'completed', now()"
        " from generate_series(1, 5000) returning 1"
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    at = f"127.0.0.1:{port}" if server == "gunicorn" else str(port)
    with project.running(*SERVERS[server], at):
        wait_for(lambda: answers(url), seconds=60)
        with httpx2.Client(base_url=url, follow_redirects=True, timeout=20) as browser:
            sign_in(browser, "/riverui/jobs")
            export = "/riverui/api/jobs/export?q=kind:many"
            with browser.stream("GET", export) as answer:
                assert "content-length" not in answer.headers
                lines = sum(1 for line in answer.iter_lines() if line)
            assert lines >= 5000
            with browser.stream("GET", export) as answer:
                next(answer.iter_bytes())
            wait_for(
                lambda: (
                    not project.rows(
                        "select 1 from pg_stat_activity where datname = current_database()"
                        " and pid <> pg_backend_pid() and state <> 'idle'"
                    )
                )
            )
    project.rows("delete from river_job where kind = 'many' returning id")


def test_a_worker_outlives_its_database_connections(project: Project) -> None:
    """CONN_MAX_AGE keeps connections; those that broke poison no thread."""
    with project.running(sys.executable, "manage.py", "riverui_worker", "--queue=mail=1") as worker:
        worker.prints("worker has started")
        for number in range(2):
            added = project.rows(
                "with placed as (insert into shop_order (email, total)"
                " values ('a@example.com', 1) returning id)"
                " insert into river_job (kind, queue, args, max_attempts)"
                " select 'send_receipt', 'mail', jsonb_build_object('order_id', id), 25 from placed"
                " returning (args->>'order_id')::int"
            )
            worker.prints(f"Subject: Order {added[0][0]}\n")
            if number == 0:
                project.rows(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )


def sign_in(browser: httpx2.Client, back: str) -> None:
    """Sign in at the page that the dashboard leads to, and come back."""
    page = browser.get(back)
    assert page.url.path == "/admin/login/"
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token
    form = {"csrfmiddlewaretoken": token[1], "username": "ann", "password": PASSWORD, "next": back}
    came_back = browser.post(page.url, data=form, headers={"Referer": str(page.url)})
    assert came_back.status_code == 200
    assert came_back.url.raw_path.decode() == back
