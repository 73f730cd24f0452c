"""What a task waits for of its own, as it was when that was looked at last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from riverui.actions import signals
from riverui.actions.waits import Progress
from riverui.domain.clock import aware_instant
from riverui.domain.stored_json import read_object
from riverui.domain.waits import AnyTerm, SignalTerm, TimerTerm, Wait
from riverui.errors import WaitInvalid
from riverui.storage.interface import OWN_TABLES, WAITS, Executor
from riverui.storage.interface.waits import SIGNAL_TABLE, WaitRow


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitLine:
    """One term."""

    name: str
    label: str
    holds: bool
    words: str
    at: datetime | None
    """When a timer fires; None before that is known, and for other terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitShown:
    """A task's wait."""

    expr: str
    begun: bool
    over: bool
    lines: tuple[WaitLine, ...]
    error: str
    """What was wrong when it was looked at last."""


async def read_wait(executor: Executor, id: str, name: str) -> WaitShown | None:
    """Return a task's wait; None where it has none, or there is no table for waits."""
    if not {WAITS, OWN_TABLES}.issubset(executor.capabilities):
        return None
    if not await SIGNAL_TABLE.exists(executor):
        return None
    row = await WAITS.on(executor).workflow_wait_get(id, name)
    if row is None or row.wait == "null":
        return None
    try:
        return _shown(row, signals.wait_of(row))
    except WaitInvalid as error:
        return WaitShown(expr="", begun=False, over=False, lines=(), error=str(error))


def _shown(row: WaitRow, wait: Wait) -> WaitShown:
    attempt = read_object(row.progress).get("attempt")
    progress = Progress.of(row.progress, attempt if isinstance(attempt, int) else 0)
    return WaitShown(
        expr=wait.expr,
        begun=row.state != "waiting",
        over=row.state not in ("waiting", "wait"),
        lines=tuple(_line(term, progress) for term in wait.terms),
        error=progress.error,
    )


def _line(term: AnyTerm, progress: Progress) -> WaitLine:
    words, at = "holds" if term.name in progress.true else "does not hold", None
    if isinstance(term, SignalTerm):
        count, _ = progress.matched.get(term.name, (0, None))
        words = f"{count:,} of {term.required_count:,} signals “{term.key}”"
    elif isinstance(term, TimerTerm):
        words = "fired" if term.name in progress.true else "fires"
        at = aware_instant(progress.fires.get(term.name, ""))
    return WaitLine(
        name=term.name, label=term.label, holds=term.name in progress.true, words=words, at=at
    )
