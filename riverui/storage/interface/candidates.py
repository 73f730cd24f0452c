"""Waiting jobs that may be fetched, with the keys of their partitions, and taking those chosen.

Neither read locks anything, nor sorts a backlog: jobs come in the order in which they would be
fetched, up to a window, or a few of each key by an index that is made for the partition when
somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import Partition
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.engine_params import JobFetchParams


class Candidate(NamedTuple):
    """A job that may be fetched."""

    id: int
    kind: str
    keys: Mapping[Partition, str]
    """Its key in each partition that was asked for."""


Full = Mapping[Partition, Collection[str]]
"""Keys of which no job can be taken now, so that none is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRange:
    """Which keys of a partition are looked at, and how many jobs of each."""

    partition: Partition
    per_key: int
    keys: int
    """At most so many keys, in their own order."""
    after: str = ""
    """Only keys behind this one."""


class KeyPage(NamedTuple):
    """Jobs of some keys."""

    candidates: Sequence[Candidate]
    last_key: str | None
    """The last key that was looked at; None where there are no more behind it."""


class CandidateExecutor(Protocol):
    """Reads jobs that may be fetched, and takes those that were chosen."""

    async def job_candidate_list(
        self,
        params: JobFetchParams,
        partitions: Collection[Partition],
        *,
        window: int,
        full: Full | None = None,
        few: KeyRange | None = None,
    ) -> Sequence[Candidate]:
        """Return up to `params.limit` jobs in the order in which they would be fetched, out of the
        first `window` waiting ones; of each key only the first `few.per_key`.
        """
        ...

    async def job_candidate_list_by_key(
        self,
        params: JobFetchParams,
        partitions: Collection[Partition],
        *,
        keys: KeyRange,
        full: Full | None = None,
    ) -> KeyPage:
        """Return the first jobs of each of some keys, all of them in the order in which they would
        be fetched, whatever waits before them; `params.limit` is not looked at.

        It needs the partition's index: without it, it reads all waiting jobs of the queue.
        """
        ...

    async def job_claim(self, params: JobFetchParams, ids: Sequence[int]) -> Sequence[JobRow]:
        """Make those of the jobs running that are available still, as job_get_available does, and
        return them; those that somebody else is taking are left out.
        """
        ...

    async def partition_index_list(self) -> Collection[str]:
        """Return the names of those indexes of partitions that can be used."""
        ...

    async def partition_index_create(self, partition: Partition) -> None:
        """Make a partition's index, or make it anew where it was left broken; writers go on.

        Not inside a transaction.
        """
        ...

    async def partition_index_drop(self, partition: Partition) -> None:
        """Drop a partition's index, if it is there. Not inside a transaction."""
        ...


CANDIDATES: Capability[CandidateExecutor] = Capability(
    "candidates",
    "Jobs cannot be chosen by their args or kinds on this database: there are no limits, rates or"
    " shares of partitions.",
)
