"""Workers, which programs define, with their jobs, errors and settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
)

from riverui.domain.jobs import AttemptError, JobRow, JobState
from riverui.domain.retries import Retry
from riverui.domain.text import counted
from riverui.engine.work.worker_settings import (
    BatchSettings,
)

if TYPE_CHECKING:
    from riverui.engine.hooks import Middleware

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")

Isolation = Literal["process"]
"""Where the jobs of a synchronous worker run, if not in threads."""


class JobCancel(Exception):
    """Raise it in a job to cancel it: there is no further attempt."""


class JobSnooze(Exception):
    """Raise this in a job to have it worked again later, without using up an attempt."""

    def __init__(self, duration: timedelta) -> None:
        if not isinstance(duration, timedelta):
            raise TypeError(
                "JobSnooze takes a timedelta, such as JobSnooze(timedelta(seconds=5)), not"
                f" {duration!r}"
            )
        if duration < timedelta(0):
            raise ValueError("a job cannot be snoozed into the past")
        super().__init__(f"JobSnoozeError: {duration}")
        self.duration = duration


class BatchError(Exception):
    """Raise it in `work_many` if some jobs failed, with their errors: `{job.id: error}`.

    All others have succeeded. JobCancel and JobSnooze work as for a single job.
    """

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        for job_id, error in errors.items():
            if not isinstance(job_id, int) or not isinstance(error, BaseException):
                raise TypeError(
                    "BatchError takes errors by the ids of their jobs, such as"
                    f" {{job.id: ValueError('…')}}, not {job_id!r}: {error!r:.100}"
                )
        super().__init__(f"{counted(len(errors), 'job')} of the batch failed")
        self.errors: dict[int, BaseException] = dict(errors)


class Job(Generic[A]):
    """A running job: its row, and its decoded args."""

    __slots__ = ("args", "row")

    def __init__(self, row: JobRow, args: A) -> None:
        self.row: JobRow = row
        self.args: A = args

    def __repr__(self) -> str:
        # Without the args, which may be secret and appear in logs.
        return f"<Job {self.row.id} {self.row.kind}, attempt {self.row.attempt}>"

    @property
    def id(self) -> int:
        """Its number."""
        return self.row.id

    @property
    def kind(self) -> str:
        """Its kind, which selects the worker."""
        return self.row.kind

    @property
    def queue(self) -> str:
        """The queue that it was fetched from."""
        return self.row.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.row.attempt

    @property
    def max_attempts(self) -> int:
        """The attempt whose failure discards the job."""
        return self.row.max_attempts

    @property
    def priority(self) -> int:
        """1 (first) to 4."""
        return self.row.priority

    @property
    def state(self) -> JobState:
        """Running, while it is worked."""
        return self.row.state

    @property
    def created_at(self) -> datetime:
        """When it was inserted."""
        return self.row.created_at

    @property
    def scheduled_at(self) -> datetime:
        """When it was due."""
        return self.row.scheduled_at

    @property
    def attempted_at(self) -> datetime | None:
        """When this attempt began."""
        return self.row.attempted_at

    @property
    def attempted_by(self) -> tuple[str, ...]:
        """The clients that attempted it, this one last."""
        return self.row.attempted_by

    @property
    def finalized_at(self) -> datetime | None:
        """When it was completed, cancelled or discarded."""
        return self.row.finalized_at

    @property
    def errors(self) -> tuple[AttemptError, ...]:
        """The errors of earlier attempts, oldest first."""
        return self.row.errors

    @property
    def metadata(self) -> str:
        """JSON text of an object, as of the start of the attempt."""
        return self.row.metadata

    @property
    def metadata_dict(self) -> dict[str, Any]:
        """The metadata, decoded at each call; ValueError for JSON that Python cannot decode."""
        return self.row.metadata_dict

    @property
    def output(self) -> Any:
        """The output that an earlier attempt has recorded, decoded; None if there is none."""
        return self.row.output

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.row.tags


# In the form of a method it is bound for mypy, while pyright compares it with its self.
_TimeoutOf = Callable[[Job[A]], timedelta | None] | Callable[[Any, Job[A]], timedelta | None]
_MiddlewareOf = (
    Callable[[JobRow], Sequence["Middleware"]] | Callable[[Any, JobRow], Sequence["Middleware"]]
)


class Worker(Generic[A]):
    """Works jobs of one kind: the kind of the args type in `Worker[ArgsType]`.

    `work` may be `async def`, or `def` to run in a thread.
    """

    timeout: timedelta | _TimeoutOf[A] | None = None
    """None and zero mean the client's timeout, NO_LIMIT means none. Define `def timeout(self, job)`
    for a timeout per job.
    """
    retry: Retry | None = None
    """The Retry of its jobs; None means their args type's, and then the client's."""
    middleware: Sequence[Middleware] | _MiddlewareOf = ()
    """Runs around the work of its jobs. Define `def middleware(self, row)` for middleware per
    job.
    """
    isolation: Isolation | None = None
    """`"process"` runs a `def work` in another process, which can be killed; None in a thread."""
    hard_timeout: timedelta | _TimeoutOf[A] | None = None
    """How long after its start the process of an isolated job is killed; like `timeout`, a method
    for a limit per job. None kills it `ClientConfig.isolation_kill_after` after its `timeout`;
    NO_LIMIT never.
    """

    def work(self, job: Job[A]) -> Awaitable[None] | None:
        """Do the job. An exception is its error, except JobCancel and JobSnooze."""
        raise NotImplementedError

    def next_retry(self, job: Job[A]) -> datetime | None:
        """Return when to retry after an error; None leaves it to its Retry, and then to the
        client.
        """
        return None


class BatchWorker(Worker[A]):
    """Works many jobs of one kind at once: the kind of the args type in `BatchWorker[ArgsType]`.

    `work_many` may be `async def`, or `def` to run in a thread. All other settings of a Worker
    apply to each job individually.
    """

    max_count: int = 100
    """Most jobs in a batch, up to 10,000. Default: River's."""
    max_delay: timedelta = timedelta(seconds=5)
    """How long the first job waits for others at most. Default: River's."""
    poll_interval: timedelta = timedelta(seconds=1)
    """Time between two fetches of further jobs. Default: River's."""
    by_args: bool | Sequence[str] = False
    """True: only jobs with the same args are worked together. A list of JSON names: only jobs with
    the same values under these names.
    """

    def work_many(self, jobs: Sequence[Job[A]]) -> Awaitable[None] | None:
        """Do the jobs. An exception is the error of all of them, a BatchError that of some."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorResult:
    """The decision of an error handler."""

    set_cancelled: bool = False
    """Cancel the job instead of retrying it."""


ErrorHandler = Callable[[JobRow, BaseException], Awaitable[ErrorResult | None] | ErrorResult | None]
RetryPolicy = Callable[[JobRow], datetime]
"""Returns when to retry; `job.errors` does not contain the newest error yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StuckJob:
    """A job that ran well past its timeout."""

    id: int
    kind: str
    queue: str
    total_stuck_jobs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StuckResult:
    """The decision of a stuck handler."""

    add_worker_slot: bool = False
    """Let another job run in its place, until it ends."""


StuckHandler = Callable[[StuckJob], StuckResult | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkUnit:
    """The worker of one kind, with its settings."""

    kind: str
    args_type: type[Any]
    worker: Worker[Any]
    is_async: bool
    decode: Callable[[str], Any]
    """Decodes JSON text to args; ValueError if it does not fit."""
    batch: BatchSettings | None = None
    """How its jobs are gathered, if they are worked together."""
    ephemeral: bool = False
    """Whether its jobs are deleted on success."""
    retry: Retry | None = None
    """The Retry of the worker, or of the args."""

    @property
    def isolated(self) -> bool:
        """Whether its jobs run in processes of their own."""
        return self.worker.isolation is not None


def retry_for(unit: WorkUnit | None, default: Retry | None) -> Retry | None:
    """Return the Retry of a kind, or else the client's; None for a kind without a worker."""
    return None if unit is None else unit.retry or default
