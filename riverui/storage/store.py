"""Base class of stores, which run the statements of one feature."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from riverui.errors import NotSupported
from riverui.storage.interface import SQL
from riverui.storage.tables import complete

if TYPE_CHECKING:
    from riverui.storage.interface import Executor, Offering


class Store:
    """Statements of one feature, on the connection and in the transaction of an executor."""

    def __init__(self, executor: Executor) -> None:
        """Raise NotSupported if the store has no statements for the database."""
        if not self.supported(executor):
            raise NotSupported(SQL.missing)
        self._sql = executor.sql

    @classmethod
    def supported(cls, offering: Offering) -> bool:
        """Return whether the store has statements for the database: SQLite's are in
        `store.sqlite.sql` beside it.
        """
        return SQL in offering.capabilities or _has_sqlite(cls.__module__)

    @classmethod
    async def installed(cls, executor: Executor) -> bool:
        """Return whether the store has statements for the database, and the database the tables of
        riverui.
        """
        return cls.supported(executor) and await complete(executor)


@cache
def _has_sqlite(module: str) -> bool:
    file = sys.modules[module].__file__
    return file is not None and Path(file).with_suffix(".sqlite.sql").exists()
