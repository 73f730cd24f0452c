"""Base class of stores, which run the statements of one feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from riverui.storage.interface import Executor


class Store:
    """Statements of one feature, on the connection and in the transaction of an executor."""

    def __init__(self, executor: Executor) -> None:
        self._sql = executor.sql
