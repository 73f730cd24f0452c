"""Tables of riverui's own: the migration line `riverui` makes them, and nobody does so unasked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from riverui.storage.interface.capabilities import Capability, Offering

LINE = "riverui"
"""The line of migrations that makes them."""


@dataclass(frozen=True, slots=True)
class OwnTable:
    """One table, and the migration of the line that makes it."""

    name: str
    version: int

    @property
    def remedy(self) -> str:
        """Return the command that makes the table."""
        return f"riverui migrate-up --line {LINE}"

    @property
    def missing(self) -> str:
        """Return what is missing where the table is not there, as part of a sentence."""
        return f"migration {self.version:03} of the line {LINE}"

    async def exists(self, executor: Offering) -> bool:
        """Return whether the table is there. NotSupported where the driver has no own tables."""
        return self.name in await OWN_TABLES.on(executor).own_table_list()


class OwnTableSize(Struct, frozen=True, kw_only=True):
    """How large one table is."""

    name: str
    rows_estimated: int
    """-1 before anybody has counted."""
    bytes: int
    """With its indexes and TOAST."""


class OwnTablesExecutor(Protocol):
    """Tells which of riverui's own tables there are."""

    async def own_table_list(self) -> frozenset[str]:
        """Return the names of the tables that begin with `riverui_`."""
        ...

    async def own_table_size_list(self) -> Sequence[OwnTableSize]:
        """Return how large each of them is, by name."""
        ...


OWN_TABLES: Capability[OwnTablesExecutor] = Capability(
    "own_tables",
    "riverui has no tables of its own here: what needs one is kept in each process.",
)
