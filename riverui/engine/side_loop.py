"""A thread with its own event loop, for work that a busy client must not delay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any

_LAST_TURNS = 5.0
"""Seconds that an ended thread gets to close its loop while its owner waits."""


class SideLoop:
    """Runs one coroutine in its own thread. Call all methods in the loop that created it."""

    def __init__(self, name: str) -> None:
        self._home = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name = name

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work to its end, and raise its exception.

        When cancelled, it cancels the work and waits for its end.
        """
        ended: asyncio.Future[None] = self._home.create_future()
        self._loop = loop = asyncio.new_event_loop()
        task = loop.create_task(work())

        def serve() -> None:
            error = _served(loop, task)
            # The owner's loop may be closed already, if its program ended without stopping the
            # client.
            with suppress(RuntimeError):
                self._home.call_soon_threadsafe(_settle, ended, error)

        # With the current context variables, in which code finds its client.
        thread = threading.Thread(
            target=copy_context().run, args=(serve,), name=self._name, daemon=True
        )
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.call_soon(task.cancel)
            await ended
            raise
        finally:
            if ended.done():
                thread.join(_LAST_TURNS)

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call the function in the thread's loop soon; do nothing if that loop has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, *arguments)


class SameLoop:
    """Runs one coroutine in the current event loop, in place of a SideLoop."""

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work to its end, and raise its exception."""
        await work()

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call the function."""
        function(*arguments)


class HomeLoop:
    """A client's event loop as seen from a side thread. Call all methods in the thread's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._asked_at: float | None = None
        self._loop = loop
        self._now = now

    @property
    def silence(self) -> float:
        """Seconds since the first unanswered `ask`, or 0 if all were answered."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else self._now() - asked_at

    def ask(self) -> None:
        """Ask the loop to answer, to see whether it is blocked; see `silence`."""
        if self._asked_at is None:
            self._asked_at = self._now()
            # A closed loop never answers.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer)

    async def answers(self) -> None:
        """Wait for the loop's next turn."""
        await self.do(_nothing)

    async def do(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work in the client's loop. When cancelled, cancel the work there and wait for its
        end.

        CancelledError if that loop is closed.
        """
        own_loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = own_loop.create_future()
        tasks: list[asyncio.Future[None]] = []

        def over(task: asyncio.Future[None]) -> None:
            error = None if task.cancelled() else task.exception()
            with suppress(RuntimeError):
                own_loop.call_soon_threadsafe(_settle, ended, error)

        def begin() -> None:
            tasks.append(asyncio.ensure_future(work()))
            tasks[0].add_done_callback(over)

        def end() -> None:
            tasks[0].cancel()

        try:
            self._loop.call_soon_threadsafe(begin)
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                self._loop.call_soon_threadsafe(end)
                await ended
                raise
        except RuntimeError as error:
            if not self._loop.is_closed():
                raise
            # The program has ended without stopping its client: there is nothing left to work for.
            raise asyncio.CancelledError from error

    def _answer(self) -> None:
        self._asked_at = None


def _served(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> BaseException | None:
    """Run the loop until the task ends, and close it; return the task's exception."""
    asyncio.set_event_loop(loop)
    error: BaseException | None = None
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError:
        pass
    except BaseException as raised:
        error = raised
    finally:
        left = asyncio.all_tasks(loop)
        for other in left:
            other.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    return error


async def _nothing() -> None:
    pass


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)
