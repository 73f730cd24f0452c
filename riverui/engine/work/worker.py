"""What a program writes: workers, and what they get and may say."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from riverui.domain.jobs import AttemptError, JobRow, JobState
from riverui.engine.args.job_args import decoder, ephemeral_of, kind_aliases_of, kind_of
from riverui.engine.work.worker_settings import BatchSettings, batch_settings, check_settings
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.engine.hooks import Middleware

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class JobCancel(Exception):
    """Raise it in a job to cancel it: no further attempt."""


class JobSnooze(Exception):
    """Raise it in a job to have it worked again later, without using up an attempt."""

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
    """Raise it in `work_many` to say which jobs did not go well, and why: `{job.id: error}`.

    All others did. A JobCancel or JobSnooze is told apart as it is for a single job.
    """

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        for job_id, error in errors.items():
            if not isinstance(job_id, int) or not isinstance(error, BaseException):
                raise TypeError(
                    "BatchError takes errors by the ids of their jobs, such as"
                    f" {{job.id: ValueError('…')}}, not {job_id!r}: {error!r:.100}"
                )
        super().__init__(f"{len(errors)} jobs of the batch failed")
        self.errors = dict(errors)


class Job(Generic[A]):
    """A job at work: its args decoded, and what else its row says."""

    __slots__ = ("args", "row")

    def __init__(self, row: JobRow, args: A) -> None:
        self.row = row
        self.args = args

    def __repr__(self) -> str:
        # Without the args, which may be secret and find their way into logs.
        return f"<Job {self.row.id} {self.row.kind}, attempt {self.row.attempt}>"

    @property
    def id(self) -> int:
        """Its number."""
        return self.row.id

    @property
    def kind(self) -> str:
        """Which worker it is for."""
        return self.row.kind

    @property
    def queue(self) -> str:
        """Which queue it came through."""
        return self.row.queue

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
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
        """When it ended for good."""
        return self.row.finalized_at

    @property
    def errors(self) -> tuple[AttemptError, ...]:
        """What went wrong in earlier attempts, oldest first."""
        return self.row.errors

    @property
    def metadata(self) -> str:
        """JSON text of an object, as it was when the attempt began."""
        return self.row.metadata

    @property
    def metadata_dict(self) -> dict[str, Any]:
        """The same, read from JSON at each call; ValueError for what Python cannot read."""
        return self.row.metadata_dict

    @property
    def output(self) -> Any:
        """What an earlier attempt has recorded, read from its JSON; None where that is nothing."""
        return self.row.output

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.row.tags


class Worker(Generic[A]):
    """Works jobs of one kind: the kind of the args type in `Worker[ArgsType]`.

    `work` may be `async def`, or `def` to run in a thread.
    """

    timeout: timedelta | Callable[[Job[A]], timedelta | None] | None = None
    """None and zero leave it to the client, NO_LIMIT is none. `def timeout(self, job)` is for each
    job.
    """
    middleware: Sequence[Middleware] | Callable[[JobRow], Sequence[Middleware]] = ()
    """Around the work of its jobs. `def middleware(self, row)` is for each job."""

    def work(self, job: Job[A]) -> Awaitable[None] | None:
        """Do the job. An exception is its error: JobCancel and JobSnooze are told apart."""
        raise NotImplementedError

    def next_retry(self, job: Job[A]) -> datetime | None:
        """Return when to try again after an error; None leaves it to the client's retry policy."""
        return None


class BatchWorker(Worker[A]):
    """Works many jobs of one kind at once: the kind of the args type in `BatchWorker[ArgsType]`.

    `work_many` may be `async def`, or `def` to run in a thread. All else that a Worker says holds
    for each job by itself.
    """

    max_count: int = 100
    """Jobs in a batch at most; up to 10,000. River's figure."""
    max_delay: timedelta = timedelta(seconds=5)
    """How long the first job waits for others at most: River's figure."""
    poll_interval: timedelta = timedelta(seconds=1)
    """Between two looks for others meanwhile: River's figure."""
    by_args: bool | Sequence[str] = False
    """True: only jobs with the same args are worked together. A list of names in JSON: only those
    whose values there are the same.
    """

    def work_many(self, jobs: Sequence[Job[A]]) -> Awaitable[None] | None:
        """Do the jobs. An exception is the error of all of them, a BatchError that of some."""
        raise NotImplementedError


