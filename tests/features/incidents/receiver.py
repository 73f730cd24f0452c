"""A server on this machine that is sent alerts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

CUT = 0
"""An answer that ends the connection instead."""


class Got(NamedTuple):
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return what was posted."""
        return json.loads(self.body)


class Receiver:
    """Keeps requests, and answers as it is asked to, else with 200."""

    def __init__(self, address: str) -> None:
        self.address = address
        """Host and port."""
        self.got: list[Got] = []
        self.answers: list[int] = []

    def answer(self) -> int:
        """Return the status of the next answer."""
        return self.answers.pop(0) if self.answers else 200


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(Got(self.path, dict(self.headers), body))
            status = receiver.answer()
            if status == CUT:
                self.close_connection = True
                return
            self.send_response(status)
            if status in (301, 307):
                self.send_header("Location", f"http://{receiver.address}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
