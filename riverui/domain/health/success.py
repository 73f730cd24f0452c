"""Is work succeeding: the share of attempts that fails, of which kinds, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from riverui.domain.figures import OTHER, Tally
from riverui.domain.findings import (
    CULPRIT_SHARE,
    Check,
    Diagnosis,
    Finding,
    Level,
    Link,
    Unread,
    among,
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
from riverui.domain.health.change import Counts, over, rise
from riverui.domain.health.facts import HealthFacts, LostJob
from riverui.domain.health.queues import any_waits
from riverui.domain.health.usual import (
    ALL,
    FAILING_WARN_FLOOR,
    FAILING_WARN_TIMES,
    FEWEST_FAILED_JOBS,
    FEWEST_FAILURES,
    MANY_FAILED_JOBS,
    RECENT,
    SPAN,
    STALE_AFTER,
    SURE_FAILURES,
    columns,
    grade_failing,
    kept,
    percent,
    usual,
    usual_failing,
    within,
)
from riverui.domain.text import counted

POISONED_FROM = 2
"""Rescues after which a job is suspected of killing its workers: one may be bad luck."""
_CRITICAL_RESCUES = 3
"""Rescues after which it is not bad luck: each has cost a worker all of its other jobs."""
POISONED_WITHIN = timedelta(hours=6)
"""How long ago the last attempt of such a job may be: rescues come an hour apart by default."""
DEPLOYED_BEFORE = timedelta(minutes=10)
"""How long before a rise of failures a deploy may be its cause: new code runs its jobs by then."""
_FEWEST_ATTEMPTS = 5
"""Fewest attempts within RECENT that show that work succeeds while jobs wait."""
_ERROR = 120
"""Characters of an error that a sentence takes."""


class _Failing(Struct, frozen=True, kw_only=True):
    """All attempts, or those of a kind that failed, now and usually."""

    name: str
    now: Tally
    usual: Baseline | None
    began: datetime | None
    span: str
    """The time of `now` in words, as the end of a sentence."""
    over: bool
    """Whether the newest attempts are as usual again."""
    jobs: int
    """How many jobs failed meanwhile, each once."""

    @property
    def level(self) -> Level:
        worked = self.now.attempts - self.now.failed + self.jobs
        excess = self.jobs - usual_failing(self.usual) * worked
        if self.over or (excess < FEWEST_FAILED_JOBS and self.jobs < MANY_FAILED_JOBS):
            return Level.OK
        fewest = FEWEST_FAILURES if self.began is None else SURE_FAILURES
        return grade_failing(self.now.failing or 0.0, self.now.failed, self.usual, fewest=fewest)

    @property
    def excess(self) -> float:
        """Return how many more attempts failed than usually do."""
        return max(0.0, self.now.failed - usual_failing(self.usual) * self.now.attempts)

    def words(self, attempts: str, deployed: str = "") -> str:
        """Return the share of attempts that failed, since when, and what is usual, as a sentence
        about these attempts.
        """
        normal = self.usual.failing if self.usual else None
        usually = f", usually {percent(normal)}" if normal is not None else ""
        share = percent(self.now.failing or 0.0)
        return f"{share} of {attempts} failed {self.span}{deployed}{usually}."


def _failing(facts: HealthFacts, subject: Subject = ALL) -> _Failing:
    """Return the attempts since they began to fail, at most of an hour, or of RECENT."""
    counts = [
        Counts(column.at, column.tally.failed, column.tally.attempts)
        for column in columns(facts, subject)
    ]
    known = kept(facts, subject)
    began = known.before if known else rise(counts)
    since = began and max(began, facts.now - timedelta(hours=1))
    now = within(facts, subject, since=since) or Tally()
    # Of the same minutes as `within`.
    first = (since or facts.now - RECENT) - timedelta(minutes=1)
    named = facts.failed_jobs if subject == ALL else {subject.name}
    jobs = [at for kind in named for at in facts.failed_jobs.get(kind, ()) if at > first]
    # That a client was lost, again and again with the same job, is another problem.
    rescues = sum(
        job.rescues for job in _poisoned(facts) if subject in (ALL, Subject("kind", job.kind))
    )
    now = replace(now, failed=max(0, now.failed - rescues))
    before = usual(facts, subject, began)
    return _Failing(
        name=subject.name,
        now=now,
        usual=before,
        began=began,
        span=f"since {began:%H:%M}" if began else f"in the last {SPAN}",
        over=began is not None and over(counts, began),
        jobs=len(jobs),
    )


def success(facts: HealthFacts) -> Diagnosis:
    """Return whether work is succeeding, and what makes it fail."""
    return diagnose("success", examine(facts, _CHECKS), _calm(facts))


def _unsure(facts: HealthFacts) -> str:
    """Return why the figures do not show whether work is succeeding; empty if they do."""
    if isinstance(facts.hour, Unread):
        return facts.hour.why
    if facts.fresh is None or facts.fresh > STALE_AFTER:
        return "The figures are too old to say."
    # Without the time before, nothing counts as usual, and all failures would be reported.
    return facts.looking


def _calm(facts: HealthFacts) -> Finding:
    """Return the finding if no more fails than usual, or if that is unknown."""
    unsure = Finding(level=Level.UNKNOWN, title="Cannot tell whether work is succeeding.")
    if why := _unsure(facts):
        return replace(unsure, headline=why)
    every, now = _mixed(facts, _failing(facts)), within(facts) or Tally()
    if _too_few(every):
        return replace(unsure, headline=f"{_few(now)} failed.")
    if now.attempts < _FEWEST_ATTEMPTS and any_waits(facts):
        ended = f"Only {_few(now)} ended" if now.attempts else f"No attempt ended in {SPAN}"
        return replace(unsure, headline=f"{ended}, though jobs wait.")
    if now.failing is None:
        headline = f"No attempt ended in the last {SPAN}."
        return Finding(title="Nothing has failed.", headline=headline)
    words = every.words(counted(every.now.attempts, "attempt"))
    return Finding(title="Work is succeeding.", headline=words)


def _failures(facts: HealthFacts) -> Finding:
    """Return whether more fails than usual, and which kind it is."""
    if why := _unsure(facts):
        return unknown(why)
    every = _failing(facts)
    kinds = [_failing(facts, Subject("kind", kind)) for kind in facts.kind_hours if kind != OTHER]
    if failing := [kind for kind in kinds if kind.level is not Level.OK]:
        return _failing_kinds(facts, failing, every)
    every = _mixed(facts, every)
    words = every.words(counted(every.now.attempts, "attempt"))
    worst = max(kinds, key=lambda kind: kind.excess, default=None)
    if every.level is not Level.OK and worst and worst.excess >= every.excess * CULPRIT_SHARE:
        return _failing_kinds(facts, [worst], every)
    if every.level is Level.OK:
        if _too_few(every):
            return unknown(f"{_few(every.now)} failed: too few to tell.")
        return passed(words)
    return Finding(
        level=every.level,
        evidence=words,
        cause=Cause.FAILURES,
        title="Failures rise.",
        link=Link(label="Open the errors", page="errors"),
        began=every.began,
        baseline=every.usual,
    )


def _mixed(facts: HealthFacts, every: _Failing) -> _Failing:
    """Return all attempts with what is usual for the kinds that come now: another mixture fails
    more or less.
    """
    if every.usual is None:
        return every
    known = [
        (now.attempts, usual_failing(before))
        for kind in facts.kind_hours
        if (now := within(facts, Subject("kind", kind)))
        and (before := usual(facts, Subject("kind", kind)))
    ]
    total = (within(facts) or Tally()).attempts
    others = max(0, total - sum(attempts for attempts, _ in known))
    expected = sum(n * share for n, share in [*known, (others, usual_failing(every.usual))])
    share = min(1.0, expected / max(1, total))
    attempts = every.usual.completed + every.usual.failed
    mixed = replace(every.usual, completed=attempts * (1 - share), failed=attempts * share)
    return replace(every, usual=mixed)


def _failing_kinds(facts: HealthFacts, kinds: Sequence[_Failing], every: _Failing) -> Finding:
    """Return that these kinds fail."""
    kinds = sorted(kinds, key=lambda kind: kind.excess, reverse=True)
    kind, level = kinds[0], max((k.level for k in (*kinds, every)), key=lambda k: k.badness)
    owns = kind.excess / max(1.0, sum(each.excess for each in kinds))
    mark = _mark(facts, kind)
    deployed = f" (deploy {cut(mark)})" if mark else ""
    found = Finding(
        level=level,
        cause=Cause.DEPLOY if mark else Cause.FAILURES,
        cure=f"Mend the error{f' or roll {cut(mark)} back' if mark else ''}; until then, retries"
        " fail as well.",
        began=kind.began,
        baseline=kind.usual,
    )
    if owns < CULPRIT_SHARE:
        return replace(
            found,
            evidence=every.words(counted(every.now.attempts, "attempt"), deployed),
            title=f"{among(each.name for each in kinds)} are failing.",
            link=Link(label="Open the errors", page="errors"),
        )
    now, name = kind.now, cut(kind.name)
    others = _failing_too([each.name for each in kinds[1:]])
    return replace(
        found,
        evidence=f"{now.failed:,} of {counted(now.attempts, 'attempt')} of {name} failed.",
        title=f"{name} is failing.",
        headline=kind.words("its attempts", deployed),
        detail=f"{_errors(facts)} {others}".strip(),
        culprit=culprit("kind", kind.name, owns),
        link=Link(label="Open the error", page="errors", kind=kind.name),
    )


def _failing_too(names: Sequence[str]) -> str:
    """Return that these kinds fail as well, as a sentence; empty without any."""
    verb = "fails" if len(names) == 1 else "fail"
    return f"{among(names)} {verb} as well." if names else ""


def failing_kinds(pairs: Mapping[tuple[str, str], Tally], most: int) -> list[str]:
    """Return the kinds that failed most within a window, the worst first."""
    failures: Counter[str] = Counter()
    for (_, kind), tally in pairs.items():
        if kind != OTHER and tally.failed:
            failures[kind] += tally.failed
    return [kind for kind, _ in failures.most_common(most)]


def _mark(facts: HealthFacts, kind: _Failing) -> str:
    """Return the newest mark shortly before failures of a kind rose, or since it last succeeded
    before that if it comes seldom; empty if there is none.
    """
    began = kind.began
    if began is None or isinstance(facts.marks, Unread):
        return ""
    known = columns(facts, Subject("kind", kind.name))
    worked = [column.at for column in known if column.tally.completed and column.at < began]
    since = min([began - DEPLOYED_BEFORE, *worked[-1:]])
    # The failures give the minute, which may be one too early; a deploy comes within a minute.
    until = began + timedelta(minutes=2)
    marks = [mark for mark in facts.marks if since <= mark.at <= until]
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
    return f"{shown} ({count:,} of the newest {total:,} failures)."


def _poison(facts: HealthFacts) -> Finding:
    """Return whether a job has been lost with its worker again and again."""
    lost, found = known(facts.lost), _poisoned(facts)
    if not found:
        if not lost.whole:
            return unknown("More jobs wait to be tried again than were looked at.")
        return passed("No unfinished job was rescued twice from a lost worker.")
    worst = max(found, key=lambda job: (job.rescues, job.id))
    others = counted(len(found) - 1, "more job")
    return Finding(
        level=Level.CRITICAL if worst.rescues >= _CRITICAL_RESCUES else Level.WARN,
        evidence=(
            f"Job {worst.id} ({cut(worst.kind)}) was lost with its worker {worst.rescues:,} times"
            " and will be tried again."
        ),
        cause=Cause.POISON_JOB,
        title=f"Job {worst.id} kills its workers.",
        headline=f"It is of kind {cut(worst.kind)}, was lost with its worker {worst.rescues:,}"
        " times, and will be tried again.",
        detail=f"{others} {'was' if len(found) == 2 else 'were'} lost several times."
        if len(found) > 1
        else "",
        cure="Cancel it on its page until it is known what ends its worker.",
        culprit=culprit("job", str(worst.id), worst.rescues / sum(job.rescues for job in found)),
        began=worst.attempted_at,
        link=Link(label="Open the job", page="job", name=str(worst.id)),
    )


def _poisoned(facts: HealthFacts) -> list[LostJob]:
    """Return the jobs that have recently been lost with their workers several times."""
    if isinstance(facts.lost, Unread):
        return []
    return [
        job
        for job in facts.lost.jobs
        if job.rescues >= POISONED_FROM
        and job.attempted_at is not None
        and facts.now - job.attempted_at <= POISONED_WITHIN
    ]


_CHECKS: Sequence[Check[HealthFacts]] = (
    ("failures", "Failures", _failures),
    ("poison", "Jobs that kill their workers", _poison),
)


def _too_few(every: _Failing) -> bool:
    """Return whether a share of attempts failed that would matter if there were more of them."""
    share, usually = every.now.failing or 0.0, usual_failing(every.usual)
    worse = share >= max(FAILING_WARN_FLOOR, usually * FAILING_WARN_TIMES)
    return worse and every.now.failed < FEWEST_FAILURES and not every.over


def _few(now: Tally) -> str:
    """Return how many attempts failed of few, without a verb."""
    of = f"{now.failed:,} of " if now.failed else ""
    return f"{of}{counted(now.attempts, 'attempt')} in the last {SPAN}"
