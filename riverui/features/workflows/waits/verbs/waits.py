"""Evaluates the waits of tasks: reads the signals received, and evaluates their expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from riverui.domain.json import read_object
from riverui.features.workflows.domain.workflows import SignalRow
from riverui.features.workflows.waits.domain import (
    SignalCount,
    SignalTerm,
    TermResult,
    Wait,
    WaitMoments,
    fire_at,
    time_text,
)
from riverui.features.workflows.waits.expressions import Expressions
from riverui.features.workflows.waits.store import WaitDep, WaitFacts, WaitRow, WaitStore

MAX_SCANNED = 10_000
"""Signals that one evaluation reads: as many as River Pro's diagnostics."""
_PART, _PART_BYTES = 1_000, 1_000_000
"""Signals, and their bytes, that one statement reads and one request evaluates."""
_MAX_BYTES = 8_000_000
"""Bytes of signals that one evaluation reads, in at most a second."""
_LISTED = 1_000
"""Signals of each key that `signals` lists, the latest: use a signal term for more."""
_LONGEST_ERROR = 500
"""Characters of all errors of an evaluation together."""

_SIGNAL_TIMES = (("created_at",),)
_TIMES = (
    ("deps", "*", "finalized_at"),
    ("signals", "*", "*", "created_at"),
    ("timers", "*", "fire_at"),
    ("workflow", "created_at"),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The results of a wait so far: each signal is evaluated once."""

    attempt: int
    signals: Mapping[str, SignalCount] = field(default_factory=dict)
    """By key."""
    matched: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """By term: the number of signals, and the last one's id."""
    error: str = ""
    true: Sequence[str] = ()
    """The terms that were true at the last evaluation."""
    fires: Mapping[str, str] = field(default_factory=dict)
    """When timers fire, by term."""

    @classmethod
    def from_json(cls, text: str, attempt: int) -> Progress:
        """Return the progress stored in a row; empty if it is of another attempt."""
        found = read_object(text)
        if found.get("attempt") != attempt:
            return cls(attempt)
        signals, matched = found.get("signals") or {}, found.get("terms") or {}
        return cls(
            attempt,
            {
                key: SignalCount(included_count=count, last_included_id=last)
                for key, (count, last) in signals.items()
            },
            {name: (count, last) for name, (count, last) in matched.items()},
            str(found.get("error") or ""),
            found.get("true") or (),
            found.get("fires") or {},
        )

    def to_json(self) -> str:
        """Return the progress as stored in a row."""
        signals = {
            key: [count.included_count, count.last_included_id]
            for key, count in self.signals.items()
        }
        found: dict[str, Any] = {"attempt": self.attempt, "signals": signals, "terms": self.matched}
        found["true"], found["fires"] = list(self.true), dict(self.fires)
        if self.error:
            found["error"] = self.error
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


class Gathered(NamedTuple):
    """The inputs of an evaluation."""

    wait: Wait
    facts: WaitFacts
    deps: Sequence[WaitDep]
    progress: Progress
    fresh: Mapping[str, Sequence[SignalRow]]
    """New signals by key."""
    listed: Mapping[str, Sequence[SignalRow]]
    """Signals by key for expressions that name `signals`, oldest first."""
    more: bool
    """Whether there are more signals."""

    @property
    def size(self) -> int:
        """The size of its signals in bytes."""
        rows = (
            row for part in (self.fresh, self.listed) for found in part.values() for row in found
        )
        return sum(map(_size, rows))


class Look(NamedTuple):
    """The result of an evaluation."""

    gathered: Gathered
    progress: Progress
    results: Mapping[str, TermResult]
    """By term."""
    fires: Mapping[str, datetime | None]
    """When timers fire, by term."""
    over: bool
    scanned: int
    """Number of signals evaluated."""
    more: bool
    """Whether there are more signals."""


def needs_deps(wait: Wait) -> bool:
    """Return whether a wait depends on the task's dependencies."""
    return bool(wait.anchors) or _names(wait, "deps")


async def gather(
    waits: WaitStore, row: WaitRow, wait: Wait, facts: WaitFacts, deps: Sequence[WaitDep]
) -> Gathered:
    """Read the inputs of an evaluation."""
    progress = Progress.from_json(row.progress, facts.attempt)
    fresh: dict[str, Sequence[SignalRow]] = {}
    left, size, more = MAX_SCANNED, _MAX_BYTES, False
    for key in wait.signal_keys:
        known = progress.signals.get(key, SignalCount())
        rows, cut = await _fresh(waits, facts, key, known.last_included_id, left, size)
        fresh[key] = rows
        left -= len(rows)
        size -= sum(map(_size, rows))
        more = more or cut
    listed: dict[str, Sequence[SignalRow]] = {}
    if _names(wait, "signals"):
        for key in wait.signal_keys:
            latest = await waits.own_workflow_signal_list(
                facts.workflow_id,
                attempt=facts.attempt,
                keys=[key],
                limit=_LISTED,
                size=_PART_BYTES // len(wait.signal_keys),
            )
            listed[key] = latest[::-1]
    return Gathered(wait, facts, deps, progress, fresh, listed, more)


async def _fresh(
    waits: WaitStore, facts: WaitFacts, key: str, after: int, left: int, size: int
) -> tuple[Sequence[SignalRow], bool]:
    """Return signals of a key, and whether there may be more."""
    found: list[SignalRow] = []
    while left > 0 and size > 0:
        rows = await waits.own_workflow_signal_list(
            facts.workflow_id,
            attempt=facts.attempt,
            keys=[key],
            cursor_id=after,
            descending=False,
            limit=min(_PART, left),
            size=_PART_BYTES,
        )
        if not rows:
            return found, False
        found += rows
        after = rows[-1].id
        left -= len(rows)
        size -= sum(map(_size, rows))
    return found, True


async def look(expressions: Expressions, gathered: Gathered) -> Look:
    """Evaluate a wait. Raise ExpressionsUnavailable if CEL is not installed."""
    wait, facts = gathered.wait, gathered.facts
    errors: dict[str, str] = {}
    signals = dict(gathered.progress.signals)
    matched = dict(gathered.progress.matched)
    scanned, more = 0, gathered.more
    for key, fresh in gathered.fresh.items():
        if not fresh:
            continue
        terms = [term for term in wait.signal_terms if term.key == key]
        rows, answers = await _matches(expressions, terms, fresh)
        scanned += len(rows)
        more = more or len(rows) < len(fresh)
        before = signals.get(key, SignalCount())
        signals[key] = SignalCount(
            included_count=before.included_count + len(rows), last_included_id=rows[-1].id
        )
        for term, ids, error in answers:
            count, last = matched.get(term.name, (0, None))
            matched[term.name] = (count + len(ids), ids[-1] if ids else last)
            if error:
                errors[f"term {term.name!r}"] = error
    moments = WaitMoments(
        started_at=facts.started_at,
        workflow_created_at=facts.created_at,
        finalized_at={dep.name: dep.ended_at for dep in gathered.deps if dep.ended_at},
    )
    fires = {term.name: fire_at(term, moments) for term in wait.timer_terms}
    results = {
        term.name: _signal_result(term, matched.get(term.name, (0, None)))
        for term in wait.signal_terms
    }
    for name, at in fires.items():
        fired = at is not None and at <= facts.now
        results[name] = TermResult(satisfied=fired, matched_count=int(fired))
        if at is None:
            errors[f"term {name!r}"] = "the task that it counts from has no known end"
    if wait.conditions:
        context = json.dumps(_context(gathered, fires, results), ensure_ascii=False)
        found = await expressions.evaluate(
            [term.expr for term in wait.conditions], [context], _TIMES
        )
        for condition, true, error in zip(
            wait.conditions, found.values[0], found.errors, strict=True
        ):
            results[condition.name] = TermResult(satisfied=true, matched_count=int(true))
            if error:
                errors[f"term {condition.name!r}"] = error
    values = {name: result.satisfied for name, result in results.items()}
    whole = await expressions.evaluate([wait.expr], [json.dumps(values)])
    if whole.errors[0]:
        errors["the wait"] = whole.errors[0]
    error_text = "; ".join(f"{what}: {error}" for what, error in errors.items())[:_LONGEST_ERROR]
    held = [term.name for term in wait.terms if results[term.name].satisfied]
    known = {name: time_text(at) for name, at in fires.items() if at is not None}
    progress = Progress(facts.attempt, signals, matched, error_text, held, known)
    over = whole.values[0][0]
    return Look(gathered, progress, results, fires, over, scanned, more)


async def _matches(
    expressions: Expressions, terms: Sequence[SignalTerm], rows: Sequence[SignalRow]
) -> tuple[Sequence[SignalRow], Iterable[tuple[SignalTerm, Sequence[int], str | None]]]:
    """Return the signals evaluated, the first of the given ones; and for each term the ids of those
    for which it is true, and its last error.
    """
    asked = [term for term in terms if term.expr]
    answers: list[tuple[SignalTerm, Sequence[int], str | None]] = []
    if asked:
        found = await expressions.evaluate(
            [term.expr for term in asked], [_signal_text(row) for row in rows], _SIGNAL_TIMES
        )
        rows = rows[: len(found.values)]
        for place, term in enumerate(asked):
            fitting = [row.id for row, true in zip(rows, found.values, strict=True) if true[place]]
            answers.append((term, fitting, found.errors[place]))
    ids = [row.id for row in rows]
    answers += [(term, ids, None) for term in terms if not term.expr]
    return rows, answers


def _signal_result(term: SignalTerm, matched: tuple[int, int | None]) -> TermResult:
    count, last = matched
    return TermResult(
        satisfied=count >= term.required_count, matched_count=count, last_matched_id=last
    )


def _signal_text(row: SignalRow) -> str:
    """Return a signal in the form of expressions, as JSON; its payload is passed on unchanged."""
    return (
        f'{{"payload": {row.payload}, "attempt": {row.attempt}, "created_at":'
        f' "{time_text(row.created_at)}", "id": {row.id}, "key": {json.dumps(row.key)},'
        f' "source": {row.source}}}'
    )


def _context(
    gathered: Gathered,
    fires: Mapping[str, datetime | None],
    results: Mapping[str, TermResult],
) -> dict[str, Any]:
    facts = gathered.facts
    return {
        "deps": {dep.name: _dep(dep) for dep in gathered.deps},
        "signals": {
            key: [read_object(_signal_text(row)) for row in rows]
            for key, rows in gathered.listed.items()
        },
        "timers": {
            name: {
                "fired": results[name].satisfied,
                "fire_at": None if at is None else time_text(at),
            }
            for name, at in fires.items()
        },
        "workflow": {
            "id": facts.workflow_id,
            "name": facts.workflow_name,
            "attempt": facts.attempt,
            "created_at": time_text(facts.created_at),
        },
    }


def _dep(dep: WaitDep) -> dict[str, Any]:
    found: dict[str, Any] = {"state": dep.state}
    if dep.ended_at is not None:
        found["finalized_at"] = time_text(dep.ended_at)
    if dep.output is not None:
        found["output"] = read_object(f'{{"value": {dep.output}}}').get("value")
    return found


def _names(wait: Wait, variable: str) -> bool:
    """Return whether a condition may name a variable."""
    return any(re.search(rf"\b{variable}\b", term.expr) for term in wait.conditions)


def _size(row: SignalRow) -> int:
    return len(row.payload) + len(row.source)


def is_first(row: WaitRow, facts: WaitFacts) -> bool:
    """Return whether a wait is evaluated for the first time in this attempt of its workflow."""
    return read_object(row.progress).get("attempt") != facts.attempt


def waiting_state(wait: Wait, facts: WaitFacts, fires: Mapping[str, datetime | None]) -> Any:
    """Return the state of an unfinished wait for a job's metadata, in the form of River UI."""
    state: dict[str, Any] = {"started_at": time_text(facts.started_at)}
    timers = {name: {"fire_at": time_text(at)} for name, at in fires.items() if at is not None}
    if timers:
        state["timers"] = timers
    return state
