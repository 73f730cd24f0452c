"""What a task of a workflow waits for besides other tasks: signals, timers and conditions.

A wait has terms, each true or false by itself, and an expression over their names that says when
the wait is over. Expressions are written in CEL, https://cel.dev.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from riverui.errors import WaitInvalid

WAIT_KEY, WAIT_STATE_KEY = "river:workflow_wait", "river:workflow_wait_state"
"""The metadata keys of a job's wait and of its progress: River's names."""

MAX_TERMS = 50
"""Terms of a wait: more than a person can follow on a page."""
MAX_NAME = 64
"""Characters of a term's name: it is written in expressions."""
MAX_KEY = 200
"""Characters of a signal's key, and of an idempotency key: they are indexed."""
MAX_LABEL = 200
"""Characters of a term's label: a line on a page."""
MAX_EXPRESSION = 4096
"""Characters of an expression: a page of text, parsed within milliseconds."""
MAX_REQUIRED = 10_000
"""Signals that a term may require: as many as diagnostics read."""
MAX_WAIT = 65_536
"""Bytes of a wait in JSON: the limit of its column."""
LONGEST = timedelta(days=36_500)
"""The longest timer: a hundred years, so that Postgres and Python can represent its end."""

Anchored: TypeAlias = Literal["wait_started_at", "workflow_created_at"]
Phase: TypeAlias = Literal["not_started", "waiting", "resolved", "unknown"]
Pending: TypeAlias = Literal["none", "dependencies", "wait", "dependencies_and_wait"]

SIGNAL_VARIABLES: Final = ("payload", "attempt", "created_at", "id", "key", "source")
"""The variables of a signal term's expression."""
CONDITION_VARIABLES: Final = ("deps", "signals", "timers", "workflow")
"""The variables of the expression of a term without signals and timers."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
        "bool",
        "bytes",
        "double",
        "dyn",
        "duration",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "timestamp",
        "type",
        "uint",
    ]
) | {*SIGNAL_VARIABLES, *CONDITION_VARIABLES}


@dataclass(frozen=True, slots=True)
class TaskFinalizedAt:
    """The time at which a dependency of the waiting task ended."""

    task: str


def task_finalized_at(task: str) -> TaskFinalizedAt:
    """Return the time at which a task ended, for timers that count from it."""
    return TaskFinalizedAt(task)


@dataclass(frozen=True, slots=True)
class SignalTerm:
    """True once enough signals with this key have arrived for which the expression is true."""

    name: str
    key: str
    expr: str = ""
    """CEL over `payload, attempt, created_at, id, key, source`; empty for every signal."""
    label: str = ""
    required_count: int = 1


@dataclass(frozen=True, slots=True)
class TimerTerm:
    """True from a time on: `at`, or `after` some time since an event."""

    name: str
    at: datetime | None = None
    after: timedelta | None = None
    since: Anchored | TaskFinalizedAt = "wait_started_at"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """True when its expression is."""

    name: str
    expr: str
    """CEL over `deps["task"].output`, `signals["key"]`, `timers["name"]` and `workflow`."""
    label: str = ""


AnyTerm: TypeAlias = SignalTerm | TimerTerm | Term


@dataclass(frozen=True, slots=True)
class Wait:
    """What a task waits for once its dependencies have ended. Raises WaitInvalid if invalid."""

    expr: str
    """CEL over the names of the terms: the wait is over when it is true."""
    terms: Sequence[AnyTerm] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        for problem in _problems(self):
            raise WaitInvalid(problem)

    @property
    def signal_keys(self) -> list[str]:
        """The keys of the signals that are waited for, each once."""
        return list(dict.fromkeys(term.key for term in self.signal_terms))

    @property
    def signal_terms(self) -> list[SignalTerm]:
        """The terms that count signals."""
        return [term for term in self.terms if isinstance(term, SignalTerm)]

    @property
    def timer_terms(self) -> list[TimerTerm]:
        """The terms that wait for a time."""
        return [term for term in self.terms if isinstance(term, TimerTerm)]

    @property
    def conditions(self) -> list[Term]:
        """The terms that consist only of an expression."""
        return [term for term in self.terms if isinstance(term, Term)]

    @property
    def anchors(self) -> list[str]:
        """The tasks whose ends timers count from, each once."""
        found = (term.since for term in self.timer_terms)
        return list(
            dict.fromkeys(since.task for since in found if isinstance(since, TaskFinalizedAt))
        )

    def expressions(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield the owner, the text and the variables of each expression."""
        yield "the wait", self.expr, [term.name for term in self.terms]
        for term in self.terms:
            if isinstance(term, SignalTerm) and term.expr:
                yield f"term {term.name!r}", term.expr, SIGNAL_VARIABLES
            elif isinstance(term, Term):
                yield f"term {term.name!r}", term.expr, CONDITION_VARIABLES

    def to_json(self) -> str:
        """Return the wait as stored in the job's metadata."""
        return _json({"expr": self.expr, "terms": [_term_object(term) for term in self.terms]})

    @classmethod
    def from_object(cls, value: object) -> Wait:
        """Return the wait that `to_json` wrote; raise WaitInvalid for another form, such as one
        that River Pro wrote.
        """
        if not isinstance(value, dict) or not isinstance(value.get("terms"), list):
            raise WaitInvalid("It is not the wait of a task.")
        try:
            return cls(value.get("expr", ""), [_term(item) for item in value["terms"]])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, WaitInvalid):
                raise
            raise WaitInvalid(f"It is not the wait of a task: {error!r:.200}.") from None


