"""One log line for each request."""

from __future__ import annotations

import logging
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.web.http.request_context import CONTEXT, RequestContext

log = logging.getLogger("riverui.http")


class AccessLog:
    """Log method, path, status, duration and user of each request, and give it an id. Refreshes of
    live regions are logged at level debug unless they fail.
    """

    def __init__(self, app: ASGIApp, *, silent_healthchecks: bool = False) -> None:
        self._app = app
        self._silent_healthchecks = silent_healthchecks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and log it once it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = scope[CONTEXT] = RequestContext(id=secrets.token_hex(6))
        began = time.perf_counter()
        status = 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            if not (self._silent_healthchecks and context.route == "health"):
                fields = {
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "duration_ms": round((time.perf_counter() - began) * 1000, 1),
                    "id": context.id,
                }
                if context.access is not None and context.access.user:
                    fields["user"] = context.access.user
                often = context.by_itself and status < 400
                log.log(logging.DEBUG if often else logging.INFO, "request", extra=fields)