class _BatchFunction(BatchWorker[Any]):
    """A plain function as a worker of batches."""

    def __init__(self, function: Callable[[Sequence[Job[Any]]], Any], **settings: Any) -> None:
        for name, value in settings.items():
            setattr(self, name, value)
        # Takes the method's place, so that it is seen whether it is async.
        self.work_many = function  # type: ignore[method-assign, assignment]


class _Function(Worker[Any]):
    """A plain function as a worker."""

    def __init__(
        self,
        function: Callable[[Job[Any]], Any],
        timeout: timedelta | Callable[[Job[Any]], timedelta | None] | None,
    ) -> None:
        self.timeout = timeout
        # Takes the method's place, so that it is seen whether it is async.
        self.work = function  # type: ignore[method-assign, assignment]


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorResult:
    """What an error handler decides."""

    set_cancelled: bool = False
    """Cancel the job instead of trying it again."""


ErrorHandler = Callable[[JobRow, BaseException], Awaitable[ErrorResult | None] | ErrorResult | None]
RetryPolicy = Callable[[JobRow], datetime]
"""When to try again; `job.errors` does not hold the newest error yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StuckJob:
    """A job that went on well past its timeout."""

    id: int
    kind: str
    queue: str
    total_stuck_jobs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StuckResult:
    """What a stuck handler decides."""

    add_worker_slot: bool = False
    """Let another job run in its place, until it ends."""


StuckHandler = Callable[[StuckJob], StuckResult | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkUnit:
    """One kind as a client knows it."""

    kind: str
    args_type: type[Any]
    worker: Worker[Any]
    is_async: bool
    decode: Callable[[str], Any]
    """JSON text to args; ValueError where it does not fit."""
    batch: BatchSettings | None = None
    """How its jobs are gathered, where they are worked together."""
    ephemeral: bool = False
    """Whether its jobs are removed when they have gone well."""


class Workers:
    """The workers of a client, by kind."""

    def __init__(self) -> None:
        self._units: dict[str, WorkUnit] = {}

    def __repr__(self) -> str:
        return f"<Workers: {', '.join(self._units) or 'none'}>"

    def add(
        self,
        worker: Worker[Any],
        *,
        args_type: type[Any] | None = None,
        ephemeral: bool | None = None,
    ) -> None:
        """Register a worker under its args' kind and aliases; ConfigError where one is taken or
        unusable.

        `args_type` is needed only where the worker's class does not name it as `Worker[ArgsType]`.
        `ephemeral` jobs are removed when they have gone well; None leaves it to their args.
        """
        if not isinstance(worker, Worker):
            raise ConfigError(f"{worker!r} is not a Worker: add an instance of a subclass.")
        self._register(worker, args_type or _args_type(type(worker)), ephemeral)

    @overload
    def work(
        self,
        args_type: type[A],
        *,
        timeout: timedelta | None = None,
        ephemeral: bool | None = None,
    ) -> Callable[[Callable[[Job[A]], R]], Callable[[Job[A]], R]]: ...

    @overload
    def work(self, function: F, /) -> F: ...

    @overload
    def work(
        self, *, timeout: timedelta | None = None, ephemeral: bool | None = None
    ) -> Callable[[F], F]: ...

    def work(
        self,
        args_type: Any = None,
        *,
        timeout: timedelta | None = None,
        ephemeral: bool | None = None,
    ) -> Any:
        """Register a plain function, async or not, as the worker of its args' kind; for use as a
        decorator.

        `@workers.work` and `@workers.work(timeout=…)` take the type of args from the function's
        annotation, `job: Job[ArgsType]`; `@workers.work(ArgsType)` needs none. ConfigError where
        there is neither. `ephemeral` is as in `add`.
        """

        def register(function: F) -> F:
            found = _annotated_args_type(function) if args_type is None else args_type
            self._register(_Function(function, timeout), found, ephemeral)
            return function

        if args_type is None or isinstance(args_type, type) or get_origin(args_type) is not None:
            return register
        function, args_type = args_type, None
        return register(function)

    def work_many(
        self,
        args_type: type[A],
        *,
        max_count: int = BatchWorker.max_count,
        max_delay: timedelta = BatchWorker.max_delay,
        by_args: bool | Sequence[str] = False,
        poll_interval: timedelta = BatchWorker.poll_interval,
        timeout: timedelta | None = None,
        ephemeral: bool | None = None,
    ) -> Callable[[Callable[[Sequence[Job[A]]], R]], Callable[[Sequence[Job[A]]], R]]:
        """Register a plain function, async or not, as the worker of batches of its args' kind; for
        use as a decorator.

        See BatchWorker for the settings; ConfigError where one cannot be used.
        """

        def register(
            function: Callable[[Sequence[Job[A]]], R],
        ) -> Callable[[Sequence[Job[A]]], R]:
            worker = _BatchFunction(
                function,
                max_count=max_count,
                max_delay=max_delay,
                by_args=by_args,
                poll_interval=poll_interval,
                timeout=timeout,
            )
            self._register(worker, args_type, ephemeral)
            return function

        return register

    def get(self, kind: str) -> WorkUnit | None:
        """Return who works that kind; None for nobody."""
        return self._units.get(kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind and alias."""
        return tuple(self._units)

    def _register(self, worker: Worker[Any], args_type: type[Any], ephemeral: bool | None) -> None:
        kinds = (kind_of(args_type), *kind_aliases_of(args_type))
        check_settings(worker, _name(worker))
        # All or none, so the checks come first.
        for at, kind in enumerate(kinds):
            if kind in self._units or kind in kinds[:at]:
                raise ConfigError(f"Job kind {kind!r} already has a worker.")
        decode = decoder(args_type)
        run: Callable[..., Any] = worker.work
        batch = None
        if isinstance(worker, BatchWorker):
            run, batch = worker.work_many, batch_settings(worker, args_type, _name(worker))
        is_async = _is_async(run)
        if ephemeral is None:
            ephemeral = ephemeral_of(args_type)
        for kind in kinds:
            self._units[kind] = WorkUnit(
                kind=kind,
                args_type=args_type,
                worker=worker,
                is_async=is_async,
                decode=decode,
                batch=batch,
                ephemeral=ephemeral,
            )


