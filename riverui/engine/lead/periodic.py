"""Periodic jobs, which the leading client inserts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from riverui.domain.schedules import CronSchedule, NeverSchedule, PeriodicInterval, Schedule
from riverui.domain.values import MAX_KIND_CHARACTERS, is_kind
from riverui.engine.args.job_args import JobArgs
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.errors import ConfigError

__all__ = [
    "Constructor",
    "CronSchedule",
    "NeverSchedule",
    "PeriodicInterval",
    "PeriodicJob",
    "PeriodicJobs",
    "Schedule",
]

Constructor = Callable[
    [], JobArgs | InsertManyParams | tuple[JobArgs | None, InsertOpts | None] | None
]
"""Makes the next job: args, a pair of args and InsertOpts, or None to skip this run. It must not
block.
"""


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """A job and its schedule. ConfigError if the id is invalid."""

    schedule: Schedule
    constructor: Constructor
    run_on_start: bool = field(default=False, kw_only=True)
    """Whether to insert it also when a client becomes leader, and when it is added while one
    leads.
    """
    id: str | None = field(default=None, kw_only=True)
    """Unique in the client; stored in the job's metadata as `river:periodic_job_id`."""

    def __post_init__(self) -> None:
        if not callable(self.constructor) or not hasattr(self.schedule, "next"):
            raise ConfigError("A periodic job needs a schedule and a function that makes the job.")
        if self.id is not None and not is_kind(self.id):
            raise ConfigError(
                f"{self.id!r} is not a valid periodic job id: use 2 to {MAX_KIND_CHARACTERS}"
                " letters, digits and underscores, after the first also -[]<>/.·:+"
            )

    def construct(self) -> InsertManyParams | None:
        """Return the next job with its options; raise the constructor's exception."""
        made: Any = self.constructor()
        if made is None or isinstance(made, InsertManyParams):
            return made
        # The args themselves may be a tuple.
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], InsertOpts | None):
            args, opts = made
            return None if args is None else InsertManyParams(args=args, insert_opts=opts)
        return InsertManyParams(args=made)


class PeriodicJobs:
    """The periodic jobs of a client. Changes take effect at once, also while it leads, and may come
    from any thread.

    Only the leader inserts them, so make the same change in every client that may lead.
    """

    def __init__(self, jobs: Iterable[PeriodicJob] = ()) -> None:
        self._lock = Lock()
        self._jobs: dict[int, PeriodicJob] = {}
        self._watchers: list[Callable[[], object]] = []
        self._last = -1
        self.add_many(list(jobs))

    def __repr__(self) -> str:
        ids = [job.id or f"{job.schedule}" for job in self.by_handle().values()]
        return f"<PeriodicJobs: {', '.join(ids) or 'none'}>"

    def add(self, job: PeriodicJob) -> int:
        """Add a job and return its handle, for `remove`. ConfigError if the id is taken."""
        return self.add_many([job])[0]

    def add_many(self, jobs: Sequence[PeriodicJob]) -> list[int]:
        """Add all jobs and return their handles; with a ConfigError, add none."""
        with self._lock:
            taken = {job.id for job in self._jobs.values()}
            for job in jobs:
                if job.id is not None and job.id in taken:
                    raise ConfigError(f"Periodic job “{job.id}” already exists.")
                taken.add(job.id)
            handles = []
            for job in jobs:
                self._last += 1
                self._jobs[self._last] = job
                handles.append(self._last)
            watchers = list(self._watchers)
        for added in watchers:
            added()
        return handles

    def remove(self, handle: int) -> bool:
        """Remove the job with that handle; return whether there was one."""
        with self._lock:
            return self._jobs.pop(handle, None) is not None

    def remove_many(self, handles: Iterable[int]) -> None:
        """Remove the jobs with these handles."""
        for handle in handles:
            self.remove(handle)

    def remove_by_id(self, id: str) -> bool:
        """Remove the job with that id; return whether there was one."""
        with self._lock:
            for handle, job in self._jobs.items():
                if job.id == id:
                    del self._jobs[handle]
                    return True
            return False

    def remove_many_by_id(self, ids: Iterable[str]) -> None:
        """Remove the jobs with these ids."""
        for named in ids:
            self.remove_by_id(named)

    def clear(self) -> None:
        """Remove every job."""
        with self._lock:
            self._jobs.clear()

    def by_handle(self) -> Mapping[int, PeriodicJob]:
        """Return the current jobs in the order they were added. Handles are never reused."""
        with self._lock:
            return dict(self._jobs)

    @contextmanager
    def watched(self, added: Callable[[], object]) -> Iterator[None]:
        """Call `added` whenever jobs were added, in the thread that adds them."""
        with self._lock:
            self._watchers.append(added)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(added)
