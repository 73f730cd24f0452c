"""`examples/documents`, as its README tells it: real processes, killed and cancelled at work."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg.rows import dict_row

from examples.documents.app import sign
from examples.documents.stand_ins import sample_files
from tests.ports import free_port
from tests.program import Program, environment
from tests.worker.conftest import wait_for

ROOT = Path(__file__).parents[2]
QUICK = {
    "EMBEDDINGS_PER_SECOND": "100000",
    "EMBED_SECONDS": "0",
    "HEARTBEAT_SECONDS": "2",
    "PAGES_PER_CUSTOMER": "1000",
    "PAGES_PER_REPLICA": "100",
    "READ_SECONDS": "0",
    "RETRY_SECONDS": "0.2",
}


class Replica(Program):
    """A running replica of the example."""

    def __init__(self, database_url: str, **environ: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._database_url = database_url
        given = {"DATABASE_URL": database_url} if database_url else {}
        super().__init__(
            sys.executable, "-m", "examples.documents", folder=ROOT,
            environ=environment(PORT=str(port), **given, **environ),
        )  # fmt: skip
        wait_for(self._answers, seconds=60)

    def post(self, upload: str, files: list[tuple[str, str]], customer: str = "acme") -> Any:
        """Call the webhook and return the answer."""
        texts = [{"name": name, "text": text} for name, text in files]
        body = json.dumps({"id": upload, "customer": customer, "files": texts}).encode()
        signature = {"X-Signature": f"sha256={sign(body, 'river')}"}
        return httpx2.post(f"{self.url}/uploads", content=body, headers=signature, timeout=60)

    def progress(self, upload: str) -> dict[str, Any]:
        """Return how far an upload is; its files add up at any time."""
        found: dict[str, Any] = httpx2.get(f"{self.url}/uploads/{upload}", timeout=60).json()
        states = ("completed", "failed", "cancelled", "processing", "pending")
        assert sum(found[state] for state in states) == found["total"], found
        return found

    def finished(self, upload: str, seconds: float = 60) -> dict[str, Any]:
        """Return how an upload has ended."""

        def look() -> dict[str, Any] | None:
            found = self.progress(upload)
            return found if found["finished"] else None

        ended: dict[str, Any] = wait_for(look, seconds=seconds)
        return ended

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Return what the database holds."""
        with psycopg.connect(
            self._database_url,
            autocommit=True,
            row_factory=dict_row,
            options="-c search_path=documents",
        ) as connection:
            return connection.execute(statement.encode()).fetchall()

    def _answers(self) -> bool:
        assert self.running, self.output
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(f"{self.url}/uploads/none").status_code == 404
        return False


Start = Callable[..., Replica]


@pytest.fixture
def start(empty_database_url: str) -> Iterator[Start]:
    """Start replicas on a database that has nothing in it."""
    running: list[Replica] = []

    def run(**environ: str) -> Replica:
        running.append(Replica(empty_database_url, **{**QUICK, **environ}))
        return running[-1]

    yield run
    for each in running:
        each.close()


def indexed(replica: Replica, upload: str) -> list[tuple[int, int]]:
    """Return the pages of an upload's files that are in the search index: name and page."""
    return [
        (int(row["name"][:5]), row["page"])
        for row in replica.rows(
            "select d.name, i.page from search_index i join document d on d.id = i.document_id"
            f" where d.upload_id = '{upload}' order by d.name, i.page"
        )
    ]


def expected(count: int) -> list[tuple[int, int]]:
    """Return the pages that are indexed of so many sample files."""
    return [
        (number, page)
        for number, (_, text) in enumerate(sample_files(count))
        if "encrypted" not in text and "unreadable" not in text
        for page in range(1, text.count("\f") + 2)
    ]


