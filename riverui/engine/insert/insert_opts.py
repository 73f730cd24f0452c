"""Options of jobs to insert, and the requests that hooks see."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, Unpack

from riverui.domain.jobs import JobState
from riverui.engine.args.job_args import JobArgs


@dataclass(frozen=True, kw_only=True, slots=True)
class UniqueOpts:
    """What makes a job unique (River's UniqueOpts); without any option it is not unique."""

    by_args: bool | Sequence[str] | None = False
    """True: all args, or only the fields marked `Unique` if there are any. A list: these top-level
    keys, as in River's Python client.
    """
    by_period: timedelta | int | None = None
    """At least a second, counted from year 1 in UTC; an int is seconds, as in River's Python
    client.
    """
    by_queue: bool | None = False
    by_state: Sequence[JobState | str] | None = None
    """Must include available, pending, running and scheduled; default: all but cancelled and
    discarded.
    """
    exclude_kind: bool = False
    """Whether jobs of other kinds count too; needs another option."""


class SequenceOption(Protocol):
    """Puts a job into a sequence: `SequenceOpts`."""

    @property
    def by_args(self) -> bool | Sequence[str] | None:
        """Which args the sequence depends on; False or None for none."""
        ...

    def check(self) -> None:
        """Raise InsertError for options with which no job could be inserted."""
        ...

    def metadata(self, args: object, encoded: str, kind: str, queue: str) -> dict[str, Any]:
        """Return what the job's metadata get."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class InsertOpts:
    """Options of a job to insert; None means the args' own `insert_opts()`, then the client's
    default.
    """

    delay: timedelta | None = None
    """How long the job waits from now, by the client's clock. Not together with `scheduled_at`."""
    max_attempts: int | None = None
    """At least 1; values above 32,767, the column's maximum, are reduced to it."""
    metadata: dict[str, Any] | None = None
    """Used only from the call, as in River; the args' own metadata is ignored."""
    pending: bool = False
    """Used only from the call too."""
    priority: int | None = None
    """1 (worked first) to 4."""
    queue: str | None = None
    """Up to 64 characters: a–z, 0–9, and single `_`, `-` or `|` between them."""
    scheduled_at: datetime | None = None
    """An aware datetime; a job scheduled for the past waits for the scheduler too."""
    sequence: SequenceOption | None = None
    """Makes the job wait until earlier jobs of its sequence are done. Replaces that of the args
    completely. Needs riverui's tables.
    """
    tags: Sequence[str] | None = None
    """Each 3 to 255 characters: A–Z, a–z, 0–9, `_`, and `-` inside. They replace the args' own
    tags.
    """
    unique_opts: UniqueOpts | None = None
    """Replaces that of the args completely."""


class InsertKeywords(TypedDict, total=False):
    """The options of InsertOpts as keywords of the insert methods; see InsertOpts."""

    delay: timedelta | None
    max_attempts: int | None
    metadata: dict[str, Any] | None
    pending: bool
    priority: int | None
    queue: str | None
    scheduled_at: datetime | None
    sequence: SequenceOption | None
    tags: Sequence[str] | None
    unique_opts: UniqueOpts | None


_OPTIONS = tuple(field.name for field in fields(InsertOpts))


def opts_with(insert_opts: InsertOpts | None, keywords: Mapping[str, Any]) -> InsertOpts | None:
    """Return the options with the given keywords, which override them; a keyword None leaves an
    option unchanged.

    TypeError for an unknown keyword.
    """
    if not keywords:
        return insert_opts
    for name in keywords:
        if name not in _OPTIONS:
            raise TypeError(f"there is no option {name!r}: use {', '.join(_OPTIONS)}")
    given = {name: value for name, value in keywords.items() if value is not None}
    # The official client's options are of another class, with fewer attributes.
    before = {name: getattr(insert_opts, name, None) for name in _OPTIONS}
    for one, other in (("delay", "scheduled_at"), ("scheduled_at", "delay")):
        if one in given:
            before[other] = None
    return InsertOpts(**(before | {"pending": before["pending"] or False} | given))


@dataclass(frozen=True, slots=True)
class InsertManyParams:
    """One job of an `insert_many` with its own options, as InsertOpts or as keywords, which
    override them.
    """

    args: JobArgs
    insert_opts: InsertOpts | None = None

    def __init__(
        self,
        args: JobArgs,
        insert_opts: InsertOpts | None = None,
        **keywords: Unpack[InsertKeywords],
    ) -> None:
        _set(self, "args", args)
        _set(self, "insert_opts", opts_with(insert_opts, keywords) if keywords else insert_opts)


_set = object.__setattr__


def params_types() -> tuple[type[Any], ...]:
    """Return the classes of jobs with options: riverui's, and the official client's if the program
    has imported it.
    """
    official = getattr(sys.modules.get("riverqueue"), "InsertManyParams", None)
    return (InsertManyParams, official) if isinstance(official, type) else (InsertManyParams,)


@dataclass(kw_only=True, slots=True)
class InsertRequest:
    """A job to be inserted, as hooks and middleware see and change it; it is validated again after
    them.
    """

    args: object
    kind: str
    encoded_args: str
    """JSON text of an object."""
    created_at: datetime
    scheduled_at: datetime | None
    """None for now."""
    max_attempts: int
    metadata: dict[str, Any]
    priority: int
    queue: str
    state: JobState
    """The initial state; a changed `scheduled_at` does not change it."""
    tags: list[str]
    unique_opts: UniqueOpts | None
    unique_args: str | None = None
    """JSON of the args that count for uniqueness, made before hooks can change `encoded_args`."""
