"""`riverui worker`: real processes that are started, work, tell how they are, and stop."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.conftest import with_database
from tests.ports import free_port
from tests.worker.conftest import HERE, StartWorker, WorkerProcess, ask, wait_for

NOWHERE = "postgresql://nobody:hunter2@127.0.0.1:1/none"


def failed(*argv: str, **environ: str) -> tuple[int, str]:
    """Exit code and the one line that a worker leaves that cannot start."""
    worker = WorkerProcess(environ.pop("DATABASE_URL", NOWHERE), *argv, environ=environ)
    code = worker.process.wait(30)
    worker.hear_out()
    assert worker.process.stdout is not None
    worker.process.stdout.close()
    assert len(worker.lines) == 1, worker.lines
    assert worker.lines[0].startswith("riverui: ")
    assert "hunter2" not in worker.lines[0]
    return code, worker.lines[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("argv", "environ", "words"),
    [
        ([], {}, "MODULE:CLIENT"),
        (["nowhere:client"], {}, "module 'nowhere' not found"),
        (["shop.nowhere:client"], {}, "module 'shop.nowhere' not found"),
        (["shop:nobody"], {}, "'nobody' not found in shop; its clients are client, without_queues"),
        (["shop:"], {}, "cannot be reached"),
        (["sh op:client"], {}, "is not MODULE:CLIENT"),
        (["shop:number"], {}, "shop:number is not a riverui.Client, its type is int"),
        (["shop:make_for"], {}, "cannot be called without arguments"),
        (["shop:without_queues"], {}, "the client has no queues"),
        (["shop:client", "--queue", "new"], {}, "has no queue 'new'"),
        (["shop:client", "--queue", "default=many"], {}, "default=10"),
        (["shop:client"], {"RIVERUI_QUEUES": "Not-A-Name=3"}, "Not-A-Name"),
        (["shop:client", "--queue", "default=0"], {}, "from 1 to 10,000"),
        (["shop:client", "--concurrency", "lots"], {}, "--concurrency is 'lots'"),
        (["shop:client"], {"RIVERUI_CONCURRENCY": "lots"}, "RIVERUI_CONCURRENCY is 'lots'"),
        (["shop.py:client"], {}, "names a file: name the module, shop:client"),
        (["./my/shop.py"], {}, "name the module, my.shop:client"),
        (["shop:client", "--concurrency", "10001"], {}, "10,000"),
        (["shop:client", "--soft-stop", "20"], {}, "--soft-stop is '20': write it like 20s"),
        (["shop:client"], {"RIVERUI_HARD_STOP": "1h nonsense"}, "RIVERUI_HARD_STOP"),
        (["shop:client", "--health-port", "99999"], {}, "99999"),
        (["shop:client"], {"RIVER_LOG_FORMAT": "xml"}, "log format 'xml'"),
        (["shop:client"], {"RIVER_LOG_LEVEL": "loud"}, "log level 'loud'"),
    ],
)
def test_invalid_settings(argv: list[str], environ: dict[str, str], words: str) -> None:
    code, told = failed(*argv, **environ)
    assert words in told
    assert code == (1 if words == "cannot be reached" else 2)


def test_missing_tables_are_reported(
    empty_database_url: str,
) -> None:
    code, told = failed("shop:client", DATABASE_URL=empty_database_url)
    assert code == 1
    assert "riverui migrate-up" in told


def test_a_port_in_use_is_told(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, told = failed("shop:client", "--health-port", port, DATABASE_URL=database_url)
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in told


def test_what_the_module_itself_raises_is_shown_whole(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "broken.py").write_text("import no_such_package\n")
    done = subprocess.run(
        [sys.executable, "-m", "riverui", "worker", "broken:client"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert 'broken.py", line 1' in done.stderr
    assert "No module named 'no_such_package'" in done.stderr
    assert done.stderr.count('File "') == 1, "nothing of what leads there"


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("def make():\n    return [][0]\n", "IndexError: list index out of range"),
        ("async def make():\n    return [][0]\n", "IndexError: list index out of range"),
        ("def make(:\n", "SyntaxError: invalid syntax"),
    ],
)
def test_tracebacks_begin_in_the_program(tmp_path: Path, code: str, last: str) -> None:
    (tmp_path / "broken.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "riverui", "worker", "broken:make"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count('File "') == 1, done.stderr
    assert 'broken.py"' in done.stderr
    assert done.stderr.endswith(f"{last}\n")


@pytest.mark.parametrize("target", ["shop:client", "shop", "shop:make", "shop:make_slowly"])
def test_it_works_jobs(start_worker: StartWorker, target: str) -> None:
    with start_worker(target) as worker:
        job = worker.insert("quick")
        worker.until(job, "completed")
        assert f"quick {job}" in worker.said(f"quick {job}")
        assert worker.stop() == 0
        assert "worker has stopped" in worker.lines[-1]


def test_every_line_says_which_job_it_is_about(start_worker: StartWorker) -> None:
    with start_worker("shop:client") as worker:
        job = worker.insert("broken")
        about = f"job_id={job} job_kind=broken"
        assert worker.said("looking at").endswith(f'level=INFO msg="looking at {job}" {about}\n')
        told = worker.said("failed at attempt 1 of 25 and will be retried in")
        assert "level=WARN" in told
        assert told.endswith(f': ValueError: nothing there" {about} queue=default attempt=1\n')
        assert worker.said('raise ValueError("nothing there")').startswith("     ")
        assert "job_id" not in worker.said("worker has started")
    with start_worker("shop:client", RIVER_LOG_FORMAT="json") as worker:
        told = json.loads(worker.said(f"looking at {worker.insert('broken')}"))
        assert told["job_kind"] == "broken"


def test_it_works_the_queues_it_is_told_to(start_worker: StartWorker) -> None:
    with start_worker(
        "shop:client", "--queue", "other", "--queue", "new", "--concurrency", "3"
    ) as worker:
        assert "new=3 other=3" in worker.said("worker has started")
        left = worker.insert("quick", "default")
        worker.until(worker.insert("quick", "other"), "completed")
        worker.until(worker.insert("quick", "new"), "completed")
        assert worker.job(left) == ("available", 0)
    with start_worker(
        "shop:client", "--concurrency", "4", RIVERUI_QUEUES="other=1,default"
    ) as worker:
        assert "default=4 other=1" in worker.said("worker has started")


def test_it_tells_how_it_is(start_worker: StartWorker, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "health"
    options = ["--health-port", str(port), "--health-file", str(file)]
    with start_worker("shop:client", *options, CLIENT_ID="me", RIVER_LOG_FORMAT="json") as worker:
        told = json.loads(worker.said("worker has started"))
        assert told["health"] == f"http://127.0.0.1:{port}/health"
        assert told["client"] == "me"
        worker.until(worker.insert("slow"), "running")
        wait_for(lambda: ask(port)[1]["leader"])
        status, body = ask(port)
        assert status == 200
        fetched = body.pop("last_fetched_at")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", fetched)
        assert body == {
            "client": "me",
            "database": True,
            "leader": True,
            "queues": ["default", "other"],
            "running": 1,
            "started": True,
            "status": "ok",
        }
        wait_for(file.exists)
        assert ask(port, method="HEAD") == (200, {})
        assert ask(port, "/nothing")[0] == 404
        assert ask(port, method="POST")[0] == 405
        health = [sys.executable, "-m", "riverui", "healthcheck", "complete", "--port", str(port)]
        assert subprocess.run(health, check=False).returncode == 0
        worker.process.send_signal(signal.SIGTERM)
        wait_for(lambda: ask(port)[1].get("status") == "stopping")
        assert ask(port)[0] == 503
        assert worker.stop() == 0
        assert not file.exists()
    for line in worker.lines:
        assert json.loads(line)["level"] in ("INFO", "WARN"), line


def test_it_survives_the_loss_of_its_database(
    start_worker: StartWorker, admin_url: str, database_url: str
) -> None:
    name = sql.Identifier(urlsplit(database_url).path.lstrip("/"))
    port = free_port()
    with (
        start_worker("shop:client", "--health-port", str(port)) as worker,
        psycopg.connect(admin_url, autocommit=True) as admin,
    ):
        assert ask(port)[0] == 200
        admin.execute(sql.SQL("alter database {} with allow_connections false").format(name))
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
            [urlsplit(database_url).path.lstrip("/")],
        )
        wait_for(lambda: ask(port)[1].get("status") == "no database")
        assert ask(port)[0] == 503
        admin.execute(sql.SQL("alter database {} with allow_connections true").format(name))
        wait_for(lambda: ask(port)[0] == 200, seconds=30)
        worker.until(worker.insert("quick"), "completed")
        assert worker.stop() == 0


class TestStop:
    """In three phases."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_running_jobs_may_end(self, start_worker: StartWorker, number: int) -> None:
        with start_worker("shop:client") as worker:
            job = worker.insert("steady")
            worker.until(job, "running")
            assert worker.stop(number) == 0
            assert worker.job(job) == ("completed", 1)
            assert not [
                line for line in worker.lines if "level=WARN" in line or "Traceback" in line
            ]

    def test_jobs_that_are_cancelled_keep_their_attempt(self, start_worker: StartWorker) -> None:
        with start_worker("shop:client", "--soft-stop", "300ms") as worker:
            job = worker.insert("slow")
            worker.until(job, "running")
            began = time.monotonic()
            assert worker.stop() == 0
            assert time.monotonic() - began < 8
            assert worker.job(job) == ("available", 0)
            assert "running=1" in worker.said("cancelling the jobs still running")

    def test_another_signal_begins_the_next_phase(self, start_worker: StartWorker) -> None:
        with start_worker("shop:client", "--soft-stop", "5m") as worker:
            job = worker.insert("slow")
            worker.until(job, "running")
            worker.process.send_signal(signal.SIGINT)
            worker.said("stopping")
            assert worker.stop(signal.SIGINT) == 0
            assert worker.job(job) == ("available", 0)

    @pytest.mark.long
    @pytest.mark.parametrize("kind", ["deaf", "deaf_thread"])
    def test_then_the_process_exits(self, start_worker: StartWorker, kind: str) -> None:
        with start_worker("shop:client", "--soft-stop", "200ms", "--hard-stop", "200ms") as worker:
            job = worker.insert(kind)
            worker.until(job, "running")
            began = time.monotonic()
            assert worker.stop() == 1
            assert time.monotonic() - began < 8
            assert worker.job(job) == ("running", 1), "for the rescuer"
            assert "level=ERROR" in worker.said("exiting with jobs still running")

    def test_a_third_signal_ends_it_at_once(self, start_worker: StartWorker) -> None:
        with start_worker("shop:client", "--soft-stop", "5m", "--hard-stop", "5m") as worker:
            worker.until(worker.insert("deaf"), "running")
            worker.process.send_signal(signal.SIGTERM)
            worker.said("stopping")
            worker.process.send_signal(signal.SIGTERM)
            worker.said("cancelling")
            assert worker.stop() == 1


