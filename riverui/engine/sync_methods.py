"""Methods of asyncio classes as methods of their synchronous counterparts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from riverui.errors import InsertError
from riverui.storage.interface import WouldWait, at_once

P = ParamSpec("P")
T = TypeVar("T")


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that awaits nothing but a SyncDriver. InsertError if a hook,
    middleware or feature awaits something else.
    """
    try:
        return at_once(coroutine)
    except WouldWait:
        raise InsertError(
            "a hook, middleware or feature awaits something, which only the asyncio client can do"
        ) from None


def sync_method(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return an asyncio method as a synchronous one, with its parameters and docstring.

    The synchronous class has the asyncio object as `_calls`.
    """

    @wraps(method)
    def call(self: Any, /, *args: P.args, **given: P.kwargs) -> T:
        return run_at_once(method(self._calls, *args, **given))

    return call
