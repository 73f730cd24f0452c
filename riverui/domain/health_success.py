"""Is work succeeding: which share of attempts fails, whose they are, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from riverui.domain.figures import OTHER, Tally
from riverui.domain.health import Cause, HealthAction, HealthSection, Level
from riverui.domain.health_facts import HealthFacts
from riverui.domain.health_findings import Finding, culprit, cut, failed, passed, told, unmeasured
from riverui.domain.health_usual import (
    CULPRIT_SHARE,
    FAILING_WARN_FLOOR,
    FEWEST_FAILURES,
    SPAN,
    STALE_AFTER,
    Usual,
    grade_failing,
    percent,
    recent,
    usual,
    usual_failing,
)
from riverui.domain.job_facts import Unread

POISONED_FROM = 2
"""Rescues from which a job is taken for what ends its workers: a first one may be bad luck."""
POISONED_WITHIN = timedelta(hours=6)
"""How long ago such a job may have been tried last: rescues come an hour apart by default."""
DEPLOYED_BEFORE = timedelta(minutes=10)
"""How long before failures rise a deploy may be their cause: new code meets its jobs by then."""
_ERROR = 120
"""Characters of an error that a sentence takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failing:
    """A kind whose attempts fail, now and usually."""

    kind: str
    now: Tally
    known: Usual | None
    level: Level

    @property
    def excess(self) -> float:
        """Return how many more attempts failed than usually do."""
        return max(0.0, self.now.failed - usual_failing(self.known) * self.now.attempts)


def success(facts: HealthFacts) -> HealthSection:
    """Return whether work is succeeding, and what makes it fail."""
    if isinstance(facts.hour, Unread) or facts.fresh is None or facts.fresh > STALE_AFTER:
        why = (
            facts.hour.why if isinstance(facts.hour, Unread) else "The figures are too old to say."
        )
        calm = _section(Level.UNKNOWN, "Cannot tell whether work is succeeding.", why)
        failures = unmeasured("failures", "Failures are as usual", why)
        return told([failures, _poison(facts)], calm)
    now = recent(facts.hour, facts)
    known = usual(facts.hour, facts.week, facts)
    if now is None or not facts.hour.complete:
        # Without the time before, nothing is usual, and all failures would be told.
        words = "The figures of the last hour have not all been read yet."
        calm = _section(Level.UNKNOWN, "Cannot tell whether work is succeeding.", words)
        return told(
            [unmeasured("failures", "Failures are as usual", words), _poison(facts)],
            calm,
        )
    return told([_failures(facts, now, known), _poison(facts)], _calm(now, known))


def _calm(now: Tally, known: Usual | None) -> HealthSection:
    share = now.failing
    if share is None:
        words = f"No attempt ended in the last {SPAN}."
        return _section(Level.OK, "Nothing has failed.", words)
    if share >= FAILING_WARN_FLOOR and now.failed < FEWEST_FAILURES:
        words = f"{now.failed:,} of {now.attempts:,} attempts in the last {SPAN} failed."
        return _section(Level.OK, "Too few failures to tell.", words)
    attempts = f"{now.attempts:,} attempts in the last {SPAN}"
    words = f"{percent(share)} of {attempts} failed{_usually(known)}."
    return _section(Level.OK, "Work is succeeding.", words)


def _section(level: Level, label: str, headline: str) -> HealthSection:
    return HealthSection(name="success", label=label, level=level, headline=headline)


def _failures(facts: HealthFacts, now: Tally, known: Usual | None) -> Finding:
    """Return whether more fails than usual, and which kind it is."""
    name, label = "failures", "Failures are as usual"
    share = now.failing or 0.0
    level = grade_failing(share, now.failed, known)
    kinds = _kinds(facts)
    worst = max(kinds, key=lambda kind: kind.excess, default=None)
    excess = sum(kind.excess for kind in kinds)
    owns = worst.excess / excess if worst and excess else 0.0
    blamed = worst if worst and owns >= CULPRIT_SHARE and worst.level is not Level.OK else None
    if blamed is None and level is Level.OK:
        if share >= FAILING_WARN_FLOOR and now.failed < FEWEST_FAILURES:
            words = f"{now.failed:,} of {now.attempts:,} attempts failed: too few to tell."
            return unmeasured(name, label, words)
        return passed(name, label, f"{_share(share, known)} of {now.attempts:,} attempts failed.")
    grade = max(level, blamed.level if blamed else Level.OK, key=lambda level: level.badness)
    if blamed is None:
        return Finding(
            check=failed(name, label, f"{_share(share, known)} of {now.attempts:,} failed."),
            level=grade,
            cause=Cause.FAILURES,
            label="Failures rise.",
            headline=f"{percent(share)} of attempts failed in the last {SPAN}{_usually(known)}.",
            detail="No kind owns half of them.",
            action=HealthAction(label="See what failed", page="jobs", state="retryable"),
        )
    began = _began(facts, blamed)
    mark = _mark(facts, began)
    since = f", since {began:%H:%M}" if began else ""
    deployed = f" (deploy {cut(mark)})" if mark else ""
    kind_share = blamed.now.failing or 0.0
    words = (
        f"{percent(kind_share)} of its attempts failed in the last {SPAN}{_usually(blamed.known)}"
        f"{since}{deployed}."
    )
    return Finding(
        check=failed(
            name,
            label,
            f"{blamed.now.failed:,} of {blamed.now.attempts:,} attempts of {cut(blamed.kind)}"
            " failed.",
        ),
        level=grade,
        cause=Cause.DEPLOY if mark else Cause.FAILURES,
        label=f"{cut(blamed.kind)} is failing.",
        headline=words,
        detail=_errors(facts, blamed.kind),
        culprit=culprit("kind", blamed.kind, owns),
        action=HealthAction(
            label="See what failed", page="jobs", state="retryable", kind=blamed.kind
        ),
    )