def phase(state: Mapping[str, Any] | None) -> Phase:
    """Return the progress of a wait by its state in the job's metadata; unknown if that is not an
    object.
    """
    if state is None:
        return "not_started"
    if not isinstance(state, Mapping):
        return "unknown"
    if state.get("resolved_at"):
        return "resolved"
    return "waiting" if state.get("started_at") else "not_started"


def pending_reason(*, dependencies: bool, wait: bool) -> Pending:
    """Return why a pending task does not run yet: dependencies have to end first, its wait has to
    be over, or both.
    """
    if dependencies:
        return "dependencies_and_wait" if wait else "dependencies"
    return "wait" if wait else "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitMoments:
    """The times that timers count from."""

    started_at: datetime
    workflow_created_at: datetime
    finalized_at: Mapping[str, datetime] = field(default_factory=dict)
    """When the dependencies ended, by name."""


def fire_at(term: TimerTerm, moments: WaitMoments) -> datetime | None:
    """Return when a timer fires; None if it counts from a task without a known end."""
    if term.at is not None:
        return term.at
    if isinstance(term.since, TaskFinalizedAt):
        since = moments.finalized_at.get(term.since.task)
    elif term.since == "workflow_created_at":
        since = moments.workflow_created_at
    else:
        since = moments.started_at
    return None if since is None else since + (term.after or timedelta())


@dataclass(frozen=True, kw_only=True, slots=True)
class TermResult:
    """The result of a term."""

    satisfied: bool
    matched_count: int = 0
    """Signals for which its expression was true; 1 or 0 for other terms."""
    last_matched_id: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalCount:
    """The signals of one key that were evaluated."""

    included_count: int = 0
    last_included_id: int = 0


def evidence(
    wait: Wait,
    results: Mapping[str, TermResult],
    signals: Mapping[str, SignalCount],
    *,
    attempt: int,
    as_of: datetime,
) -> dict[str, Any]:
    """Return the record of a wait that is over, in the form that River UI reads."""
    return {
        "as_of": time_text(as_of),
        "attempt": attempt,
        "summary": summary(wait, results),
        "signals": {
            key: {
                "included_count": found.included_count,
                "last_included_id": found.last_included_id,
            }
            for key, found in signals.items()
            if found.included_count
        },
        "terms": [_evidence(term, results[term.name]) for term in wait.terms],
    }


def summary(wait: Wait, results: Mapping[str, TermResult]) -> str:
    """Return the labels of the terms that were true."""
    true = [term.label or term.name for term in wait.terms if results[term.name].satisfied]
    return "; ".join(true)[:500]


