"""A driver that tells how long its transactions take."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from riverui.storage.interface import Driver, Executor, Transaction

_Executor = TypeVar("_Executor", bound=Executor)


class MeasuredDriver:
    """Another driver, whose transactions are measured from the wait for a connection to their end.

    `note` gets "read" or "write", and seconds.
    """

    def __init__(self, driver: Driver, note: Callable[[str, float], None]) -> None:
        self._driver = driver
        self._note = note

    def __getattr__(self, name: str) -> Any:
        # Drivers offer more than every driver must; whatever it is, it is the other one's.
        return getattr(self._driver, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Return the driver's own read-only transaction, measured."""
        return self._measured("read", self._driver.reading(timeout=timeout))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Return the driver's own transaction, measured."""
        return self._measured("write", self._driver.transaction(timeout=timeout))

    @asynccontextmanager
    async def _measured(
        self, access: str, transaction: AbstractAsyncContextManager[_Executor]
    ) -> AsyncIterator[_Executor]:
        started = time.monotonic()
        try:
            async with transaction as executor:
                yield executor
        finally:
            self._note(access, time.monotonic() - started)
