"""A connection that one part of a client keeps for itself, or borrows from the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import TypeVar

from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.storage.interface import WORKING, Driver, Executor

T = TypeVar("T")


def is_outcome_unknown(error: BaseException) -> bool:
    """Return whether the statement may have been executed despite this error, or may still be."""
    return not isinstance(error, DatabaseError) or isinstance(error, DatabaseUnavailable)


class DedicatedConnection:
    """A connection outside the pool, opened at first use and reopened when lost. Without `keeps`,
    each call borrows one from the pool.
    """

    def __init__(self, driver: Driver, *, timeout: timedelta, keeps: bool = True) -> None:
        self._driver = driver
        self._keeps = keeps
        self._executor: Executor | None = None
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._timeout = timeout

    async def call(self, statement: Callable[[Executor], Awaitable[T]]) -> T:
        """Return the result of a statement; calls run one at a time, each committed by itself.

        DatabaseUnavailable if the database cannot be reached.
        """
        if not self._keeps:
            async with self._driver.autocommit(timeout=self._timeout) as executor:
                return await statement(executor)
        async with self._lock:
            if self._executor is None:
                self._executor = await self._stack.enter_async_context(
                    WORKING.on(self._driver).session(timeout=self._timeout)
                )
            try:
                return await statement(self._executor)
            except BaseException as error:
                # After a plain error the connection is still usable; in doubt it is closed.
                if is_outcome_unknown(error):
                    await self._disconnect()
                raise

    async def call_in_transaction(self, statements: Callable[[Executor], Awaitable[T]]) -> T:
        """Return the result of statements that run in one transaction.

        They run on a connection of the pool, under the same time limit: a session commits each
        statement by itself.
        """
        async with self._driver.transaction(timeout=self._timeout) as transaction:
            return await statements(transaction)

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        async with self._lock:
            await self._disconnect()

    async def _disconnect(self) -> None:
        self._executor = None
        with suppress(DatabaseError, OSError):
            await self._stack.aclose()
