"""Log lines as key=value pairs or JSON, and one line for each request."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.web.dashboard import VISIT, Visit

log = logging.getLogger("riverui.http")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
"""What every record carries; anything else was given as `extra` and is told."""


def pairs(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """What a line tells: time (UTC), level, message, then the extras, and a traceback last."""
    yield "time", datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    yield "level", "WARN" if record.levelno == logging.WARNING else record.levelname
    yield "msg", record.getMessage()
    yield from ((key, value) for key, value in vars(record).items() if key not in _STANDARD)
    if record.exc_info:
        yield "traceback", logging.Formatter().formatException(record.exc_info)


class TextFormatter(logging.Formatter):
    """`key=value` pairs; a value that is not plain is quoted, so no value can forge a line or a pair."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback follows on lines of its own, indented."""
        told = dict(pairs(record))
        traceback = told.pop("traceback", None)
        line = " ".join(f"{key}={_plain(value)}" for key, value in told.items())
        return f"{line}\n    " + str(traceback).replace("\n", "\n    ") if traceback else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, in ASCII."""
        return json.dumps(dict(pairs(record)), default=str)


class AccessLog:
    """Logs method, path, status, duration and user of each request, and gives it its id."""

    def __init__(self, app: ASGIApp, *, silent_healthchecks: bool = False) -> None:
        self._app = app
        self._silent_healthchecks = silent_healthchecks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = scope[VISIT] = Visit(id=secrets.token_hex(6))
        began = time.perf_counter()
        status = 500

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            if not (self._silent_healthchecks and visit.route == "health"):
                told = {
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "duration_ms": round((time.perf_counter() - began) * 1000, 1),
                    "id": visit.id,
                }
                if visit.access is not None and visit.access.user:
                    told["user"] = visit.access.user
                log.info("request", extra=told)


def _plain(value: object) -> str:
    text = str(value)
    if text and all(char.isalnum() or char in "-._:/+~@" for char in text) and text.isascii():
        return text
    return json.dumps(text)
