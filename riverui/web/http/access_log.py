"""One log line for each request."""

from __future__ import annotations

import logging
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.web.http.context import VISIT, Visit

log = logging.getLogger("riverui.http")


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
