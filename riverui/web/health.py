"""Health checks for load balancers and orchestrators; answered without sign-in, and telling nothing else."""

from __future__ import annotations

import asyncio
import time

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver

NAMES = ("minimal", "complete")
_REMEMBER_SECONDS = 1.0
_PATIENCE_SECONDS = 2.5


class Health:
    """`minimal`: the process answers. `complete`: the database does too (asked at most once a second)."""

    def __init__(self, driver: Driver) -> None:
        self._asking: asyncio.Task[bool] | None = None
        self._asked_at = 0.0
        self._driver = driver

    async def show(self, request: Request) -> Response:
        """`{"status": "ok"}`, or 503 with a message; 404 for other names (River UI's addresses and
        answers).
        """
        name = request.path_params["name"]
        if name not in NAMES:
            raise HTTPException(404, f"There is no health check {name[:40]!r}: use minimal or complete.")
        if name == "complete" and not await self._database_answers():
            return JSONResponse({"message": "The database does not answer."}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def _database_answers(self) -> bool:
        now = time.monotonic()
        asking = self._asking
        if asking is None or (asking.done() and now - self._asked_at > _REMEMBER_SECONDS):
            self._asked_at = now
            asking = self._asking = asyncio.create_task(self._ask())
        # Shielded: one prober that hangs up must not take the answer from the others.
        return await asyncio.shield(asking)

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._driver.ping()
        except (DatabaseError, TimeoutError):
            return False
        return True
