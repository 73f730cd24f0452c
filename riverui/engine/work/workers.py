"""The workers of a client, by kind: classes, functions and tasks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from riverui.domain.retries import Retry
from riverui.engine.args.job_args import decoder, ephemeral_of, kind_aliases_of, kind_of, retry_of
from riverui.engine.work.worker_settings import (
    batch_settings,
    check_isolation,
    check_settings,
)
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.engine.work.tasks import Task, TaskDecorator, TaskKeywords, TaskWithJobDecorator

from riverui.engine.work.worker import A, BatchWorker, Isolation, Job, P, R, Worker, WorkUnit

F = TypeVar("F", bound=Callable[[Job[Any]], Any])


class _BatchFunction(BatchWorker[Any]):
    """A plain function as a worker of batches."""

    def __init__(self, function: Callable[[Sequence[Job[Any]]], Any], **settings: Any) -> None:
        for name, value in settings.items():
            setattr(self, name, value)
        # Replaces the method, so that `_is_async` sees it.
        self.work_many = function  # type: ignore[method-assign, assignment]


class _Function(Worker[Any]):
    """A plain function as a worker."""

    def __init__(
        self,
        function: Callable[[Job[Any]], Any],
        timeout: timedelta | Callable[[Job[Any]], timedelta | None] | None,
        retry: Retry | None,
        *,
        isolation: Isolation | None = None,
        hard_timeout: timedelta | None = None,
        origin: Callable[..., Any] | None = None,
    ) -> None:
        self.timeout = timeout
        self.retry = retry
        self.isolation = isolation
        self.hard_timeout = hard_timeout
        self.origin = origin or function
        """The object that its module has under the function's name: the function, or its task."""
        # Replaces the method, so that `_is_async` sees it.
        self.work = function  # type: ignore[method-assign, assignment]


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
        """Register a worker under its args' kind and aliases; ConfigError if one is taken or
        invalid.

        `args_type` is needed only if the worker's class does not name it as `Worker[ArgsType]`.
        `ephemeral` jobs are deleted on success; None means as their args say.
        """
        if not isinstance(worker, Worker):
            raise ConfigError(f"{worker!r} is not a Worker: add an instance of a subclass.")
        self._register(worker, args_type or _args_type(type(worker)), ephemeral)

    @overload
    def work(  # type: ignore[overload-overlap]  # a class that takes anything looks like a function
        self,
        args_type: type[A],
        *,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        ephemeral: bool | None = None,
        isolation: Isolation | None = None,
        hard_timeout: timedelta | None = None,
    ) -> Callable[[Callable[[Job[A]], R]], Callable[[Job[A]], R]]: ...

    @overload
    def work(self, function: F, /) -> F: ...

    @overload
    def work(
        self,
        *,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        ephemeral: bool | None = None,
        isolation: Isolation | None = None,
        hard_timeout: timedelta | None = None,
    ) -> Callable[[F], F]: ...

    def work(
        self,
        args_type: Any = None,
        *,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        ephemeral: bool | None = None,
        isolation: Isolation | None = None,
        hard_timeout: timedelta | None = None,
    ) -> Any:
        """Register a function, async or not, as the worker of its args' kind; for use as a
        decorator.

        `@workers.work` and `@workers.work(timeout=…)` take the type of args from the function's
        annotation, `job: Job[ArgsType]`; `@workers.work(ArgsType)` needs none. ConfigError if there
        is neither. `ephemeral` is as in `add`; `isolation` and `hard_timeout` are Worker's.
        """

        def register(function: F) -> F:
            found = _annotated_args_type(function) if args_type is None else args_type
            worker = _Function(
                function, timeout, retry, isolation=isolation, hard_timeout=hard_timeout
            )
            self._register(worker, found, ephemeral)
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
        retry: Retry | None = None,
        ephemeral: bool | None = None,
    ) -> Callable[[Callable[[Sequence[Job[A]]], R]], Callable[[Sequence[Job[A]]], R]]:
        """Register a function, async or not, as the worker of batches of its args' kind; for use as
        a decorator.

        See BatchWorker for the settings; ConfigError if one is invalid.
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
                retry=retry,
            )
            self._register(worker, args_type, ephemeral)
            return function

        return register

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        kind: str | None = None,
        kind_aliases: Sequence[str] = (),
        pass_job: Literal[False] = False,
        **settings: Unpack[TaskKeywords],
    ) -> TaskDecorator: ...

    @overload
    def task(
        self,
        *,
        pass_job: Literal[True],
        kind: str | None = None,
        kind_aliases: Sequence[str] = (),
        **settings: Unpack[TaskKeywords],
    ) -> TaskWithJobDecorator: ...

    def task(
        self,
        function: Any = None,
        *,
        kind: str | None = None,
        kind_aliases: Sequence[str] = (),
        pass_job: bool = False,
        **settings: Any,
    ) -> Any:
        """Turn a function, async or not, into a Task, whose jobs call it with their args; for use
        as a decorator, with or without settings.

        `kind` defaults to the function's name. With `pass_job` the first parameter gets the Job.
        `timeout`, `retry`, `isolation` and so on are as in `work`, `upgrade` as in a type of args;
        `queue`, `priority` and so on are defaults for inserts. ConfigError for a function that
        cannot be called with JSON values.
        """

        def register(function: Callable[..., Any]) -> Any:
            from riverui.engine.work.tasks import make_task

            made = make_task(
                function,
                kind=kind,
                kind_aliases=kind_aliases,
                pass_job=pass_job,
                settings=settings,
            )
            # Their Retry is that of the args, which clients that only insert use too.
            worker = _Function(
                made.work,
                settings.get("timeout"),
                None,
                isolation=settings.get("isolation"),
                hard_timeout=settings.get("hard_timeout"),
                origin=made,
            )
            self._register(worker, made.args_type, settings.get("ephemeral"))
            return made

        return register if function is None else register(function)

    def get(self, kind: str) -> WorkUnit | None:
        """Return the worker of a kind; None if there is none."""
        return self._units.get(kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind and alias."""
        return tuple(self._units)

    @property
    def isolated(self) -> tuple[WorkUnit, ...]:
        """Workers whose jobs run in processes of their own."""
        return tuple(unit for unit in self._units.values() if unit.isolated)

    def _register(self, worker: Worker[Any], args_type: type[Any], ephemeral: bool | None) -> None:
        kinds = (kind_of(args_type), *kind_aliases_of(args_type))
        check_settings(worker, name_of(worker))
        # Register all kinds or none, so check first.
        for at, kind in enumerate(kinds):
            if kind in self._units or kind in kinds[:at]:
                raise ConfigError(f"Job kind {kind!r} already has a worker.")
        retry = worker.retry or retry_of(args_type)
        decode = decoder(args_type)
        run: Callable[..., Any] = worker.work
        batch = None
        if isinstance(worker, BatchWorker):
            run, batch = worker.work_many, batch_settings(worker, args_type, name_of(worker))
            if worker.isolation is not None:
                raise ConfigError(f"{name_of(worker)} works batches, which cannot be isolated.")
        is_async = _is_async(run)
        made_of = plain_function(worker) or type(worker)
        check_isolation(worker, name_of(worker), (made_of, args_type), is_async=is_async)
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
                retry=retry,
            )