def test_it_reloads(start_worker: StartWorker, tmp_path: Path) -> None:
    code = (HERE / "shop.py").read_text()
    module = tmp_path / "shop.py"
    module.write_text(code)
    with start_worker("shop:client", "--reload", "--queue=default=5", folder=tmp_path) as worker:
        assert 'queues="default=5"' in worker.said("worker has started")
        module.write_text(code.replace("quick %s", "lively %s"))
        worker.said("shop.py has changed, restarting")
        worker.said("worker has started", times=2)
        job = worker.insert("quick")
        worker.said(f"lively {job}")

        module.write_text("this is no Python")
        worker.said("SyntaxError")
        module.write_text(code)
        worker.said("worker has started", times=3)
        assert worker.stop(signal.SIGINT) == 0
    assert [line for line in worker.lines if "worker has stopped" in line]


def test_the_documents_own_code_works(start_worker: StartWorker, tmp_path: Path) -> None:
    document = (HERE.parents[1] / "docs/operate/worker-processes.md").read_text()
    (code,) = re.findall(r"```python\n(# jobs.py\n.*?)```", document, re.DOTALL)
    (tmp_path / "jobs.py").write_text(code)
    with start_worker("jobs:client", folder=tmp_path) as worker:
        worker.until(worker.insert("sort", args='{"strings": ["b", "a"]}'), "completed")
        worker.said("sorted: ['a', 'b']")


def test_the_example_works(start_worker: StartWorker, database_url: str) -> None:
    folder = HERE.parents[1] / "examples/worker"
    with start_worker("jobs:client", folder=folder) as worker:
        environ = {"DATABASE_URL": database_url, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "jobs.py"],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        worker.until(int(done.stdout), "completed")
        assert "bear, tiger, whale" in worker.said("sorted")
        assert worker.stop() == 0


def test_a_worker_on_the_admin_database_would_be_told(admin_url: str) -> None:
    code, told = failed("shop:client", DATABASE_URL=with_database(admin_url, "no_such_database"))
    assert code == 1
    assert "There is no database named “no_such_database”." in told