def test_files_become_pages_and_pages_are_indexed(start: Start) -> None:
    app = start()
    files = sample_files(200)
    answer = app.post("u1", files)
    assert answer.status_code == 202
    assert answer.json() == {
        "upload": "u1",
        "files": 200,
        "progress": f"{app.url}/uploads/u1",
    }
    # Who calls twice is answered twice, and the work is done once.
    assert app.post("u1", files).status_code == 202
    with httpx2.stream("GET", f"{app.url}/uploads/u1/events", timeout=60) as events:
        told = [json.loads(line[6:]) for line in events.iter_lines() if line]
    assert told[0]["finished"] is False
    assert [each["finished"] for each in told[1:]] == [*[False] * (len(told) - 2), True]
    assert told[-1] == {
        "upload": "u1",
        "customer": "acme",
        "total": 200,
        "completed": 196,
        "failed": 4,
        "cancelled": 0,
        "processing": 0,
        "pending": 0,
        "finished": True,
        "pages": {"split": 240, "embedded": 238, "indexed": 236},
    }
    assert app.progress("u1") == told[-1]
    assert indexed(app, "u1") == expected(200)

    # The smudged pages were read at the second attempt; those that cannot be read had three, and
    # one more with each further attempt at their file.
    attempts = app.rows(
        "select state::text, attempt, count(*) from river_job where kind = 'process_page'"
        " group by 1, 2 order by 1, 2"
    )
    assert [tuple(row.values()) for row in attempts] == [
        ("completed", 1, 236),
        ("completed", 2, 2),
        ("discarded", 5, 2),
    ]
    parents = app.rows(
        "select state::text, attempt, metadata -> 'output' as output, count(*) from river_job"
        " where kind = 'process_file' group by 1, 2, 3 order by 1, 2, 3"
    )
    assert [tuple(row.values()) for row in parents] == [
        ("completed", 1, {"pages": 1}, 176),
        ("completed", 1, {"pages": 3}, 20),
        ("discarded", 3, None, 4),
    ]
    # Files were indexed many at a time.
    assert 0 < sum("files in one request" in line for line in app.lines) < 100

    def customer_was_told() -> Any:
        return app.rows(
            "select metadata -> 'output' as output from river_job"
            " where kind = 'notify_customer' and state = 'completed'"
        )

    # The one that tells ends after the files that it waits for, as the events do.
    assert wait_for(customer_was_told) == [{"output": told[-1]}]
    assert app.stop() == 0


def test_what_failed_can_run_again_as_it_was_asked_for(start: Start) -> None:
    app = start(EMBEDDING_MODEL="old")
    app.post("u1", [("a.txt", "good"), ("b.txt", "good\funreadable")])
    assert app.finished("u1")["failed"] == 1
    assert app.stop() == 0

    app = start(EMBEDDING_MODEL="new")
    app.rows("update page set content = 'mended' where content = 'unreadable' returning 1")
    again = httpx2.post(f"{app.url}/uploads/u1/retry")
    assert again.status_code == 202
    ended = app.finished("u1")
    assert (ended["completed"], ended["failed"]) == (2, 0)
    assert ended["pages"] == {"split": 3, "embedded": 3, "indexed": 3}
    models = app.rows(
        "select distinct args -> 'embedding' -> 'model' as model from river_job"
        " where kind = 'process_page'"
    )
    assert models == [{"model": "old"}]
    assert httpx2.post(f"{app.url}/uploads/nothing/retry").status_code == 404


def test_an_upload_is_cancelled_and_taken_up_again(start: Start) -> None:
    app = start(READ_SECONDS="0.2", PAGES_PER_REPLICA="4")
    app.post("u1", sample_files(60))
    wait_for(lambda: app.progress("u1")["pages"]["embedded"] >= 8)
    assert httpx2.post(f"{app.url}/uploads/u1/retry").status_code == 409
    assert httpx2.delete(f"{app.url}/uploads/u1").status_code == 202
    ended = app.finished("u1")
    assert ended["cancelled"] > 0
    open_jobs = "select 1 from river_job where state not in ('completed', 'cancelled', 'discarded')"
    wait_for(lambda: not app.rows(open_jobs))
    assert 8 <= app.progress("u1")["pages"]["embedded"] < 60
    assert app.stop() == 0

    app = start()
    again = httpx2.post(f"{app.url}/uploads/u1/retry")
    assert again.status_code == 202
    assert again.json()["cancelled"] == 0
    ended = app.finished("u1")
    assert (ended["completed"], ended["failed"], ended["cancelled"]) == (58, 2, 0)
    assert indexed(app, "u1") == expected(60)


