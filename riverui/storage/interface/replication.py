"""Where a server stands in the stream of changes that its standbys follow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from riverui.storage.interface.capabilities import Capability


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationRow:
    """One server at one moment."""

    standby: bool
    """Whether it follows another server and takes no changes."""
    position: int | None
    """Bytes of changes since the beginning: written for good on a primary, readable on a standby.
    None where the server does not tell.
    """
    system: str
    """What a primary and its standbys have in common and no other servers; empty where it is not
    told.
    """
    behind: timedelta | None
    """Age of the newest change that a standby shows, by its own clock; None where it shows none."""


class ReplicationExecutor(Protocol):
    """Tells where a server stands."""

    async def replication_get(self) -> ReplicationRow:
        """Return where the server stands."""
        ...


REPLICATION: Capability[ReplicationExecutor] = Capability(
    "replication", "Pages are not read from a standby: how far it is behind cannot be told."
)
