"""The process that evaluates expressions: reads requests from stdin and answers on stdout."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from riverui.ipc.connection import Connection

MEMORY = 1 << 30
"""Bytes of address space: libraries may take half of it; an expression fails beyond."""
_LONGEST_ERROR = 300
"""Maximum characters of an error: a line or two on a page."""


class Setup(msgspec.Struct, tag=True):
    """The first message to the process, which answers Ready."""

    path: Sequence[str]
    """The parent's `sys.path`, on which CEL's library is found."""


class Ready(msgspec.Struct, tag=True):
    """The process waits for requests."""


class Request(msgspec.Struct, tag=True):
    """Requests the value of each program in each context."""

    programs: Sequence[str]
    contexts: Sequence[str]
    """Each a JSON object."""
    times: Sequence[Sequence[str]]
    """Paths to texts in the contexts that are times; `*` stands for every key."""
    budget: float
    """Seconds of CPU after which no further context is evaluated."""
    most: float
    """Seconds of CPU after which the process is killed."""


class Evaluation(msgspec.Struct, tag=True):
    """The values of expressions."""

    values: Sequence[Sequence[bool]]
    """The value of each expression by context; False if it fails. The last contexts are missing if
    they took too long, but never the first.
    """
    errors: Sequence[str | None]
    """The last error of each expression."""


def main() -> None:
    """Answer requests until the input ends."""
    connection: Connection[Setup | Request] = Connection(
        sys.stdin.buffer, sys.stdout.buffer, Setup | Request
    )
    setup = connection.receive()
    assert isinstance(setup, Setup)
    sys.path[:] = setup.path
    import cel

    _limit_memory()
    connection.send(Ready())
    while isinstance(request := connection.receive(), Request):
        connection.send(_answer(request, cel.compile))


def _answer(request: Request, compiled: Callable[[str], Any]) -> Evaluation:
    _limit_time(request.most)
    until = time.process_time() + request.budget
    errors: list[str | None] = [None] * len(request.programs)
    programs = []
    for place, text in enumerate(request.programs):
        try:
            programs.append(compiled(text))
        except Exception as error:
            programs.append(None)
            errors[place] = _words(error)
    values: list[list[bool]] = []
    for text in request.contexts:
        if values and time.process_time() > until:
            break
        row = []
        try:
            context = json.loads(text, parse_int=_integer)
        except (ValueError, RecursionError):
            values.append([False] * len(programs))
            errors = ["a value is nested too deeply"] * len(programs)
            continue
        for path in request.times:
            _make_time(context, path)
        for place, program in enumerate(programs):
            value, wrong = _value(program, context)
            row.append(value)
            errors[place] = wrong or errors[place]
        values.append(row)
    _limit_time(0)
    return Evaluation(values, errors)


def _value(program: Any, context: dict[str, Any]) -> tuple[bool, str | None]:
    """Return an expression's value, False unless it is true, and its error."""
    if program is None:
        return False, None
    try:
        found = program.execute(context)
    except Exception as error:
        return False, _words(error)
    if type(found) is not bool:
        return False, f"it gives {type(found).__name__}, neither true nor false"
    return found, None


def _words(error: Exception) -> str:
    words = str(error)
    if isinstance(error, KeyError):
        words = f"there is no {words}"
    return words.partition("\n")[0][:_LONGEST_ERROR] or type(error).__name__


def _make_time(context: Any, path: Sequence[str]) -> None:
    """Convert the text at a path, if any, to a time; `*` stands for every key or index."""
    key, rest = path[0], path[1:]
    if key == "*":
        keys = list(context) if isinstance(context, dict) else range(len(context))
    else:
        keys = [key] if isinstance(context, dict) and key in context else []
    for each in keys:
        if rest:
            _make_time(context[each], rest)
        elif isinstance(context[each], str):
            context[each] = datetime.fromisoformat(context[each])


def _integer(digits: str) -> int | float:
    """Return a whole number, or a float if it does not fit CEL's integers."""
    if len(digits) < 19:
        return int(digits)
    number = float(digits)
    return int(digits) if abs(number) < 9.2e18 else number


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """Limit the CPU time after which this process is killed; 0 removes the limit."""
    if hasattr(signal, "ITIMER_PROF"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
