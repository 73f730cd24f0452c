"""A driver that measures its transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

from riverui.storage.interface import Driver, Executor, Transaction

_Executor = TypeVar("_Executor", bound=Executor)


class MeasuredDriver:
    """Wraps a driver and measures its transactions from the wait for a connection to their end.

    `note` is called with "read" or "write", and the seconds.
    """

    def __init__(self, driver: Driver, note: Callable[[str, float], None]) -> None:
        self._driver = driver
        self._note = note

    def __getattr__(self, name: str) -> Any:
        # Drivers may have more methods than the interface; pass them through.
        return getattr(self._driver, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Return the driver's own read-only transaction, measured."""
        return self._measured("read", self._driver.reading(timeout=timeout))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Return the driver's own transaction, measured."""
        return self._measured("write", self._driver.transaction(timeout=timeout))

    def _measured(
        self, access: str, transaction: AbstractAsyncContextManager[_Executor]
    ) -> AbstractAsyncContextManager[_Executor]:
        return _Measured(transaction, access, self._note)


class _Measured(AbstractAsyncContextManager[_Executor]):
    """One transaction that is measured."""

    __slots__ = ("_access", "_note", "_started", "_transaction")

    def __init__(
        self,
        transaction: AbstractAsyncContextManager[_Executor],
        access: str,
        note: Callable[[str, float], None],
    ) -> None:
        self._transaction = transaction
        self._access = access
        self._note = note

    async def __aenter__(self) -> _Executor:
        self._started = time.monotonic()
        try:
            return await self._transaction.__aenter__()
        except BaseException:
            self._note(self._access, time.monotonic() - self._started)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._transaction.__aexit__(kind, error, trace)
        finally:
            self._note(self._access, time.monotonic() - self._started)
