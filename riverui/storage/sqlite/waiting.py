"""Wait for a turn to write, and for statements, with and without an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol, TypeVar

from riverui.errors import LockTimeout

T = TypeVar("T")

TOO_LONG = "Another transaction wrote to the SQLite file for too long."


class Turns:
    """Whose turn it is to write, among the threads and event loops of this process: first come,
    first served. SQLite itself lets anybody win, so that a busy worker would starve the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Future[None] | None = None
        self._waiting: deque[Future[None]] = deque()

    def take(self) -> Future[None]:
        """Return what is done once it is the caller's turn, who has to give it back then."""
        turn: Future[None] = Future()
        with self._lock:
            if self._holder is not None:
                self._waiting.append(turn)
                return turn
            self._holder = turn
        turn.set_result(None)
        return turn

    def give(self, turn: Future[None]) -> None:
        """Give a turn back, or stop to wait for it; safe to call twice."""
        turn.cancel()
        with self._lock:
            if self._holder is not turn:
                return
            self._holder = None
            while self._waiting:
                following = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    self._holder = following
                    following.set_result(None)
                    return


class Waiting(Protocol):
    """How a driver waits."""

    async def pause(self, seconds: float) -> None:
        """Wait so long."""
        ...

    async def turn(self, turn: Future[None], seconds: float) -> None:
        """Return once it is the caller's turn; LockTimeout after so many seconds."""
        ...

    async def run(self, statements: Callable[[], T]) -> T:
        """Return the result of a function that runs statements."""
        ...


class Blocking:
    """Waits in the caller's thread: there may be no event loop."""

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)  # noqa: ASYNC251

    async def turn(self, turn: Future[None], seconds: float) -> None:
        """Wait for the turn; LockTimeout after so many seconds."""
        try:
            turn.result(seconds)
        except TimeoutError:
            raise LockTimeout(TOO_LONG) from None

    async def run(self, statements: Callable[[], T]) -> T:
        """Call the function."""
        return statements()


class InLoop:
    """Waits while other tasks run; statements run in threads, as they may wait for the disk."""

    def __init__(self, threads: Callable[[], Executor] | None) -> None:
        """Use these threads; None for statements on a connection of the caller's thread."""
        self._threads = threads

    async def pause(self, seconds: float) -> None:
        """Let other tasks run for so long."""
        await asyncio.sleep(seconds)

    async def turn(self, turn: Future[None], seconds: float) -> None:
        """Wait for the turn; LockTimeout after so many seconds."""
        if turn.done():
            return
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wrap_future(turn)
        except TimeoutError:
            raise LockTimeout(TOO_LONG) from None

    async def run(self, statements: Callable[[], T]) -> T:
        """Call the function in a thread."""
        if self._threads is None:
            return statements()
        return await self.result(self._threads().submit(statements))

    async def result(self, future: Future[T]) -> T:
        """Return the result of what a thread runs. A cancelled caller waits for its end too, if it
        has begun: its connection is in use until then.
        """
        waiting = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not future.cancel():
                await asyncio.wait([waiting])
            raise
