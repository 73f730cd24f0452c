"""Is work succeeding: the share of attempts that fails, of which kinds, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from riverui.domain.figures import OTHER, Tally
from riverui.domain.findings import (
    CULPRIT_SHARE,
    Check,
    Diagnosis,
    Finding,
    Level,
    Link,
    Unread,
    culprit,
    cut,
    diagnose,
    examine,
    known,
    passed,
    unknown,
)
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.facts import HealthFacts
from riverui.domain.health.usual import (
    FAILING_WARN_FLOOR,
    FEWEST_FAILURES,
    SPAN,
    STALE_AFTER,
    grade_failing,
    percent,
    recent,
    usual,
    usual_failing,
)
from riverui.domain.text import counted

POISONED_FROM = 2
"""Rescues after which a job is suspected of killing its workers: one may be bad luck."""
POISONED_WITHIN = timedelta(hours=6)
"""How long ago the last attempt of such a job may be: rescues come an hour apart by default."""
DEPLOYED_BEFORE = timedelta(minutes=10)
"""How long before a rise of failures a deploy may be its cause: new code runs its jobs by then."""
_ERROR = 120
"""Characters of an error that a sentence takes."""


class _Failing(Struct, frozen=True, kw_only=True):
    """A kind whose attempts fail, now and usually."""

    kind: str
    now: Tally
    usual: Baseline | None

    @property
    def level(self) -> Level:
        return grade_failing(self.now.failing or 0.0, self.now.failed, self.usual)

    @property
    def excess(self) -> float:
        """Return how many more attempts failed than usually do."""
        return max(0.0, self.now.failed - usual_failing(self.usual) * self.now.attempts)


def success(facts: HealthFacts) -> Diagnosis:
    """Return whether work is succeeding, and what makes it fail."""
    return diagnose("success", examine(facts, _CHECKS), _calm(facts))


def _unsure(facts: HealthFacts) -> str:
    """Return why the figures do not show whether work is succeeding; empty if they do."""
    if isinstance(facts.hour, Unread):
        return facts.hour.why
    if facts.fresh is None or facts.fresh > STALE_AFTER:
        return "The figures are too old to say."
    if recent(facts.hour, facts) is None or not facts.hour.complete:
        # Without the time before, nothing counts as usual, and all failures would be reported.
        return "The figures of the last hour have not all been read yet."
    return ""


def _calm(facts: HealthFacts) -> Finding:
    """Return the finding if no more fails than usual, or if that is unknown."""
    if why := _unsure(facts):
        title = "Cannot tell whether work is succeeding."
        return Finding(level=Level.UNKNOWN, title=title, headline=why)
    now = recent(facts.hour, facts) or Tally()
    if now.failing is None:
        headline = f"No attempt ended in the last {SPAN}."
        return Finding(title="Nothing has failed.", headline=headline)
    if _too_few(now):
        headline = f"{now.failed:,} of {now.attempts:,} attempts in the last {SPAN} failed."
        return Finding(title="Too few failures to tell.", headline=headline)
    usually = _usually(usual(facts))
    headline = f"{percent(now.failing)} of {now.attempts:,} attempts in the last {SPAN} failed"
    return Finding(title="Work is succeeding.", headline=f"{headline}{usually}.")


def _failures(facts: HealthFacts) -> Finding:
    """Return whether more fails than usual, and which kind it is."""
    if why := _unsure(facts):
        return unknown(why)
    now, before = recent(facts.hour, facts) or Tally(), usual(facts)
    share = now.failing or 0.0
    level = grade_failing(share, now.failed, before)
    kinds = _kinds(facts)
    worst = max(kinds, key=lambda kind: kind.excess, default=None)
    excess = sum(kind.excess for kind in kinds)
    owns = worst.excess / excess if worst and excess else 0.0
    if worst and owns >= CULPRIT_SHARE and worst.level is not Level.OK:
        return _failing_kind(facts, worst, level, owns)
    normal = before.failing if before else None
    compared = (
        f"{percent(share)} (usually {percent(normal)})" if normal is not None else percent(share)
    )
    if level is Level.OK:
        if _too_few(now):
            words = f"{now.failed:,} of {now.attempts:,} attempts failed: too few to tell."
            return unknown(words)
        return passed(f"{compared} of {now.attempts:,} attempts failed.")
    return Finding(
        level=level,
        evidence=f"{compared} of {now.attempts:,} failed.",
        cause=Cause.FAILURES,
        title="Failures rise.",
        headline=f"{percent(share)} of attempts failed in the last {SPAN}{_usually(before)}.",
        detail="No kind owns half of them.",
        link=Link(label="See what failed", page="jobs", state="retryable"),
        baseline=before,
    )


def _failing_kind(facts: HealthFacts, kind: _Failing, level: Level, owns: float) -> Finding:
    """Return that a kind fails, which has this share of the failures beyond the usual."""
    began = _began(facts, kind)
    mark = _mark(facts, began)
    since = f", since {began:%H:%M}" if began else ""
    deployed = f" (deploy {cut(mark)})" if mark else ""
    now, name = kind.now, cut(kind.kind)
    return Finding(
        level=max(level, kind.level, key=lambda level: level.badness),
        evidence=f"{now.failed:,} of {now.attempts:,} attempts of {name} failed.",
        cause=Cause.DEPLOY if mark else Cause.FAILURES,
        title=f"{name} is failing.",
        headline=(
            f"{percent(now.failing or 0.0)} of its attempts failed in the last"
            f" {SPAN}{_usually(kind.usual)}{since}{deployed}."
        ),
        detail=_errors(facts),
        culprit=culprit("kind", kind.kind, owns),
        began=began,
        baseline=kind.usual,
        link=Link(label="See what failed", page="jobs", state="retryable", kind=kind.kind),
    )


def _kinds(facts: HealthFacts) -> list[_Failing]:
    """Return the kinds with recently failed attempts, of those whose figures were read."""
    found = []
    for kind, hour in facts.kind_hours.items():
        now = recent(hour, facts)
        if now is not None and kind != OTHER and now.failed:
            before = usual(facts, Subject("kind", kind))
            found.append(_Failing(kind=kind, now=now, usual=before))
    return found


def failing_kinds(pairs: Mapping[tuple[str, str], Tally], most: int) -> list[str]:
    """Return the kinds that failed most within a window, the worst first."""
    failures: Counter[str] = Counter()
    for (_, kind), tally in pairs.items():
        if kind != OTHER and tally.failed:
            failures[kind] += tally.failed
    return [kind for kind, _ in failures.most_common(most)]


def _began(facts: HealthFacts, kind: _Failing) -> datetime | None:
    """Return the minute since which the kind has been failing; None if it has for the whole window,
    or if that is unknown.

    From that minute to now, the sum of the failures beyond the middle of now and usual is largest:
    single minutes jump, and a bad one before does not count.
    """
    hour = facts.kind_hours.get(kind.kind)
    if hour is None:
        return None
    middle = (usual_failing(kind.usual) + (kind.now.failing or 0.0)) / 2
    limit = max(FAILING_WARN_FLOOR, middle)
    columns = [(column.at, column.tally) for column in hour.columns if column.tally is not None]
    total = most = 0.0
    began: datetime | None = None
    for at, tally in reversed(columns):
        total += tally.failed - limit * tally.attempts
        if total > most + 0.5:
            # Ignore less than one attempt.
            most, began = total, at
    return None if columns and began == columns[0][0] else began


def _mark(facts: HealthFacts, began: datetime | None) -> str:
    """Return the newest mark shortly before failures rose; empty if there is none."""
    if began is None or isinstance(facts.marks, Unread):
        return ""
    # The failures give the minute, which may be one too early; a deploy comes within a minute.
    until = began + timedelta(minutes=2)
    marks = [mark for mark in facts.marks if began - DEPLOYED_BEFORE <= mark.at <= until]
    return max(marks, key=lambda mark: mark.at).label if marks else ""


def _errors(facts: HealthFacts) -> str:
    """Return the error that at least half of the newest failures have; empty if none was read."""
    if isinstance(facts.errors, Unread) or not facts.errors:
        return ""
    texts = Counter(error.split("\n", 1)[0].strip() for error in facts.errors)
    text, count = texts.most_common(1)[0]
    total = texts.total()
    if count < total * CULPRIT_SHARE or not text:
        return f"The newest {total:,} failures have {len(texts):,} different errors."
    shown = text if len(text) <= _ERROR else f"{text[: _ERROR - 1]}…"
    return f"{shown} ({count:,} of the newest {total:,} failures)"


def _poison(facts: HealthFacts) -> Finding:
    """Return whether a job has been lost with its worker again and again."""
    lost = known(facts.lost)
    found = [
        job
        for job in lost.jobs
        if job.rescues >= POISONED_FROM
        and job.attempted_at is not None
        and facts.now - job.attempted_at <= POISONED_WITHIN
    ]
    if not found:
        if not lost.whole:
            return unknown("More jobs wait to be tried again than were looked at.")
        return passed("No unfinished job was rescued twice from a lost worker.")
    worst = max(found, key=lambda job: (job.rescues, job.id))
    others = counted(len(found) - 1, "more job")
    return Finding(
        level=Level.WARN,
        evidence=(
            f"Job {worst.id} ({cut(worst.kind)}) was lost with its worker {worst.rescues:,} times"
            " and will be tried again."
        ),
        cause=Cause.POISON_JOB,
        title="A job kills its workers.",
        detail=f"{others} {'was' if len(found) == 2 else 'were'} lost several times."
        if len(found) > 1
        else "",
        culprit=culprit("job", str(worst.id), worst.rescues / sum(job.rescues for job in found)),
        link=Link(label="Open the job", page="job", name=str(worst.id)),
    )


_CHECKS: Sequence[Check[HealthFacts]] = (
    ("failures", "Failures are as usual", _failures),
    ("poison", "No job kills its workers", _poison),
)


def _too_few(now: Tally) -> bool:
    """Return whether a share of attempts failed that would matter if there were more of them."""
    return (now.failing or 0.0) >= FAILING_WARN_FLOOR and now.failed < FEWEST_FAILURES


def _usually(known: Baseline | None) -> str:
    normal = known.failing if known else None
    return f", usually {percent(normal)}" if normal is not None else ""
