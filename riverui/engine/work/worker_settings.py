"""Checks and reads the settings of workers: time limits, middleware, batches, isolation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, cast

from riverui.engine.args.fields import fields_of, struct_kind
from riverui.engine.hooks import Middleware
from riverui.engine.setting_checks import check_retry
from riverui.engine.spans import NO_LIMIT
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.domain.jobs import JobRow


class WorkerSettings(Protocol):
    """The settings of a worker, of any type before validation."""

    timeout: Any
    retry: Any
    middleware: Any
    isolation: Any
    hard_timeout: Any

    @property
    def next_retry(self) -> Callable[..., Any]:
        """When to retry after an error."""
        ...


MAX_IN_BATCH = 10_000
"""Most jobs that are worked together, as all of them and their errors are in memory."""
_LEAST_POLL = timedelta(milliseconds=10)
"""Minimum time between two fetches for a batch, as each is a statement."""
_NOTHING = timedelta(0)
_LIMITS = (
    "a timedelta such as timedelta(seconds=30), NO_LIMIT, or a method that takes the job and"
    " returns one"
)


def check_settings(worker: WorkerSettings, name: str) -> None:
    """Raise ConfigError if the worker's time limits, retry, middleware or next_retry are
    invalid.
    """
    _check_timeout(worker.timeout, f"{name}.timeout")
    _check_timeout(worker.hard_timeout, f"{name}.hard_timeout")
    check_retry(f"{name}.retry", worker.retry)
    _check_middleware(worker.middleware, name)
    _check_method(worker.next_retry, f"{name}.next_retry", "the job")


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSettings:
    """How the jobs of a kind are gathered to be worked together."""

    max_count: int
    max_delay: timedelta
    poll_interval: timedelta
    by_args: bool | Sequence[str]


def batch_settings(worker: Any, args_type: type[Any], name: str) -> BatchSettings:
    """Return how a worker gathers its batches; ConfigError for invalid settings."""
    count, by_args = worker.max_count, worker.by_args
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_IN_BATCH:
        raise ConfigError(f"{name}.max_count must be a whole number from 1 to {MAX_IN_BATCH:,}.")
    if not isinstance(worker.max_delay, timedelta) or worker.max_delay < _NOTHING:
        raise ConfigError(f"{name}.max_delay must be a timedelta that is not negative.")
    if not isinstance(worker.poll_interval, timedelta) or worker.poll_interval < _LEAST_POLL:
        raise ConfigError(f"{name}.poll_interval must be a timedelta of at least 10 ms.")
    if not isinstance(by_args, bool):
        by_args = _arg_names(by_args, args_type, name)
    return BatchSettings(
        max_count=count,
        max_delay=worker.max_delay,
        poll_interval=worker.poll_interval,
        by_args=by_args,
    )


def _arg_names(names: Any, args_type: type[Any], name: str) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ConfigError(f"{name}.by_args must be True, or a list of names of args.")
    known = {field.name for field in fields_of(args_type)} if struct_kind(args_type) else None
    for one in names:
        if not isinstance(one, str) or (known is not None and one not in known):
            raise ConfigError(
                f"{name}.by_args: {args_type.__name__} has no args {one!r} in its JSON."
            )
    return tuple(names)


def check_isolation(
    worker: WorkerSettings, name: str, made_of: Sequence[object], *, is_async: bool
) -> None:
    """Raise ConfigError if the worker's isolation or hard_timeout is invalid. `made_of` is what a
    child process must import: its function or class, and the type of its args.
    """
    if worker.isolation not in (None, "process"):
        raise ConfigError(f'{name}.isolation must be "process" or None, not {worker.isolation!r}.')
    if worker.isolation is None:
        if worker.hard_timeout is not None:
            raise ConfigError(
                f'{name}.hard_timeout needs isolation="process": neither a thread nor a coroutine'
                " can be killed."
            )
        return
    if is_async:
        raise ConfigError(
            f"{name} is asynchronous: a process of its own is for plain functions, so write `def`"
            " instead of `async def`."
        )
    for one in made_of:
        called = getattr(one, "__qualname__", "")
        if getattr(one, "__module__", None) == "__main__":
            raise ConfigError(
                f"{called} is in the program's main module, which a process of its own cannot"
                " import: put it into a module of its own, and import it from there."
            )
        if "<locals>" in called or "<lambda>" in called:
            raise ConfigError(
                f"{called} is made inside a function, where a process of its own cannot find it:"
                " it belongs on the top level of a module."
            )


def hard_seconds_of(worker: WorkerSettings, job: Any) -> float | None:
    """Return the hard time limit of one job, or infinity; None if the worker has none.

    It raises the exceptions of the worker's own `hard_timeout`, and TypeError if that returns
    anything else.
    """
    limit = worker.hard_timeout
    if callable(limit):
        limit = limit(job)
    if limit is None:
        return None
    if not isinstance(limit, timedelta):
        raise TypeError(
            f"{type(worker).__name__}.hard_timeout returned {limit!r}, where a timedelta was"
            " expected"
        )
    return limit.total_seconds() if limit > _NOTHING else inf


def timeout_of(worker: WorkerSettings, job: Any, default: timedelta) -> timedelta:
    """Return the time limit of one job, negative for none; `default` if the worker's is None or
    zero.

    It raises the exceptions of the worker's own `timeout`, and TypeError if that returns anything
    else.
    """
    limit = worker.timeout
    if callable(limit):
        limit = limit(job)
    if limit is None:
        return default
    if not isinstance(limit, timedelta):
        raise TypeError(
            f"{type(worker).__name__}.timeout returned {limit!r}, where a timedelta was expected"
        )
    return limit or default


def middleware_of(worker: WorkerSettings, row: JobRow) -> Sequence[Middleware]:
    """Return the worker's middleware for one job, outermost first.

    It raises the exceptions of the worker's own `middleware`, and TypeError if that returns
    anything else.
    """
    found = worker.middleware
    if not callable(found):
        return cast(Sequence[Middleware], found)
    chosen = tuple(found(row))
    for one in chosen:
        if not isinstance(one, Middleware):
            raise TypeError(
                f"{type(worker).__name__}.middleware returned {one!r}, where a Middleware was"
                " expected"
            )
    return chosen


def _check_timeout(timeout: Any, name: str) -> None:
    if timeout is None:
        return
    if isinstance(timeout, timedelta):
        if timeout < _NOTHING and timeout != NO_LIMIT:
            raise ConfigError(f"{name} must not be negative: use NO_LIMIT for no limit.")
    elif callable(timeout):
        _check_method(timeout, name, "the job")
    else:
        raise ConfigError(f"{name} must be {_LIMITS}, not {timeout!r}.")


def _check_middleware(middleware: Any, name: str) -> None:
    if isinstance(middleware, type) or not (
        callable(middleware) or isinstance(middleware, Sequence)
    ):
        raise ConfigError(
            f"{name}.middleware must be a list of Middleware, or a method that returns one for a"
            f" job's row, not {middleware!r}."
        )
    if isinstance(middleware, Sequence):
        for one in middleware:
            if not isinstance(one, Middleware):
                raise ConfigError(
                    f"{name}.middleware must hold only instances of Middleware subclasses, not"
                    f" {one!r}."
                )
    else:
        _check_method(middleware, f"{name}.middleware", "the job's row")


def _check_method(method: Callable[..., Any], name: str, argument: str) -> None:
    if inspect.iscoroutinefunction(method):
        raise ConfigError(f"{name} must not be async: it is called where nothing can be awaited.")
    try:
        inspect.signature(method).bind(None)
    except TypeError:
        raise ConfigError(f"{name} must take one argument, {argument}.") from None
    except ValueError:
        # A C function without a signature: only a call could show.
        pass
