"""What a program says about jobs to insert, and what it is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.args.job_args import JobArgs


@dataclass(frozen=True, kw_only=True, slots=True)
class UniqueOpts:
    """What makes a job unique (River's UniqueOpts). Nothing set: not unique."""

    by_args: bool | Sequence[str] | None = False
    """All args, or the fields marked `Unique`; or top-level keys by name, as River's Python client
    has it.
    """
    by_period: timedelta | int | None = None
    """Counted from year 1 in UTC; an int is seconds, as River's Python client has it."""
    by_queue: bool | None = False
    by_state: Sequence[JobState | str] | None = None
    """Must include available, pending, running and scheduled; default: all but cancelled and
    discarded.
    """
    exclude_kind: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class InsertOpts:
    """How to insert a job; None leaves it to the args' own `insert_opts()`, then to the client."""

    max_attempts: int | None = None
    """From 1; what is above 32,767 counts as that."""
    metadata: dict[str, Any] | None = None
    """Only of the call, as in River: that of the args' own options is not looked at."""
    pending: bool = False
    """Only of the call as well."""
    priority: int | None = None
    """1 (first) to 4."""
    queue: str | None = None
    """Up to 64 of a–z, 0–9, and single `_`, `-` or `|` between them."""
    scheduled_at: datetime | None = None
    """Aware; a job scheduled for the past waits for the scheduler as well."""
    tags: Sequence[str] | None = None
    """Each 3 to 255 of A–Z, a–z, 0–9, `_`, and `-` inside. They replace those of the args."""
    unique_opts: UniqueOpts | None = None
    """Replaces that of the args as a whole."""


@dataclass(frozen=True, slots=True)
class InsertManyParams:
    """One job of an `insert_many` with options of its own."""

    args: JobArgs
    insert_opts: InsertOpts | None = None


@dataclass(kw_only=True, slots=True)
class InsertRequest:
    """A job about to be inserted, as hooks and middleware see and change it; checked again
    afterwards.
    """

    args: object
    kind: str
    encoded_args: str
    """JSON text of an object."""
    created_at: datetime
    scheduled_at: datetime | None
    """None is now."""
    max_attempts: int
    metadata: dict[str, Any]
    priority: int
    queue: str
    state: JobState
    """What it starts in; a changed `scheduled_at` does not change it."""
    tags: list[str]
    unique_opts: UniqueOpts | None
    unique_args: str | None = None
    """The part of the args that counts for uniqueness, from before `encoded_args` could be changed.
    """


class InsertResult(NamedTuple):
    """The job inserted, or the one that was there already."""

    job: JobRow
    unique_skipped_as_duplicate: bool = False

    @property
    def unique_skipped_as_duplicated(self) -> bool:
        """The official client's spelling."""
        return self.unique_skipped_as_duplicate
