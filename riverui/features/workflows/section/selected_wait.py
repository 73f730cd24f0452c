"""The wait of a task, as of its last evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from riverui.domain.json import read_object
from riverui.domain.time import aware_instant
from riverui.errors import WaitInvalid
from riverui.features.workflows.waits.domain import AnyTerm, SignalTerm, TimerTerm, Wait
from riverui.features.workflows.waits.store import SignalPageRow, WaitRow, WaitStore
from riverui.features.workflows.waits.verbs import signals
from riverui.features.workflows.waits.verbs.waits import Progress
from riverui.storage.interface import Executor


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitLine:
    """One term."""

    name: str
    label: str
    key: str
    """The key of the signals it counts; empty for other terms."""
    holds: bool
    words: str
    at: datetime | None
    """When a timer fires; None if not known yet, and for other terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitShown:
    """A task's wait."""

    expr: str
    begun: bool
    over: bool
    lines: tuple[WaitLine, ...]
    error: str
    """The error of its last evaluation."""
    fresh: SignalPageRow | None = None
    """The newest signal, if it came later."""


async def read_wait(executor: Executor, id: str, name: str) -> WaitShown | None:
    """Return a task's wait; None if it has none, or the table of waits is missing."""
    if not await WaitStore.installed(executor):
        return None
    row = await WaitStore(executor).workflow_wait_get(id, name)
    if row is None or row.wait == "null":
        return None
    try:
        wait = signals.wait_of(row)
        shown = _shown(row, wait)
        if not shown.begun or shown.over:
            return shown
        return replace(shown, fresh=await _fresh(executor, row, wait))
    except WaitInvalid as error:
        return WaitShown(expr="", begun=False, over=False, lines=(), error=str(error))


async def _fresh(executor: Executor, row: WaitRow, wait: Wait) -> SignalPageRow | None:
    """Return the newest signal for a wait, if the last evaluation did not include it."""
    waits = WaitStore(executor)
    workflow = await waits.own_workflow_get(row.workflow_id)
    if workflow is None:
        return None
    found = await waits.workflow_signal_page_list(
        row.workflow_id, attempt=workflow.attempt, keys=wait.signal_keys, limit=1
    )
    if not found:
        return None
    counted = Progress.from_json(row.progress, workflow.attempt).signals.get(found[0].key)
    last = 0 if counted is None else counted.last_included_id or 0
    return found[0] if found[0].id > last else None


def _shown(row: WaitRow, wait: Wait) -> WaitShown:
    attempt = read_object(row.progress).get("attempt")
    progress = Progress.from_json(row.progress, attempt if isinstance(attempt, int) else 0)
    return WaitShown(
        expr=wait.expr,
        begun=row.state != "waiting",
        over=row.state not in ("waiting", "wait"),
        lines=tuple(_line(term, progress) for term in wait.terms),
        error=progress.error,
    )


def _line(term: AnyTerm, progress: Progress) -> WaitLine:
    words, at, key = "holds" if term.name in progress.true else "does not hold", None, ""
    if isinstance(term, SignalTerm):
        count, _ = progress.matched.get(term.name, (0, None))
        key = term.key
        words = f"{count:,} of {term.required_count:,} signals “{term.key}”"
    elif isinstance(term, TimerTerm):
        words = "fired" if term.name in progress.true else "fires"
        at = aware_instant(progress.fires.get(term.name, ""))
    return WaitLine(
        name=term.name,
        label=term.label,
        key=key,
        holds=term.name in progress.true,
        words=words,
        at=at,
    )
