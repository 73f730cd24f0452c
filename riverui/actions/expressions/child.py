"""The program that evaluates expressions: asked by lines of JSON on its input, it answers on its
output. It imports nothing of riverui, so that it starts quickly.

The first line is `sys.path`. Each further line is `{"programs": [text, …], "contexts": [{…}, …],
"times": [[key, …], …], "budget": seconds, "most": seconds}`; the answer is `{"done": n, "values":
[[bool, …], …], "errors": [text or null, …]}`: one row of values for each context that was looked
at within the budget, and for each program the last error.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

MEMORY = 1 << 30
"""Bytes of address space: a library may take half of it, an expression fails beyond."""
_LONGEST_ERROR = 300
"""Characters of an error: a line or two on a page."""


def main() -> None:
    """Answer until the input ends."""
    sys.path[:] = json.loads(sys.stdin.readline())
    import cel

    _limit_memory()
    print(json.dumps("ready"), flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(_answer(line, cel.compile)), flush=True)  # noqa: T201


def _answer(line: str, compiled: Callable[[str], Any]) -> dict[str, Any]:
    try:
        request = json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError):
        return {"done": -1, "values": [], "errors": ["a value is nested too deeply"]}
    _limit_time(request["most"])
    until = time.process_time() + request["budget"]
    errors: list[str | None] = [None] * len(request["programs"])
    programs = []
    for place, text in enumerate(request["programs"]):
        try:
            programs.append(compiled(text))
        except Exception as error:
            programs.append(None)
            errors[place] = _told(error)
    values: list[list[bool]] = []
    for context in request["contexts"]:
        if values and time.process_time() > until:
            break
        for path in request["times"]:
            _make_time(context, path)
        row = []
        for place, program in enumerate(programs):
            value, wrong = _value(program, context)
            row.append(value)
            errors[place] = wrong or errors[place]
        values.append(row)
    _limit_time(0)
    return {"done": len(values), "values": values, "errors": errors}


def _value(program: Any, context: dict[str, Any]) -> tuple[bool, str | None]:
    """Return what an expression gives, and what is wrong with it; False for all but true."""
    if program is None:
        return False, None
    try:
        found = program.execute(context)
    except Exception as error:
        return False, _told(error)
    if type(found) is not bool:
        return False, f"it gives {type(found).__name__}, neither true nor false"
    return found, None


def _told(error: Exception) -> str:
    words = str(error)
    if isinstance(error, KeyError):
        words = f"there is no {words}"
    return words.partition("\n")[0][:_LONGEST_ERROR] or type(error).__name__


def _make_time(context: Any, path: Sequence[str]) -> None:
    """Make the text at a path a time, where there is one; `*` stands for every key or place."""
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
    """Return a whole number; one that CEL has no whole number for becomes a float."""
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
    """End this process once it has worked for so long; 0 lifts that."""
    if hasattr(signal, "ITIMER_PROF"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main()
