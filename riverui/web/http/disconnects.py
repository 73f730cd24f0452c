"""Cancel requests whose client has disconnected."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.requests import ClientDisconnect, Request

_QUICK = 0.2
"""Seconds within which nearly every answer is ready: the connection is watched only after that."""


class EndsWithClient:
    """Cancel the app inside once the client disconnects, together with its statement in the
    database, and raise ClientDisconnect. The request's body has to be read before.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._watching: asyncio.Task[None] | None = None
        self._gone = False

    async def __aenter__(self) -> None:
        self._inside = asyncio.current_task()
        self._before = self._inside.cancelling() if self._inside else 0
        self._alarm = asyncio.get_running_loop().call_later(_QUICK, self._begin)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._alarm.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if not self._gone or self._inside is None:
            return
        # As asyncio.timeout does: another cancellation may have come as well.
        others = self._inside.uncancel() > self._before
        if kind is asyncio.CancelledError and not others:
            raise ClientDisconnect from error

    def _begin(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        if self._inside is not None:
            self._gone = True
            self._inside.cancel()