def _annotated_args_type(function: Callable[..., Any]) -> type[Any]:
    """Return the type of args that a function takes, by its annotation; ConfigError where there is
    none.
    """
    name = getattr(function, "__name__", repr(function))
    hint = f"annotate it as `def {name}(job: Job[ArgsType])`, or write `@workers.work(ArgsType)`"
    if not callable(function):
        raise ConfigError(f"{name} is not a function that can work jobs.")
    try:
        parameter = next(iter(inspect.signature(function).parameters.values()), None)
        annotation = Any if parameter is None else parameter.annotation
        if isinstance(annotation, str):
            names = getattr(inspect.unwrap(function), "__globals__", {})
            annotation = get_type_hints(
                SimpleNamespace(__annotations__={"job": annotation}), names
            )["job"]
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"{name} does not say which jobs it works ({error}): {hint}.") from None
    found = next(iter(get_args(annotation)), None) if get_origin(annotation) is Job else None
    if isinstance(found, type) or get_origin(found) is not None:
        return found  # type: ignore[return-value]
    raise ConfigError(f"{name} does not say which jobs it works: {hint}.")


def _name(worker: Worker[Any]) -> str:
    """Return what to call a worker in errors: its class, or its function."""
    if isinstance(worker, _Function | _BatchFunction):
        function = worker.work if isinstance(worker, _Function) else worker.work_many
        return getattr(function, "__qualname__", repr(function))
    return type(worker).__name__


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
    )


def _args_type(worker_type: type[Any]) -> type[Any]:
    """Return the type that stands for `A` in a worker's class; ConfigError where none does."""
    found = _argument(worker_type, {})
    if isinstance(found, type) or get_origin(found) is not None:
        return found  # type: ignore[return-value]
    raise ConfigError(
        f"{worker_type.__name__} does not say which jobs it works: make it a Worker[ArgsType], with"
        " the type itself and not its name."
    )


def _argument(worker_type: type[Any], bound: dict[Any, Any]) -> object:
    """Return what `Worker`'s parameter is in a class, through any generic classes between."""
    for base in worker_type.__dict__.get("__orig_bases__", worker_type.__bases__):
        origin = get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, Worker)):
            continue
        arguments = [bound.get(argument, argument) for argument in get_args(base)]
        if origin is Worker:
            return arguments[0] if arguments else None
        parameters = getattr(origin, "__parameters__", ())
        found = _argument(origin, dict(zip(parameters, arguments, strict=False)))
        if found is not None:
            return found
    return None
