"""Sequences, jobs that run one at a time in the order of their ids, kept in tables of riverui's
own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from riverui.domain.sequences import SequencePlace
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

SEQUENCE_TABLE = OwnTable("riverui_sequence", 10)
"""Where keys are kept, one row each."""
SEQUENCE_DRY = OwnTable("riverui_sequence", 15)
"""With the column that tells keys without a head apart."""
PRO_SEQUENCE_TABLE = "river_job_sequence"
"""River Pro's table of keys to look at."""


class Claim(StrEnum):
    """What an insert finds of a key, and holds until its transaction ends."""

    OURS = "ours"
    """Nobody is ahead: the first job may run, and whoever else comes waits for this transaction."""
    BUSY = "busy"
    """A job is ahead, or was until just now: jobs go behind it."""


class Claims(NamedTuple):
    """What an insert finds of its keys."""

    of_key: Mapping[str, Claim]
    pro: bool
    """Whether River Pro's own sequences are in this database."""


class SequenceKey(NamedTuple):
    """The sequence that a job's metadata names."""

    key: str
    ours: bool
    """Whether riverui put the job there; River Pro otherwise."""


class SequenceLook(NamedTuple):
    """A key, as the leader goes through all of them."""

    key: str
    due: bool
    """Whether its head has ended, or is gone, and nobody has acted on that."""
    dry: bool = False
    """Whether it has no head."""


class SequenceExecutor(Protocol):
    """Reads and writes sequences, in transactions. Without their tables every call raises
    SchemaMissing.
    """

    async def sequence_claim(self, keys: Collection[str]) -> Claims:
        """Return what is found of each key, before jobs of these are inserted."""
        ...

    async def sequence_put(
        self, heads: Sequence[tuple[str, int]], waiting: Sequence[tuple[str, int]]
    ) -> None:
        """Write which inserted jobs are at the head of claimed keys, and which wait behind."""
        ...

    async def sequence_advance(
        self, keys: Collection[str], *, over_ids: Collection[int] = ()
    ) -> Sequence[str]:
        """Let the next job of each key run whose head has ended; return the keys that changed. Jobs
        of `over_ids` are known to be completed, or gone.

        What another transaction holds is left to `sequence_sweep`, so that this never waits.
        """
        ...

    async def sequence_key_get_many(self, ids: Sequence[int]) -> Mapping[int, SequenceKey]:
        """Return the sequences of those jobs that are in one."""
        ...

    async def sequence_lock(self, keys: Collection[str]) -> None:
        """Hold keys, made where they are missing, up to the end of the transaction. LockTimeout
        where another holds one for too long.
        """
        ...

    async def sequence_requeue(self, jobs: Sequence[tuple[str, int]]) -> None:
        """Put jobs that have been made pending in line again, under keys that are held. A halted
        head is left behind by that.
        """
        ...

    async def sequence_hand_over(self, keys: Collection[str]) -> bool:
        """Tell River Pro to look at keys; return False where its table cannot be written to as far
        as is known.
        """
        ...

    async def sequence_place(
        self, job_id: int, *, limit: int = 1000, named: int = 3
    ) -> SequencePlace | None:
        """Return where a job stands, up to `limit` jobs counted on each side and the nearest
        `named` of them told; None for a job in no sequence.
        """
        ...

    async def sequence_skip(self, key: str, job_id: int) -> bool:
        """Leave a cancelled or discarded job behind, under a key that is held, so that it halts
        its sequence no more; return False where it did not, and would not when its turn came.
        """
        ...

    async def sequence_dry_list(self, *, after: str, limit: int) -> Sequence[str]:
        """Return keys without a head by name, behind one."""
        ...

    async def sequence_sweep(self, keys: Collection[str]) -> int:
        """Give keys without a head their next job, and forget those that have none; return how many
        were changed or forgotten.
        """
        ...

    async def sequence_look(self, *, after: str, limit: int) -> Sequence[SequenceLook]:
        """Return keys by name, behind one, and what can be told of their heads."""
        ...


SEQUENCES: Capability[SequenceExecutor] = Capability(
    "sequences", "Jobs cannot be run one at a time in the order of their insertion (sequences)."
)
"""Sequences in `riverui_sequence`."""