def _annotated_args_type(function: Callable[..., Any]) -> type[Any]:
    """Return the type of args that a function takes, from its annotation; ConfigError without
    one.
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


def plain_function(worker: Worker[Any]) -> Callable[..., Any] | None:
    """Return the function that a worker was made from; None for a worker of a class."""
    if isinstance(worker, _Function):
        return worker.origin
    return worker.work_many if isinstance(worker, _BatchFunction) else None


def name_of(worker: Worker[Any]) -> str:
    """Return the name of a worker's class or function, for errors."""
    if (function := plain_function(worker)) is not None:
        return getattr(function, "__qualname__", repr(function))
    return type(worker).__name__


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
    )


def _args_type(worker_type: type[Any]) -> type[Any]:
    """Return the args type of a worker's class; ConfigError if it has none."""
    found = _argument(worker_type, {})
    if isinstance(found, type) or get_origin(found) is not None:
        return found  # type: ignore[return-value]
    raise ConfigError(
        f"{worker_type.__name__} does not say which jobs it works: make it a Worker[ArgsType], with"
        " the type itself and not its name."
    )


def _argument(worker_type: type[Any], bound: dict[Any, Any]) -> object:
    """Return the argument for `Worker`'s parameter in a class, through any generic classes
    between.
    """
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
