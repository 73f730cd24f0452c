"""Extension points of inserting and working: River's hooks, middleware and plugins.

Subclass and override what you need; the rest costs nothing. Order while working, outermost first:
the worker's own middleware, resumable steps, `ClientConfig.plugins`, `ClientConfig.middleware`,
plugins of the job args; then WorkBegin hooks, decoding, the timeout, `work`, WorkEnd hooks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from logging import LogRecord
from typing import TYPE_CHECKING, Protocol, TypeVar

from riverui.domain.jobs import JobRow
from riverui.engine.args.job_args import hooks_of, plugins_of

if TYPE_CHECKING:
    from riverui.engine.events import Events
    from riverui.engine.insert.insert_opts import InsertRequest
    from riverui.storage.interface.engine_params import InsertResult

_Any = TypeVar("_Any")
_Kind = TypeVar("_Kind", bound="Hook | Middleware")


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One measurement of the engine: `job_get_available_duration` (seconds) or
    `job_get_available_count`.
    """

    name: str
    value: float
    queue: str


class WorkingClient(Protocol):
    """The part of a working Client that hooks can use."""

    id: str
    events: Events

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds that the client has workers for."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether the client does the maintenance."""
        ...

    @property
    def running_by_queue(self) -> Mapping[str, int]:
        """How many jobs of each queue the client is working."""
        ...

    @property
    def slots_by_queue(self) -> Mapping[str, int]:
        """How many jobs of each queue may run at once."""
        ...


class DoInner(Protocol):
    """Continues the work of a job, optionally with a changed row."""

    def __call__(self, job: JobRow | None = None, /) -> Awaitable[None]:
        """Work the job, as `job` if given. ValueError for the row of another job."""
        ...


class Hook:
    """Called at single points; an exception aborts the operation."""

    def insert_begin(self, request: InsertRequest) -> Awaitable[None] | None:
        """Run before each job is inserted; it may change the request."""

    def work_begin(self, job: JobRow) -> Awaitable[None] | None:
        """Run before each job is worked; an exception is the job's error."""

    def work_end(
        self, job: JobRow, error: BaseException | None
    ) -> Awaitable[BaseException | None] | BaseException | None:
        """Run after each job; what it returns is the job's outcome, None for success."""
        return error

    def periodic_jobs_start(self) -> Awaitable[None] | None:
        """Run when this client, as leader, begins to insert periodic jobs."""

    def client_start(self, client: WorkingClient) -> Awaitable[None] | None:
        """Run before a client starts working jobs; an exception aborts the start."""

    def client_stop(self, client: WorkingClient) -> Awaitable[None] | None:
        """Run when a client has stopped, also after a failed start."""

    def metric_emit(self, metric: Metric) -> None:
        """Take one measurement. It runs in hot paths, so it must not block."""

    def log_emit(self, record: LogRecord) -> None:
        """Take one log record of a job, in the job's context, as it is added to the job's log.

        Called from any thread; it must not block or log.
        """


class Middleware:
    """Wraps whole operations."""

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        """Run around each insert of one or more jobs."""
        return await do_inner(requests)

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        """Run around the work of each job.

        `do_inner(job._replace(args=…))` changes the job that is worked, such as the args of an
        older version. The row in the database does not change.
        """
        await do_inner()


class Plugin(Hook, Middleware):
    """A hook and middleware in one class."""

    def opened(self, job: JobRow) -> JobRow:
        """Return the job with the args as its worker gets them. The leader calls it to decide about
        a stuck job; after an error it decides without.
        """
        return job


@dataclass(frozen=True, kw_only=True, slots=True)
class Extensions:
    """Hooks and middleware by the method that they override, in calling order."""

    client_start: tuple[Hook, ...] = ()
    client_stop: tuple[Hook, ...] = ()
    insert_begin: tuple[Hook, ...] = ()
    insert_many: tuple[Middleware, ...] = ()
    log_emit: tuple[Hook, ...] = ()
    metric_emit: tuple[Hook, ...] = ()
    periodic_jobs_start: tuple[Hook, ...] = ()
    work: tuple[Middleware, ...] = ()
    work_begin: tuple[Hook, ...] = ()
    work_end: tuple[Hook, ...] = ()

    @classmethod
    def collect(
        cls, hooks: Sequence[Hook], middleware: Sequence[Middleware], plugins: Sequence[Plugin]
    ) -> Extensions:
        """Return a client's hooks and middleware, plugins first."""
        return _sorted([*plugins, *hooks], [*plugins, *middleware])

    @classmethod
    def collect_from_args(cls, args_type: type[object]) -> Extensions:
        """Return the hooks and middleware that an args type declares."""
        hooks = hooks_of(args_type)
        plugins = plugins_of(args_type)[len(hooks) :]
        return _sorted([*plugins, *hooks], plugins)


async def settle(given: Awaitable[_Any] | _Any) -> _Any:
    """Return a hook's result, awaited if it is a coroutine."""
    return await given if isawaitable(given) else given


def _sorted(hooks: Iterable[object], middleware: Iterable[object]) -> Extensions:
    hooks, middleware = list(hooks), list(middleware)
    return Extensions(
        client_start=_overriding(hooks, Hook, "client_start"),
        client_stop=_overriding(hooks, Hook, "client_stop"),
        insert_begin=_overriding(hooks, Hook, "insert_begin"),
        insert_many=_overriding(middleware, Middleware, "insert_many"),
        log_emit=_overriding(hooks, Hook, "log_emit"),
        metric_emit=_overriding(hooks, Hook, "metric_emit"),
        periodic_jobs_start=_overriding(hooks, Hook, "periodic_jobs_start"),
        work=_overriding(middleware, Middleware, "work"),
        work_begin=_overriding(hooks, Hook, "work_begin"),
        work_end=_overriding(hooks, Hook, "work_end"),
    )


def _overriding(given: Iterable[object], kind: type[_Kind], method: str) -> tuple[_Kind, ...]:
    original = getattr(kind, method)
    return tuple(
        one for one in given if isinstance(one, kind) and getattr(type(one), method) is not original
    )