def _kinds(facts: HealthFacts) -> list[_Failing]:
    found = []
    for kind, hour in facts.kind_hours.items():
        now = recent(hour, facts)
        if now is None or kind == OTHER or not now.failed:
            continue
        known = usual(hour, facts.kind_weeks.get(kind), facts)
        level = grade_failing(now.failing or 0.0, now.failed, known)
        found.append(_Failing(kind=kind, now=now, known=known, level=level))
    return found


def failing_kinds(pairs: Mapping[tuple[str, str], Tally], most: int) -> list[str]:
    """Return the kinds that failed most within a window, the worst first."""
    failures: Counter[str] = Counter()
    for (_, kind), tally in pairs.items():
        if kind != OTHER and tally.failed:
            failures[kind] += tally.failed
    return [kind for kind, _ in failures.most_common(most)]


def _began(facts: HealthFacts, kind: _Failing) -> datetime | None:
    """Return the minute since which the kind has been failing; None where it has for the whole
    window, or that is not known.

    It is where what failed beyond the middle of now and usual, summed up from there to now, is
    most: single minutes jump, and a bad one before does not count.
    """
    hour = facts.kind_hours.get(kind.kind)
    if hour is None:
        return None
    middle = (usual_failing(kind.known) + (kind.now.failing or 0.0)) / 2
    limit = max(FAILING_WARN_FLOOR, middle)
    columns = [(column.at, column.tally) for column in hour.columns if column.tally is not None]
    total = most = 0.0
    began: datetime | None = None
    for at, tally in reversed(columns):
        total += tally.failed - limit * tally.attempts
        if total > most + 0.5:
            # Less than an attempt is nothing.
            most, began = total, at
    return None if columns and began == columns[0][0] else began


def _mark(facts: HealthFacts, began: datetime | None) -> str:
    """Return the newest mark shortly before failures rose; empty without one."""
    if began is None or isinstance(facts.marks, Unread):
        return ""
    # The minute is told by what failed: it may be one too early, and a deploy comes within one.
    until = began + timedelta(minutes=2)
    marks = [mark for mark in facts.marks if began - DEPLOYED_BEFORE <= mark.at <= until]
    return max(marks, key=lambda mark: mark.at).label if marks else ""


def _errors(facts: HealthFacts, kind: str) -> str:
    """Return the error that owns at least half of the newest ones; empty without one."""
    if isinstance(facts.errors, Unread):
        return ""
    texts = Counter(
        error.error.split("\n", 1)[0].strip() for error in facts.errors if error.kind == kind
    )
    if not texts:
        return ""
    text, count = texts.most_common(1)[0]
    total = texts.total()
    if count < total * CULPRIT_SHARE or not text:
        return f"The newest {total:,} failures have {len(texts):,} different errors."
    shown = text if len(text) <= _ERROR else f"{text[: _ERROR - 1]}…"
    return f"{shown} ({count:,} of the newest {total:,} failures)"


def _poison(facts: HealthFacts) -> Finding:
    """Return whether a job has been lost with its worker again and again."""
    name, label = "poison", "No job ends its workers"
    if isinstance(facts.lost, Unread):
        return unmeasured(name, label, facts.lost)
    found = [
        job
        for job in facts.lost.jobs
        if job.rescues >= POISONED_FROM
        and job.attempted_at is not None
        and facts.now - job.attempted_at <= POISONED_WITHIN
    ]
    if not found and not facts.lost.whole:
        words = "More jobs wait to be tried again than were looked at."
        return unmeasured(name, label, words)
    if not found:
        return passed(name, label, "No unfinished job was rescued twice from a lost worker.")
    worst = max(found, key=lambda job: (job.rescues, job.id))
    total = sum(job.rescues for job in found)
    others = len(found) - 1
    words = (
        f"Job {worst.id} ({cut(worst.kind)}) was lost with its worker {worst.rescues:,} times and"
        " will be tried again."
    )
    more = f"{others:,} more job{' was' if others == 1 else 's were'} lost several times."
    return Finding(
        check=failed(name, label, words),
        level=Level.WARN,
        cause=Cause.POISON_JOB,
        label="A job ends its workers.",
        headline=words,
        detail=more if others else "",
        culprit=culprit("job", str(worst.id), worst.rescues / total)
        if worst.rescues >= total * CULPRIT_SHARE
        else None,
        action=HealthAction(label="Open the job", page="job", name=str(worst.id)),
    )


def _share(share: float, known: Usual | None) -> str:
    normal = known.tally.failing if known else None
    usually = f" (usually {percent(normal)})" if normal is not None else ""
    return f"{percent(share)}{usually}"


def _usually(known: Usual | None) -> str:
    normal = known.tally.failing if known else None
    return f", usually {percent(normal)}" if normal is not None else ""
