"""How many bytes of WAL a job writes, from the size of its row; and the costs of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from riverui.domain.figures import Tally

_INSERT = 31
"""Bytes of the record of a new row besides its data: headers and alignment."""
_UPDATE = 50
"""Bytes of the record of a changed row besides its data."""
_LOCKS = 80
"""Bytes that a fetch or an outcome writes to lock a row: one record or two of 54 bytes."""
_TREES = 232
"""Bytes of a row's entries in the B-trees of the primary key, kinds and fetching, with their share
of split pages, without the names of kind and queue.
"""
_FINISHED = 70
"""Bytes of the entry of a finished job in the index of states."""
_INVERTED = 292
"""Bytes of the two records for the GIN indexes of args and metadata besides their entries."""
_TOAST = 1.1
"""Bytes of WAL for each byte that is stored out of line: chunks of 2 kB have headers, and an index.
"""
_WRITES_PER_ATTEMPT = 2
"""Row versions of an attempt: its fetch and its outcome."""


class JobSizes(Struct, frozen=True, kw_only=True):
    """Mean sizes of some jobs of a kind, in bytes as stored."""

    args: float
    row: float
    """The row, without what is stored out of line."""
    added: float
    """What working has added to it: workers, errors, log and output."""
    toasted: float
    """What is stored out of line."""
    names: float
    """Names of kind and queue, and a unique key, as they are in indexes."""
    entries: float
    """Entries of the GIN indexes of args and metadata."""

    def wal(self, attempts: float = 1.0) -> float:
        """Return how many bytes of WAL a job of so many attempts writes until it has ended, without
        full-page images.
        """
        version = _TREES + self.names + _INVERTED + self.entries
        inserted = _INSERT + self.row - self.added + _TOAST * self.toasted + version
        # Some is there from the fetch on, most comes with the outcome.
        change = _UPDATE + self.row - self.added / 2 + _LOCKS + version
        return inserted + _WRITES_PER_ATTEMPT * attempts * change + _FINISHED


class StatementMeans(Struct, frozen=True, kw_only=True):
    """What the server measured of River's statements, for a job of one attempt."""

    wal: float
    """Bytes of WAL, with full-page images."""
    seconds: float
    """How long they ran."""


class Measured(Struct, frozen=True, kw_only=True):
    """How the server's measurement compares with the sizes of rows."""

    factor: float
    """Measured WAL, relative to what the sizes of rows let expect."""
    seconds: float
    """How long River's statements ran for a job of one attempt, of any kind."""


class KindCost(Struct, frozen=True, kw_only=True):
    """What the jobs of a kind that ended in a window cost; None for what was not measured."""

    kind: str
    """`OTHER` for the sum of all other kinds."""
    jobs: int
    """How many ended."""
    spent: timedelta
    """How long attempts took slots of workers."""
    cpu: timedelta | None
    """Processor time of a job, as riverui's workers measured it."""
    args: float | None
    """Bytes of the args of a job, as stored."""
    rows: float | None
    """Row versions that a job writes."""
    wal: float | None
    """Bytes of WAL that a job writes."""
    database: timedelta | None
    """How long River's statements ran for a job."""

    @property
    def spent_each(self) -> timedelta | None:
        """Return the time of workers for one job."""
        return self.spent / self.jobs if self.jobs else None

    @property
    def cpu_total(self) -> timedelta | None:
        """Return the processor time of all jobs."""
        return None if self.cpu is None else self.jobs * self.cpu

    @property
    def args_total(self) -> float | None:
        """Return the bytes of the args of all jobs."""
        return None if self.args is None else self.jobs * self.args

    @property
    def database_total(self) -> timedelta | None:
        """Return how long River's statements ran for all jobs."""
        return None if self.database is None else self.jobs * self.database

    @property
    def wal_total(self) -> float | None:
        """Return the bytes of WAL of all jobs."""
        return None if self.wal is None else self.jobs * self.wal


def measured(
    means: StatementMeans, tallies: Mapping[str, Tally], sizes: Mapping[str, JobSizes]
) -> Measured | None:
    """Return how a measurement compares with the sizes of jobs, weighted by how many ended; None
    without any.
    """
    jobs = sum(tallies[kind].ended for kind in sizes)
    expected = sum(tallies[kind].ended * size.wal() for kind, size in sizes.items())
    if not jobs or not means.wal:
        return None
    return Measured(factor=means.wal * jobs / expected, seconds=means.seconds)


def kind_cost(
    kind: str, tally: Tally, sizes: JobSizes | None, compared: Measured | None
) -> KindCost:
    """Return what the jobs of a kind cost."""
    tried = tally.attempts + tally.snoozed + tally.interrupted
    attempts = max(1.0, tried / tally.ended) if tally.ended else 1.0
    rows = 1 + _WRITES_PER_ATTEMPT * attempts
    factor = compared.factor if compared else 1.0
    return KindCost(
        kind=kind,
        jobs=tally.ended,
        spent=tally.spent,
        cpu=timedelta(microseconds=tally.cpu_us / tally.cpu_attempts * attempts)
        if tally.cpu_attempts
        else None,
        args=sizes.args if sizes else None,
        rows=rows if tally.ended else None,
        wal=factor * sizes.wal(attempts) if sizes else None,
        database=timedelta(seconds=compared.seconds * rows / 3) if compared else None,
    )
