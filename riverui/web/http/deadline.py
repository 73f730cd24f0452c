"""Answer with an error when a response takes too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from riverui.web.http.request_context import RequestContext


class Deadline:
    """Cancel the app inside, and answer in its place, if no response has begun by the deadline in
    the request's context.

    Each statement has a time limit of its own, but a page runs several. The answer is sent at once,
    while the cancelled code may take its time to end: psycopg first asks the server to cancel,
    which may hang.
    """

    def __init__(
        self,
        context: RequestContext,
        *,
        begun: Callable[[], bool],
        answer: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._answer = answer
        self._answering: asyncio.Task[None] | None = None
        self._begun = begun
        self._context = context

    @property
    def passed(self) -> bool:
        """Whether the deadline's own answer is being sent."""
        return self._answering is not None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._inside, self._before = task, task.cancelling()
        self._schedule()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._alarm.cancel()
        if self._answering is None:
            return False
        # As asyncio.timeout does: another cancellation may have come as well.
        ours = self._inside.uncancel() <= self._before
        if kind is asyncio.CancelledError and not ours:
            return False
        await self._answering
        return True

    def _schedule(self) -> None:
        rest = self._context.answer_by - time.monotonic()
        self._alarm = asyncio.get_running_loop().call_later(rest, self._look)

    def _look(self) -> None:
        if self._begun():
            return
        if self._context.answer_by > time.monotonic():
            # The handler has extended the deadline.
            self._schedule()
            return
        self._answering = asyncio.create_task(self._answer())
        self._inside.cancel()
