"""docs/start/dashboard.md, typed by a reader, with a real River client in Go."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.docs.reader import AT_MOST, Reader, blocks, reading
from tests.docs.test_start_worker import environment
from tests.interop.worker import built
from tests.operators import look_around
from tests.ports import free_port
from tests.test_proxies import nginx, running
from tests.worker.conftest import wait_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/start/dashboard.md"
QUEUE = "insert into river_queue (name, updated_at) values ('default', now())"
"""The one that an operator of these tests pauses."""
OPS = httpx2.BasicAuth("ops", "a long password")


@pytest.mark.interop
@pytest.mark.timeout(900)
def test_a_reader_sees_retries_and_protects_the_jobs_of_a_go_program(
    empty_database_url: str, tmp_path: Path
) -> None:
    built("worker")  # or skipped without Go
    # In place of `go get`: what the other Go programs of these tests have.
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "tests/interop/go/worker" / name, tmp_path)
    environ = environment(empty_database_url)
    environ |= {name: value for name, value in os.environ.items() if name.startswith(("GO", "XDG"))}
    with reading(tmp_path, environ) as reader:
        environ["PORT"] = str(reader.port("8080"))
        for block in blocks(PAGE):
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
    text = PAGE.read_text(encoding="utf-8")
    addresses = set(re.findall(r"http://127\.0\.0\.1:8080(/jobs[^>)\s]*)", text))
    assert addresses == {"/jobs?state=discarded&q=error:bank", "/jobs?q=args.order:40"}
    with httpx2.Client(base_url=f"http://127.0.0.1:{reader.port('8080')}") as browser:
        assert browser.get("/", follow_redirects=True).status_code == 200
        failed = browser.get("/jobs?state=discarded&q=error:bank").text
        assert failed.count("the bank does not answer") >= 10
        menu = re.findall(
            r'href="([^"]*)"[^>]*>[^a]*?(?:<svg.*?</svg>)?\s*Retry all matching…', failed
        )[-1]
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
