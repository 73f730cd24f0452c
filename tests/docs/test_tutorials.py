"""The tutorials, docs/start/worker.md and dashboard.md, typed by a reader on a fresh database."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.docs.programs import DOCS
from tests.docs.reader import AT_MOST, Reader, blocks, reading
from tests.interop.worker import built
from tests.operators import look_around
from tests.ports import free_port
from tests.program import environment
from tests.test_proxies import nginx, running
from tests.worker.conftest import wait_for

WORKER = DOCS / "start/worker.md"
DASHBOARD = DOCS / "start/dashboard.md"
QUEUE = "insert into river_queue (name, updated_at) values ('default', now())"
"""The one that an operator of these tests pauses."""
OPS = httpx2.BasicAuth("ops", "a long password")


def terminal(database_url: str, **others: str) -> dict[str, str]:
    """Return the environment of a reader's terminal; this project's programs come first."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return environment(DATABASE_URL=database_url, PATH=path, **others)


@pytest.mark.timeout(900)
def test_the_first_tutorial_ends_in_a_container(empty_database_url: str, tmp_path: Path) -> None:
    environ = terminal(empty_database_url)
    with reading(tmp_path, environ) as reader:
        environ["PORT"] = str(reader.port("8080"))
        for block in blocks(WORKER):
            reader.does(block)
            if block.note.startswith("said by"):
                _the_failure_is_seen(reader)
                # The page says Ctrl-C in a sentence.
                assert reader.terminals.pop("worker").ends() == 0
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
            "Dockerfile", "conftest.py", "insert.py", "jobs.py", "requirements.txt", "test_jobs.py",
        ]  # fmt: skip
        assert '"de"' in (tmp_path / "jobs.py").read_text()
        with psycopg.connect(empty_database_url) as connection:
            rows = connection.execute(
                "select state::text, attempt, metadata ->> 'output' from river_job order by id"
            ).fetchall()
        assert rows == [
            ("completed", 1, "Hello, Ann!"),
            ("completed", 1, "Bonjour, Bob!"),
            ("completed", 2, "Guten Tag, Carl!"),
        ]
        assert reader.terminals.pop("worker").ends() == 0


def _the_failure_is_seen(reader: Reader) -> None:
    """Where the page sends its reader in the dashboard."""
    base = f"http://127.0.0.1:{reader.port('8080')}"
    with httpx2.Client(base_url=base) as browser:

        def listed() -> str:
            return browser.get("/jobs?state=retryable").text

        # The worker says so first, and writes it then.
        wait_for(lambda: "/jobs/3" in listed(), seconds=AT_MOST)
        assert "KeyError" in listed()
        assert "Bonjour, Bob!" in browser.get("/jobs/2").text
        assert "Retry" in browser.get("/jobs/3").text


def test_the_image_is_as_hadolint_wants_it(tmp_path: Path) -> None:
    (file,) = [block for block in blocks(WORKER) if block.file == "Dockerfile"]
    (tmp_path / "Dockerfile").write_text(file.text)
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--failure-threshold", "style", "Dockerfile"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_images_commands_work_and_stop(database_url: str, tmp_path: Path) -> None:
    """Docker is not here, so the lines of the file are followed without it."""
    found = {block.file: block.text for block in blocks(WORKER) if block.file}
    copied = re.search(r"^COPY (\S+\.py) \.$", found["Dockerfile"], re.M)
    assert copied
    (tmp_path / copied[1]).write_text(found[copied[1]])
    check, command = map(json.loads, re.findall(r"CMD (\[.*\])$", found["Dockerfile"], re.M))
    with reading(tmp_path, terminal(database_url)) as reader:
        reader.environ = terminal(database_url, PORT=str(reader.port("8081")))
        reader.starts("worker", shlex.join(command))
        wait_for(lambda: reader.code(shlex.join(check)) == 0, seconds=AT_MOST)
        assert reader.terminals.pop("worker").ends(signal.SIGTERM) == 0
        assert reader.code(shlex.join(check)) == 1