def time_text(at: datetime) -> str:
    """Return a time as in River's metadata: RFC 3339 in UTC."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _evidence(term: AnyTerm, result: TermResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": _kind(term),
        "label": term.label,
        "matched_count": result.matched_count,
        "name": term.name,
        "required_count": term.required_count if isinstance(term, SignalTerm) else 1,
        "satisfied": result.satisfied,
    }
    if isinstance(term, SignalTerm):
        found["signal_key"] = term.key
        if result.last_matched_id is not None:
            found["last_matched_id"] = result.last_matched_id
    return found


def _kind(term: AnyTerm) -> str:
    if isinstance(term, SignalTerm):
        return "signal"
    return "timer" if isinstance(term, TimerTerm) else "generic"


def _term_object(term: AnyTerm) -> dict[str, Any]:
    found: dict[str, Any] = {"name": term.name, "kind": _kind(term)}
    if term.label:
        found["label"] = term.label
    if isinstance(term, TimerTerm):
        found["timer"] = {"name": term.name, **_timer_object(term)}
    elif term.expr:
        found["expr"] = term.expr
    if isinstance(term, SignalTerm):
        found |= {"signal_key": term.key, "required_count": term.required_count}
    return found


def _timer_object(term: TimerTerm) -> dict[str, Any]:
    if term.at is not None:
        return {"fire_at": time_text(term.at)}
    anchor = (
        {"kind": "task_finalized_at", "task": term.since.task}
        if isinstance(term.since, TaskFinalizedAt)
        else {"kind": term.since}
    )
    after = term.after or timedelta()
    return {"after_us": after // timedelta(microseconds=1), "anchor": anchor}


def _term(item: Mapping[str, Any]) -> AnyTerm:
    name, label, expr = item["name"], item.get("label", ""), item.get("expr", "")
    if item["kind"] == "signal":
        return SignalTerm(name, item["signal_key"], expr, label, item.get("required_count", 1))
    if item["kind"] == "generic":
        return Term(name, expr, label)
    if item["kind"] != "timer":
        raise WaitInvalid(f"{item['kind']!r:.40} is not a kind of term.")
    timer = item["timer"]
    if "fire_at" in timer:
        return TimerTerm(name, datetime.fromisoformat(timer["fire_at"]), label=label)
    anchor = timer["anchor"]
    since = task_finalized_at(anchor["task"]) if anchor.get("task") else anchor["kind"]
    return TimerTerm(
        name, after=timedelta(microseconds=timer["after_us"]), since=since, label=label
    )


def _problems(wait: Wait) -> Iterator[str]:
    """Yield the problems of a wait, the first one first."""
    yield from _text_problems("The wait's expression", wait.expr, MAX_EXPRESSION)
    if not wait.terms:
        yield "A wait needs at least one term."
    if len(wait.terms) > MAX_TERMS:
        yield f"A wait may have {MAX_TERMS} terms, this one has {len(wait.terms)}."
    names: set[str] = set()
    for term in wait.terms:
        if not isinstance(term, (SignalTerm, TimerTerm, Term)):
            yield f"{term!r:.100} is not a term: use SignalTerm, TimerTerm or Term."
            return
        yield from _name_problems(term.name)
        if term.name in names:
            yield f"Two terms are named {term.name!r}."
        names.add(term.name)
        what = f"The label of term {term.name!r}"
        yield from _text_problems(what, term.label, MAX_LABEL, empty=True)
        yield from _term_problems(term)
    if len(wait.to_json().encode()) > MAX_WAIT:
        yield f"A wait may take {MAX_WAIT:,} bytes of JSON."


def _name_problems(name: object) -> Iterable[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        yield (
            f"{name!r:.100} cannot name a term: it takes letters, digits and underscores, a letter"
            f" first, {MAX_NAME} at most."
        )
    elif name in _RESERVED:
        yield f"{name!r} cannot name a term: it has a meaning in expressions."


def _term_problems(term: AnyTerm) -> Iterator[str]:
    what = f"Term {term.name!r}"
    if isinstance(term, SignalTerm):
        yield from _text_problems(f"{what}: its signal key", term.key, MAX_KEY)
        yield from _text_problems(f"{what}: its expression", term.expr, MAX_EXPRESSION, empty=True)
        if type(term.required_count) is not int or not 1 <= term.required_count <= MAX_REQUIRED:
            yield f"{what}: required_count is a whole number from 1 to {MAX_REQUIRED:,}."
    elif isinstance(term, Term):
        yield from _text_problems(f"{what}: its expression", term.expr, MAX_EXPRESSION)
    else:
        yield from _timer_problems(what, term)


def _timer_problems(what: str, term: TimerTerm) -> Iterator[str]:
    if (term.at is None) == (term.after is None):
        yield f"{what}: give either at=… or after=…."
    if term.at is not None:
        if not isinstance(term.at, datetime) or term.at.tzinfo is None:
            yield f"{what}: at is a time with a time zone."
        elif not 1 < term.at.year < 9999:
            yield f"{what}: at is a time between the years 2 and 9998."
    if term.after is not None and (
        not isinstance(term.after, timedelta) or not timedelta() <= term.after <= LONGEST
    ):
        yield f"{what}: after is a span from zero to a hundred years."
    if isinstance(term.since, TaskFinalizedAt):
        yield from _text_problems(f"{what}: the task that it counts from", term.since.task, 200)
    elif term.since not in ("wait_started_at", "workflow_created_at"):
        yield (
            f"{what}: since is 'wait_started_at', 'workflow_created_at' or task_finalized_at(…),"
            f" not {term.since!r:.60}."
        )


def _text_problems(what: str, text: object, most: int, *, empty: bool = False) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"{what} is not a text."
    elif not text.strip() and (text or not empty):
        yield f"{what} is empty."
    elif len(text) > most:
        yield f"{what} has {len(text):,} characters; {most:,} are allowed."
    elif "\0" in text or (not text.isascii() and not _encodes(text)):
        yield f"{what} has a character that Postgres cannot store."


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
