"""Threads for synchronous jobs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from riverui.engine.work import django_connections


class WorkerThreads:
    """Up to `most` threads, which may be raised; they are started on demand.

    They are daemons: a job that never returns cannot keep the process from ending. `given` is the
    number of existing threads that call `serve`.
    """

    def __init__(self, most: int, *, given: int = 0) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.most = most
        self._threads = given
        self._unfinished = 0

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        asked: Callable[[], None] | None = None,
    ) -> Any:
        """Run the function in a thread, with this task's context variables, and return its result.

        A running function cannot be interrupted: when cancelled, this still waits for the function,
        and calls `asked` each time.
        """
        call = _Call(function, arguments)
        self._unfinished += 1
        self._calls.put(call)
        if self._unfinished > self._threads < self.most:
            self._threads += 1
            name = f"riverui-worker-{self._threads}"
            threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        try:
            return await call.result(asked)
        finally:
            self._unfinished -= 1

    def serve(self) -> None:
        """Run calls in the current thread, one of those given, until `close`."""
        _serve(self._calls)

    def close(self) -> None:
        """End the threads after they have run all calls."""
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0


class _Call:
    """One call; everything but `run` happens in the event loop."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._arguments = arguments
        self._begun = threading.Lock()
        self._context: Context = copy_context()
        self._error: BaseException | None = None
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._over = False
        self._value: Any = None
        self._waiter: asyncio.Future[None] = self._loop.create_future()

    def run(self) -> None:
        """Call the function in this thread, unless the call was cancelled."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            django_connections.close_old()
            self._value = self._context.run(self._function, *self._arguments)
        except BaseException as error:
            # Even an error that should end the thread or the program belongs to this job only.
            self._error = error
        # An error of its connections is not the job's: the next one will get it.
        with suppress(Exception):
            django_connections.close_old()
        # The loop may be closed, if the client did not wait for this thread.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    async def result(self, asked: Callable[[], None] | None) -> Any:
        """Return the function's result, or raise its exception."""
        while not self._over:
            try:
                await self._waiter
            except asyncio.CancelledError:
                if self._begun.acquire(blocking=False):
                    raise
                self._waiter = self._loop.create_future()
                if asked is not None:
                    asked()
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = None

    def _finish(self) -> None:
        self._over = True
        if not self._waiter.done():
            self._waiter.set_result(None)


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        call.run()
        # Not kept while waiting for the next one, as it may be large.
        del call