def test_a_folder_is_watched(start: Start, tmp_path: Path) -> None:
    for customer, name in (("acme", "a.txt"), ("acme", "b.txt"), ("globex", "c.txt")):
        (tmp_path / customer).mkdir(exist_ok=True)
        (tmp_path / customer / name).write_text(f"{name}\fpage 2")
    app = start(INBOX=str(tmp_path))
    wait_for(lambda: len(app.rows("select 1 from search_index")) == 6, seconds=60)
    uploads = app.rows(
        "select u.customer, count(*) from upload u join document d on d.upload_id = u.id"
        " group by u.id order by 1"
    )
    assert uploads == [{"customer": "acme", "count": 2}, {"customer": "globex", "count": 1}]
    wait_for(lambda: (tmp_path / "globex" / ".taken" / "c.txt").exists())
    assert sorted(path.name for path in (tmp_path / "acme").iterdir()) == [".taken"]
    # A look that found what there was leaves no row behind.
    wait_for(lambda: not app.rows("select 1 from river_job where kind = 'scan_inbox'"))


def test_only_who_signs_may_upload(start: Start) -> None:
    app = start()
    for body, signature, code in (
        (b"{}", "", 401),
        (b"{}", "sha256=00", 401),
        (b"{}", f"sha256={sign(b'{}', 'another')}", 401),
        (b"{}", None, 422),
        (b"[", None, 422),
        (b'{"files": [], "id": "a/b", "customer": ""}', None, 422),
        (b'{"files": [], "id": "a", "customer": "\\u0000"}', None, 422),
        (b'{"files": [], "id": "a", "customer": ""}', None, 202),
    ):
        right = f"sha256={sign(body, 'river')}"
        headers = {"X-Signature": right if signature is None else signature}
        answer = httpx2.post(f"{app.url}/uploads", content=body, headers=headers)
        assert answer.status_code == code
    assert httpx2.get(f"{app.url}/uploads/none").status_code == 404
    assert httpx2.delete(f"{app.url}/uploads/none").status_code == 404
    assert httpx2.get(f"{app.url}/riverui/jobs").status_code == 401
    page = httpx2.get(f"{app.url}/riverui/workflows", auth=httpx2.BasicAuth("ops", "river"))
    assert page.status_code == 200


def test_without_a_database_it_brings_its_own() -> None:
    app = Replica("", **QUICK, FIRST_FILES="10")
    try:
        assert "DATABASE_URL=" in app.lines[0]
        assert app.finished("first")["completed"] == 10
        assert app.stop() == 0
        assert not [line for line in app.lines if "ERROR" in line]
    finally:
        app.close()


@pytest.mark.timeout(300)
def test_four_thousand_files_through_a_kill_and_a_cancelled_upload(start: Start) -> None:
    one, two = start(), start()
    one.post("big", sample_files(4000))
    one.post("unwanted", [(f"{number:05}.txt", "smudged") for number in range(300)], "globex")
    wait_for(lambda: two.progress("unwanted")["pages"]["split"] >= 20, seconds=60)
    assert httpx2.delete(f"{two.url}/uploads/unwanted", timeout=60).status_code == 202
    wait_for(lambda: two.progress("big")["pages"]["embedded"] >= 500, seconds=60)
    (client,) = {line.split()[3] for line in one.lines if " works on default, " in line}
    # Stopped at work, so that it does not get to the end of it.
    one.process.send_signal(signal.SIGSTOP)
    one.process.kill()
    one.process.wait()
    lost = two.rows(
        "select kind, count(*) from river_job where state = 'running'"
        f" and attempted_by[array_upper(attempted_by, 1)] = '{client}' group by kind"
    )
    assert lost

    rest = two.finished("unwanted")
    assert rest["cancelled"] > 0
    assert rest["completed"] + rest["cancelled"] == 300
    ended = two.finished("big", seconds=200)
    assert (ended["total"], ended["completed"], ended["failed"]) == (4000, 3920, 80)
    assert ended["pages"] == {"split": 4800, "embedded": 4760, "indexed": 4720}
    # Each page once, and none that should not be there.
    assert indexed(two, "big") == expected(4000)
    assert two.rows("select 1 from river_job where errors::text like '%Stuck job rescued%'")
    open_jobs = (
        "select kind, state::text, count(*) from river_job"
        " where state not in ('completed', 'cancelled', 'discarded') group by 1, 2"
    )
    wait_for(lambda: not two.rows(open_jobs))
