"""What a program can hang into inserting and working: River's hooks, middleware and plugins.

Subclass and override what is wanted; what is not overridden costs nothing. Order, outermost first,
while working: the worker's own middleware, resumable steps, `ClientConfig.plugins`,
`ClientConfig.middleware`, plugins of the job args; then WorkBegin hooks, decoding, the timeout,
`work`, WorkEnd hooks.
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
    """A Client that works jobs, as far as hooks need it."""

    id: str
    events: Events

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds that it has workers for."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether it does the maintenance."""
        ...

    @property
    def running_by_queue(self) -> Mapping[str, int]:
        """How many jobs of each queue it works right now."""
        ...

    @property
    def slots_by_queue(self) -> Mapping[str, int]:
        """How many jobs of each queue may be at work."""
        ...


class DoInner(Protocol):
    """Goes on with a job's work; given a changed row, with that one."""

    def __call__(self, job: JobRow | None = None, /) -> Awaitable[None]:
        """Work the job, as `job` where one is given. ValueError for the row of another job."""
        ...


class Hook:
    """Is called at single points; an exception ends what it was called for."""

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
        """Run before a client begins to work jobs; an exception keeps it from it."""

    def client_stop(self, client: WorkingClient) -> Awaitable[None] | None:
        """Run once a client works no more jobs, also where it did not come to start."""

    def metric_emit(self, metric: Metric) -> None:
        """Take one measurement; it runs in hot paths, so it must not wait."""

    def log_emit(self, record: LogRecord) -> None:
        """Take one record of what a job logs, in the job's context, as it goes to the job's log.

        It may come from any thread, and must not wait or log.
        """


class Middleware:
    """Is wrapped around whole operations."""

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        """Run around each insert of one or more jobs."""
        return await do_inner(requests)

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        """Run around the work of each job.

        `do_inner(job._replace(args=…))` changes what is worked, such as the args of an older
        version. The row in the database keeps its own.
        """
        await do_inner()


class Plugin(Hook, Middleware):
    """A hook that is middleware as well: one class for a plugin that needs both."""

    def opened(self, job: JobRow) -> JobRow:
        """Return the job with the args that its worker gets. The leader asks for them to decide
        about a stuck job; an error means that it decides without.
        """
        return job


@dataclass(frozen=True, kw_only=True, slots=True)
class Extensions:
    """Hooks and middleware by what they override, in the order in which they are called."""

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
    """Return what a hook gave, awaited where it is a coroutine."""
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
