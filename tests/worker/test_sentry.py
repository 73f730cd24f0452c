"""The program of docs/jobs/sentry.md in a worker process, and a server in Sentry's place."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.docs.programs import DOCS, program
from tests.worker.conftest import StartWorker, wait_for


class SentryServer:
    """Takes envelopes, and keeps the items in them."""

    def __init__(self) -> None:
        self.items: list[tuple[str, dict[str, Any]]] = []
        kept = self.items

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                _, *lines = body.decode().splitlines()
                pairs = zip(lines[::2], lines[1::2], strict=True)
                kept.extend((json.loads(head)["type"], json.loads(item)) for head, item in pairs)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.dsn = f"http://key@127.0.0.1:{self._server.server_port}/1"

    def first(self, type: str) -> dict[str, Any]:
        """Return the first item of that type, once it is there."""
        return next(
            item
            for found, item in wait_for(lambda: [one for one in list(self.items) if one[0] == type])
        )

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def sentry_server() -> Iterator[SentryServer]:
    server = SentryServer()
    yield server
    server.close()


@pytest.mark.long
def test_the_guides_worker_reports_to_sentry(
    start_worker: StartWorker, sentry_server: SentryServer, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(program(DOCS / "jobs/sentry.md"), encoding="utf-8")
    with start_worker(
        "jobs:client", folder=tmp_path, SENTRY_DSN=sentry_server.dsn, RIVERUI_RELEASE="shop@1.4"
    ) as worker:
        job = worker.insert("report")
        worker.until(job, "retryable")
        event = sentry_server.first("event")
        worker.stop()
    assert event["exception"]["values"][-1]["value"] == "no figures"
    assert event["contexts"]["river job"]["url"] == f"https://jobs.example/riverui/jobs/{job}"
    assert event["contexts"]["river job"]["attempt"] == 1
    assert event["release"] == "shop@1.4"
    crumbs = [crumb.get("message") for crumb in event["breadcrumbs"]["values"]]
    assert crumbs == ["the report of this month"]
    attempts = [
        found["contexts"]["river job"]["attempt"]
        for name, found in sentry_server.items
        if name == "event"
    ]
    assert attempts == list(range(1, len(attempts) + 1))
