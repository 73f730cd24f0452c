"""Check the expressions of a wait before anything is inserted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from riverui.errors import ExpressionsUnavailable, WaitInvalid
from riverui.features.workflows.waits.domain import TaskFinalizedAt, Wait

_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
FUNCTIONS = (
    "all, bytes, contains, double, duration, dyn, endsWith, exists, exists_one, filter, getDate,"
    " getDayOfMonth, getDayOfWeek, getDayOfYear, getFullYear, getHours, getMilliseconds,"
    " getMinutes, getMonth, getSeconds, has, int, map, matches, size, startsWith, string,"
    " timestamp, type, uint"
)
"""CEL's standard functions and macros that the library supports."""


def check_wait(wait: Wait, deps: Sequence[str]) -> None:
    """Raise WaitInvalid for an expression that is not CEL or uses unknown names or functions, and
    for a timer relative to a task that is not a dependency; ExpressionsUnavailable without the
    library.
    """
    for term in wait.timer_terms:
        if isinstance(term.since, TaskFinalizedAt) and term.since.task not in deps:
            raise WaitInvalid(
                f"Term {term.name!r} counts from the end of {term.since.task[:200]!r}, which is not"
                " one of the task's dependencies."
            )
    for what, text, known in wait.expressions():
        _check(what, text, known)


def _check(what: str, text: str, known: Sequence[str]) -> None:
    try:
        # Slow to import, and needed only by waits.
        import cel
    except ImportError:
        raise ExpressionsUnavailable from None
    try:
        program = cel.compile(text)
    except ValueError as error:
        raise WaitInvalid(f"The expression of {what} is not CEL: {_first_line(error)}") from None
    # The library reports the variables of `exists(x, …)` and other macros as well.
    named = {*known, *_BOUND.findall(text)}
    for name in program.variables():
        if name not in named:
            raise WaitInvalid(
                f"The expression of {what} uses the unknown name {name[:100]!r}. The known names"
                f" are {', '.join(known)[:400]}."
            )
    for name in program.functions():
        # Operators are among them: `_+_`, `@in`.
        if name.isidentifier() and name not in FUNCTIONS.split(", "):
            raise WaitInvalid(
                f"The expression of {what} calls the unknown function {name[:100]!r}. The known"
                f" functions are {FUNCTIONS}."
            )


def _first_line(error: Exception) -> str:
    """Return the error without the expression, which it repeats."""
    lines = [line for line in str(error).splitlines() if "ERROR:" in line]
    return (lines[0] if lines else str(error)).rpartition("ERROR: ")[2][:200]
