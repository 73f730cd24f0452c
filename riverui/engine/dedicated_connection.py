"""A connection that one part of a client keeps to itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import TypeVar

from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.storage.interface import WORKING, Driver, EngineExecutor

T = TypeVar("T")

STATEMENT_TIMEOUT = timedelta(seconds=10)
"""River's, for fetching and completing."""


class Line:
    """Dialled at first use, and again after it was lost."""

    def __init__(self, driver: Driver, *, timeout: timedelta = STATEMENT_TIMEOUT) -> None:
        self._driver = driver
        self._executor: EngineExecutor | None = None
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._timeout = timeout

    async def call(self, statement: Callable[[EngineExecutor], Awaitable[T]]) -> T:
        """What the statement gives; one at a time. DatabaseUnavailable where there is no
        database.
        """
        async with self._lock:
            if self._executor is None:
                self._executor = await self._stack.enter_async_context(
                    WORKING.on(self._driver).session(timeout=self._timeout)
                )
            try:
                return await statement(self._executor)
            except BaseException as error:
                # After a plain error the connection is as good as before; in doubt it is given up.
                if not isinstance(error, DatabaseError) or isinstance(error, DatabaseUnavailable):
                    await self._hang_up()
                raise

    async def close(self) -> None:
        """Hangs up; safe to call twice."""
        async with self._lock:
            await self._hang_up()

    async def _hang_up(self) -> None:
        self._executor = None
        with suppress(DatabaseError, OSError):
            await self._stack.aclose()
