"""Sends workers to a child process, and errors and OpenTelemetry's trace contexts between
processes.

A worker is pickled, so functions and classes are sent by name. Errors are not: many cannot be
pickled, and unpickling them would run code. If the client's process has loaded an error's class,
the received error is an instance of it, so that `isinstance` works as in the child, with the
child's text and traceback.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

from riverui.engine.args.job_args import decoder
from riverui.engine.work.outcome import (
    ProcessTrace,
    find,
    make_storable,
    trace_text,
    words_of,
)
from riverui.engine.work.processes.messages import Failure, Plain
from riverui.engine.work.worker import JobCancel, JobSnooze, WorkUnit
from riverui.engine.work.workers import name_of, plain_function
from riverui.errors import ConfigError, JobProcessError

_MAX_VALUES = 50
"""Most args and attributes of an error that are sent: more is data rather than an error."""
_MAX_CHARACTERS = 10_000
"""Characters of each of them."""
_OS_ERROR_ATTRIBUTES = ("errno", "strerror", "filename")
"""Attributes that are missing in an error's `__dict__`."""
_KNOWN_CLASSES = 256
"""Cached error classes: a program has fewer."""


class LoadedWork(NamedTuple):
    """How a child works jobs of one kind."""

    run: Callable[[Any], Any]
    decode: Callable[[str], Any]


def pickled(unit: WorkUnit) -> bytes:
    """Return what a child needs to work jobs of a kind; ConfigError if it cannot be sent."""
    what = plain_function(unit.worker) or unit.worker
    try:
        return pickle.dumps((what, unit.args_type), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ConfigError(
            f"{name_of(unit.worker)} cannot be sent to a process of its own ({error}): a function"
            " must be what its module has under its name, and a worker must hold only what can be"
            " pickled; let it open files and connections when it first needs them."
        ) from error


def loaded(sent: bytes) -> LoadedWork:
    """Return how to work jobs, from the result of `pickled`. Raise the exceptions of importing its
    module.
    """
    what, args_type = pickle.loads(sent)  # noqa: S301 - the client has made it
    return LoadedWork(getattr(what, "work", what), decoder(args_type))


def current_trace() -> Mapping[str, str] | None:
    """Return the current trace context, serialized; None if there is none."""
    if "opentelemetry.propagate" not in sys.modules and "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier or None


@contextmanager
def traced(carrier: Mapping[str, str] | None) -> Iterator[None]:
    """Run a block in the trace that `current_trace` returned."""
    if carrier is None:
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def failure_of(error: BaseException) -> Failure:
    """Return an error in the form to send; for a group that contains a JobSnooze or JobCancel, that
    one.
    """
    snooze = find(error, JobSnooze)
    cancel = None if snooze else find(error, JobCancel)
    error = snooze or cancel or error
    text = words_of(error)
    if cancel is not None:
        text = text or words_of(cancel.__cause__)
    attributes = dict(getattr(error, "__dict__", {}))
    if isinstance(error, OSError):
        attributes |= {name: getattr(error, name, None) for name in _OS_ERROR_ATTRIBUTES}
    return Failure(
        classes=[(cls.__module__, cls.__qualname__) for cls in _few(type(error).__mro__)],
        text=make_storable(text),
        trace=make_storable(trace_text(error)),
        args=[plain(each) if is_plain(each) else repr_of(each) for each in _few(error.args)],
        attributes=plain_of(attributes),
        cancels=cancel is not None,
        interrupted=isinstance(error, asyncio.CancelledError),
        snoozes=snooze.duration if snooze else None,
    )


def error_of(failure: Failure) -> BaseException:
    """Return an error like the one in the child."""
    if failure.snoozes is not None:
        return JobSnooze(failure.snoozes)
    if failure.interrupted:
        return asyncio.CancelledError()
    fallback = JobCancel if failure.cancels else JobProcessError
    error: BaseException | None = None
    for found in (*_loaded_classes(failure), fallback):
        # Some classes cannot have a subclass, or need their own constructor.
        with suppress(Exception):
            error = _rebuilt_error(found, failure)
            break
    if error is None or (failure.cancels and not isinstance(error, JobCancel)):
        error = fallback(failure.text)
    if failure.trace:
        error.__cause__ = ProcessTrace(failure.trace)
    return error


def is_plain(value: object) -> bool:
    """Return whether a value is simple enough to send."""
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 64
    return value is None or type(value) in (bool, float, str)


def plain(value: Any) -> Plain:
    """Return a simple value in the form to send: a text is truncated, and made encodable."""
    return make_storable(value, _MAX_CHARACTERS) if isinstance(value, str) else value


def plain_of(values: Mapping[Any, Any]) -> dict[str, Plain]:
    """Return the simple values by name."""
    return {
        make_storable(key, _MAX_CHARACTERS): plain(value)
        for key, value in _few(values.items())
        if isinstance(key, str) and is_plain(value)
    }


def repr_of(value: object) -> str:
    """Return the repr of a value, truncated; its type if that raises."""
    try:
        text = repr(value)
    except BaseException:
        text = f"<{type(value).__name__}>"
    return make_storable(text, _MAX_CHARACTERS)


def _few(values: Iterable[Any]) -> Iterable[Any]:
    return islice(values, _MAX_VALUES)


def _loaded_classes(failure: Failure) -> Iterator[type[BaseException]]:
    """Yield the classes of the error that this process has loaded too, the most specific first."""
    for module, name in failure.classes:
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        if isinstance(found, type) and issubclass(found, BaseException):
            yield found


def _rebuilt_error(base: type[BaseException], failure: Failure) -> BaseException:
    cls = _like(cast(Any, base), *failure.classes[0])
    error: BaseException = cls.__new__(cls)
    error.args = tuple(failure.args)
    for name, value in failure.attributes.items():
        with suppress(Exception):
            setattr(error, name, value)
    vars(error)["_riverui_text"] = failure.text
    return error


@lru_cache(maxsize=_KNOWN_CLASSES)
def _like(base: Any, module: str, name: str) -> Any:
    """Return an error class with the name of the child's, whose text is the child's."""
    members: dict[str, Any] = {
        "__module__": module,
        "__qualname__": name,
        "__str__": lambda error: vars(error).get("_riverui_text", ""),
    }
    return type(base)(name.rpartition(".")[2], (base,), members)