@pytest.mark.interop
@pytest.mark.timeout(900)
def test_the_tutorial_for_go_programs(empty_database_url: str, tmp_path: Path) -> None:
    built("worker")  # or skipped without Go
    # In place of `go get`: what the other Go programs of these tests have.
    for name in ("go.mod", "go.sum"):
        shutil.copy(DOCS.parent / "tests/interop/go/worker" / name, tmp_path)
    environ = terminal(empty_database_url)
    environ |= {name: value for name, value in os.environ.items() if name.startswith(("GO", "XDG"))}
    with reading(tmp_path, environ) as reader:
        environ["PORT"] = str(reader.port("8080"))
        for block in blocks(DASHBOARD):
            if block.language == "nginx":
                with psycopg.connect(empty_database_url) as connection:
                    connection.execute(QUEUE)
                _through_nginx(reader, block.text, tmp_path)
                continue
            reader.does(block)
            if "$ BANK=open" in block.text:
                continue
            if block.note.endswith(": app"):
                _ended(empty_database_url, {"completed": 90, "discarded": 10})
                _the_shared_addresses_hold(reader)
            elif "job retry" in block.text:
                _ended(empty_database_url, {"completed": 200})
            elif "--host 0.0.0.0" in block.text:
                address = f"http://127.0.0.1:{reader.port('8080')}/jobs"
                assert httpx2.get(address).status_code == 401
                assert httpx2.get(address, auth=OPS).status_code == 200
        assert "panic" not in reader.terminals["app"].output


def _ended(database_url: str, expected: dict[str, int]) -> None:
    """Wait until so many jobs are in these states, and none in others."""

    def states() -> dict[str, int]:
        rows = connection.execute("select state::text, count(*) from river_job group by 1")
        return dict(rows.fetchall())

    with psycopg.connect(database_url, autocommit=True) as connection:
        wait_for(lambda: states() == expected, seconds=AT_MOST)


def _the_shared_addresses_hold(reader: Reader) -> None:
    """Open each address of the page, and what it says of them."""
    text = DASHBOARD.read_text(encoding="utf-8")
    addresses = set(re.findall(r"http://127\.0\.0\.1:8080(/jobs[^>)\s]*)", text))
    assert addresses == {"/jobs?state=discarded&q=error:bank", "/jobs?q=args.order:40"}
    with httpx2.Client(base_url=f"http://127.0.0.1:{reader.port('8080')}") as browser:
        assert browser.get("/", follow_redirects=True).status_code == 200
        failed = browser.get("/jobs?state=discarded&q=error:bank").text
        assert failed.count("the bank does not answer") >= 10
        menu = re.findall(r'href="([^"]*)"[^>]*>\s*(?:<svg.*?</svg>)?\s*Retry 10…', failed)[-1]
        assert "10 jobs" in browser.get(menu.replace("&amp;", "&")).text
        (order,) = set(re.findall(r"/jobs/(\d+)\b", browser.get("/jobs?q=args.order:40").text))
        job = browser.get(f"/jobs/{order}").text
        assert "the bank does not answer" in job
    (row,) = [
        row
        for row in subprocess.check_output(
            ["riverui", "job", "get", order], env=reader.environ, text=True
        ).splitlines()
        if "worker" in row
    ]
    assert row.split()[1] in job


def _through_nginx(reader: Reader, server: str, folder: Path) -> None:
    """Do what an operator does, through the proxy of the page."""
    port = free_port()
    own = server.replace("8080", str(reader.port("8080")))
    with (
        running(nginx(own, port, folder), port),
        httpx2.Client(auth=OPS, headers={"Host": f"jobs.example:{port}"}) as operator,
    ):
        origin = f"http://jobs.example:{port}"
        assert "charge" in look_around(operator, f"http://127.0.0.1:{port}", origin=origin)
