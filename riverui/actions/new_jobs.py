"""Insert jobs that people enter: their limits and checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.jobs import JobState
from riverui.domain.json import object_problem
from riverui.domain.values import MAX_KIND_CHARACTERS, is_kind
from riverui.errors import JobRefused
from riverui.storage.interface.engine_params import InsertResult

MAX_ARGS_BYTES = 300_000
"""Maximum bytes of args: form-encoded, with three bytes for each, they fit in a request."""
MAX_METADATA_BYTES = 20_000
"""Maximum bytes of metadata."""
MAX_TAGS = 100
"""Maximum tags of one job."""
FROM = "riverui:from"
"""The metadata key with the user who inserted a job on the dashboard, and the copied job."""
_MAX_USER = 200
"""Maximum characters of a user's name."""
_RESERVED = ("river:", FROM, "riverui:workflow")
"""Prefixes of metadata keys that River and riverui write themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJobUnique:
    """River's unique options of a new job."""

    by_args: bool | tuple[str, ...] = False
    """All args, or only these top-level keys."""
    by_period: timedelta | None = None
    by_queue: bool = False
    by_state: tuple[JobState, ...] | None = None
    """None for River's default: all but cancelled and discarded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A job to insert; None means the default of its kind, then River's default."""

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
    """Inserts jobs by River's rules; implemented by the engine."""

    def check(self, job: NewJob) -> None:
        """Raise JobRefused if River's rules do not allow the job, or if this process works its kind
        and the args do not fit its type.
        """
        ...

    async def insert(self, job: NewJob) -> InsertResult:
        """Insert a job and notify its queue in one transaction; return it, or the existing job with
        its unique key. Raise JobRefused as `check` does.
        """
        ...


class LateInserter:
    """Creates an inserter at the first use: loading the engine takes longer than starting a
    dashboard.
    """

    def __init__(self, make: Callable[[], JobInserter]) -> None:
        self._make = make
        self._made: JobInserter | None = None

    def check(self, job: NewJob) -> None:
        """Raise JobRefused if the job cannot be inserted."""
        self._inserter().check(job)

    async def insert(self, job: NewJob) -> InsertResult:
        """Insert a job, or return the existing one with its unique key."""
        return await self._inserter().insert(job)

    def _inserter(self) -> JobInserter:
        if self._made is None:
            self._made = self._make()
        return self._made


def check(inserter: JobInserter, job: NewJob) -> None:
    """Raise JobRefused, with the field, for the first invalid field of a job."""
    if not is_kind(job.kind):
        raise JobRefused(
            f"The kind must be 2 to {MAX_KIND_CHARACTERS} letters, digits, underscores and (not"
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
        raise JobRefused(f"A job can have at most {MAX_TAGS} tags.", field="tags")
    inserter.check(job)


async def insert(
    inserter: JobInserter, job: NewJob, *, user: str, like: int | None = None
) -> InsertResult:
    """Check and insert a job; its metadata contain the user and the copied job.

    Raise JobRefused if it cannot be inserted.
    """
    check(inserter, job)
    origin: dict[str, object] = {"user": user[:_MAX_USER]} if user else {}
    if like is not None:
        origin["job"] = like
    own = json.dumps({FROM: origin}, ensure_ascii=False)
    inside = job.metadata.strip()[1:-1].strip()
    metadata = f"{{{inside},{own[1:]}" if inside else own
    return await inserter.insert(replace(job, metadata=metadata))
