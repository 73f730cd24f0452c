"""Inserts jobs that a person asks for: what may be given, and who carries it out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.jobs import JobState
from riverui.domain.json import object_problem
from riverui.domain.values import MOST_KIND_CHARACTERS, is_kind
from riverui.errors import JobRefused
from riverui.features.workflows.domain.tasks import MARK
from riverui.storage.interface.engine_params import InsertResult

MAX_ARGS_BYTES = 300_000
"""Bytes of the args of one job: as a form sends them, three for each, they fit into a request."""
MAX_METADATA_BYTES = 20_000
"""Bytes of the metadata of one job."""
MAX_TAGS = 100
"""Tags of one job."""
FROM = "riverui:from"
"""The metadata key that tells who inserted a job from the dashboard, and like which job."""
_MOST_USER = 200
"""Characters of a user's name that are kept."""
_RESERVED = ("river:", FROM, MARK)
"""How keys of metadata begin that River and riverui write themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJobUnique:
    """What makes a new job unique, as River computes it."""

    by_args: bool | tuple[str, ...] = False
    """All args, or those of these top-level keys."""
    by_period: timedelta | None = None
    by_queue: bool = False
    by_state: tuple[JobState, ...] | None = None
    """None for River's default: all but cancelled and discarded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A job to insert; None leaves it to the kind's own options, then to River's defaults."""

    kind: str
    args: str
    """JSON text of an object."""
    max_attempts: int | None = None
    metadata: str = "{}"
    """JSON text of an object."""
    priority: int | None = None
    queue: str | None = None
    scheduled_at: datetime | None = None
    """None for now."""
    tags: tuple[str, ...] | None = None
    unique: NewJobUnique | None = None


class JobInserter(Protocol):
    """Inserts jobs by River's rules; the engine has one."""

    def check(self, job: NewJob) -> None:
        """Raise JobRefused where the job could not be inserted, by River's rules or, where this
        process works its kind, by the type of its args.
        """
        ...

    async def insert(self, job: NewJob) -> InsertResult:
        """Insert a job and tell the workers of its queue, in one transaction; return it, or the one
        that is there already with its unique key. JobRefused as of `check`.
        """
        ...


class LateInserter:
    """Makes an inserter for the first job that is checked or inserted: the engine takes longer to
    load than a dashboard to start.
    """

    def __init__(self, make: Callable[[], JobInserter]) -> None:
        self._make = make
        self._made: JobInserter | None = None

    def check(self, job: NewJob) -> None:
        """Raise JobRefused where the job could not be inserted."""
        self._inserter().check(job)

    async def insert(self, job: NewJob) -> InsertResult:
        """Insert a job, or return the one that is there already with its unique key."""
        return await self._inserter().insert(job)

    def _inserter(self) -> JobInserter:
        if self._made is None:
            self._made = self._make()
        return self._made


def check(inserter: JobInserter, job: NewJob) -> None:
    """Raise JobRefused, with the field, for the first thing that is wrong with a job."""
    if not is_kind(job.kind):
        raise JobRefused(
            f"The kind must be 2 to {MOST_KIND_CHARACTERS} letters, digits, underscores and (not"
            " first) -[]<>/.·:+.",
            field="kind",
        )
    if problem := object_problem(job.args, most_bytes=MAX_ARGS_BYTES):
        raise JobRefused(problem, field="args")
    if problem := object_problem(job.metadata, most_bytes=MAX_METADATA_BYTES):
        raise JobRefused(problem, field="metadata")
    if reserved := next(
        (key for key in json.loads(job.metadata, parse_int=str) if key.startswith(_RESERVED)), None
    ):
        raise JobRefused(f"The key {reserved[:60]} is reserved.", field="metadata")
    if job.tags is not None and len(job.tags) > MAX_TAGS:
        raise JobRefused(f"A job takes at most {MAX_TAGS} tags here.", field="tags")
    inserter.check(job)


async def insert(
    inserter: JobInserter, job: NewJob, *, user: str, like: int | None = None
) -> InsertResult:
    """Check and insert a job; its metadata tells the user, and the job that it was made like.

    JobRefused where it cannot be inserted.
    """
    check(inserter, job)
    origin: dict[str, object] = {"user": user[:_MOST_USER]} if user else {}
    if like is not None:
        origin["job"] = like
    own = json.dumps({FROM: origin}, ensure_ascii=False)
    inside = job.metadata.strip()[1:-1].strip()
    metadata = f"{{{inside},{own[1:]}" if inside else own
    return await inserter.insert(replace(job, metadata=metadata))
