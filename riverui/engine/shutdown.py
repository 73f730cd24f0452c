"""Stops a process that works jobs: wait for them, cancel them, abandon them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol


class StoppableClient(Protocol):
    """The part of a working client that stopping its process needs."""

    id: str
    logger: logging.Logger

    @property
    def running(self) -> int:
        """How many jobs are running."""
        ...

    async def start(self) -> None:
        """Start working jobs."""
        ...

    async def stop(self) -> None:
        """Stop fetching jobs, and wait for the running ones."""
        ...

    async def stop_and_cancel(self) -> None:
        """Stop, and cancel the running jobs."""
        ...

    async def stop_and_abandon(self) -> None:
        """Stop without waiting for jobs."""
        ...


def leave_process() -> None:
    """End the process with code 1 at once, as unresponsive tasks and threads would block a regular
    exit.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(1)


async def serve(
    client: StoppableClient,
    *,
    soft_stop: timedelta | None,
    hard_stop: timedelta | None,
    leave: Callable[[], object] = leave_process,
) -> None:
    """Work jobs until SIGINT or SIGTERM, and then stop in three phases: see `stop_in_phases`."""
    with signals() as asked:
        await client.start()
        await asked.get()
        if not await stop_in_phases(client, asked, soft_stop=soft_stop, hard_stop=hard_stop):
            leave()


async def stop_in_phases(
    client: StoppableClient,
    asked: asyncio.Queue[None],
    *,
    soft_stop: timedelta | None,
    hard_stop: timedelta | None,
) -> bool:
    """Wait for running jobs, then cancel them, then abandon them; return whether all of them ended.

    The next phase begins after `soft_stop` and `hard_stop` (None: never), or with an entry in
    `asked`.
    """
    client.logger.info("stopping: running jobs may finish%s", _for(soft_stop), extra=_now(client))
    if await _ended(client.stop(), asked, soft_stop):
        return True
    client.logger.warning(
        "cancelling the jobs still running%s", _for(hard_stop), extra=_now(client)
    )
    if await _ended(client.stop_and_cancel(), asked, hard_stop):
        return True
    client.logger.error(
        "exiting with jobs still running: they will be rescued later", extra=_now(client)
    )
    await client.stop_and_abandon()
    return False


@contextmanager
def signals() -> Iterator[asyncio.Queue[None]]:
    """Return a queue that receives SIGINT and SIGTERM, instead of their default actions."""
    asked: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, asked.put_nowait, None)
    try:
        yield asked
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _ended(
    stopping: Coroutine[Any, Any, None], asked: asyncio.Queue[None], seconds: timedelta | None
) -> bool:
    """Return whether the stop ended in time, and before the next phase was requested; it continues
    in any case.
    """
    stopped, signalled = asyncio.ensure_future(stopping), asyncio.ensure_future(asked.get())
    try:
        await asyncio.wait(
            {stopped, signalled},
            timeout=None if seconds is None else seconds.total_seconds(),
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        signalled.cancel()
        if not stopped.done():
            # Only the waiting is cancelled.
            stopped.cancel()
    return stopped.done() and not stopped.cancelled() and stopped.result() is None


def _for(span: timedelta | None) -> str:
    return "" if span is None else f", for {span.total_seconds():g} s"


def _now(client: StoppableClient) -> dict[str, object]:
    return {"client": client.id, "running": client.running}
