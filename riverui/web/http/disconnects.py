"""Ends work that nobody waits for any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

_QUICK = 0.2
"""Seconds within which nearly every answer is there: until then nobody watches the connection."""


@asynccontextmanager
async def ends_with_client(request: Request) -> AsyncIterator[None]:
    """End what is inside once the client hangs up, and raise ClientDisconnect; its statement in the
    database ends with it. The request's body has to be read before.
    """
    watches: list[asyncio.Task[None]] = []

    async def watch(wait: asyncio.Timeout) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        wait.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as wait:
            loop = asyncio.get_running_loop()
            alarm = loop.call_later(_QUICK, lambda: watches.append(loop.create_task(watch(wait))))
            try:
                yield
            finally:
                alarm.cancel()
                for task in watches:
                    task.cancel()
    except TimeoutError:
        if not wait.expired():
            raise
        raise ClientDisconnect from None
