"""Named SQL blocks on one connection: the base of the features' stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from riverui.storage.interface.sql_blocks import Fragment, Rows


class Sql(Protocol):
    """Runs SQL blocks, in whatever transaction the connection is in.

    Every method may raise DatabaseError and its subclasses.
    """

    @property
    def schema(self) -> str | None:
        """The schema of the tables; None leaves it to the search path."""
        ...

    @property
    def backend_pid(self) -> int | None:
        """The process that the server named when the connection was made: that of pg_backend_pid(),
        unless there is a pooler between. None if it is not known.
        """
        ...

    async def tables(self) -> frozenset[str]:
        """Return the names of the optional tables; see riverui.storage.tables."""
        ...

    async def rows(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Rows:
        """Return every row of one block, its slots filled and its parameters given."""
        ...

    async def row(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Any:
        """Return the first row, its columns as attributes; None without one."""
        ...

    async def prepared(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Rows:
        """Return the rows of a statement that runs often and whose plan is always the same."""
        ...

    async def run(self, statement: str) -> None:
        """Run a statement without parameters that returns no rows, such as `savepoint`."""
        ...

    def render(self, fragment: Fragment) -> tuple[str, Sequence[Any]]:
        """Return the text of a block with its slots filled, and the values of its parameters."""
        ...

    def bitmaps(
        self, *, milliseconds: int | None = None, scans: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Allow the statements inside to read GIN indexes, for at most `milliseconds` each; with
        `scans` whole tables too.
        """
        ...

    def trying_bitmaps(self, *, milliseconds: int) -> AbstractAsyncContextManager[None]:
        """Allow the statements inside to use bitmaps; a QueryTimeout ends only these
        statements.
        """
        ...

    async def guarded(self, name: str, parameters: Mapping[str, Any], **slots: Fragment) -> Rows:
        """Return the rows of a block whose failure leaves the transaction usable."""
        ...
