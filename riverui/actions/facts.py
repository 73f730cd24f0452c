"""Read facts for diagnoses; a fact that cannot be read does not affect the others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Self, TypeVar

from riverui.domain.findings import Unread
from riverui.domain.json import ODD_VALUE
from riverui.errors import DatabaseError
from riverui.storage.interface import Driver, Executor

log = logging.getLogger("riverui")

_Fact = TypeVar("_Fact")


class FactReader:
    """Reads facts in one transaction; after a fact that fails, it begins another transaction."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._stack = AsyncExitStack()
        self._executor: Executor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def fact(self, read: Callable[[Executor], Awaitable[_Fact]]) -> _Fact | Unread:
        """Return what `read` returns, or Unread if it fails."""
        try:
            if self._executor is None:
                self._executor = await self._stack.enter_async_context(self._driver.reading())
            return await read(self._executor)
        except DatabaseError as error:
            await self._end()
            return Unread(why=error.public)
        except ODD_VALUE:
            # Whatever the tables hold, the other facts are still reported.
            log.exception("a fact of a diagnosis could not be read")
            await self._end()
            return Unread(why="Its rows hold a value that cannot be read.")

    async def _end(self) -> None:
        self._executor = None
        with suppress(DatabaseError):
            await self._stack.aclose()
