"""Rebuilding indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from riverui.storage.interface.capabilities import Capability


class IndexExecutor(Protocol):
    """Lists, rebuilds and drops indexes of River's tables."""

    async def index_list(self) -> Sequence[str]:
        """Return names of the indexes on River's tables, artefacts of broken rebuilds included."""
        ...

    async def index_reindex(self, name: str) -> None:
        """Rebuild an index while the tables are used; not inside a transaction."""
        ...

    async def index_drop(self, name: str) -> None:
        """Drop an index, if it is there, while the tables are used; not inside a transaction."""
        ...


REINDEXING: Capability[IndexExecutor] = Capability(
    "reindexing", "Indexes are not rebuilt: the reindexer does not run."
)
