"""Why a queue is behind although its jobs are taken: retries, a flood, a slow kind, or limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from riverui.domain.figures import Tally
from riverui.domain.findings import (
    CULPRIT_SHARE,
    Check,
    Finding,
    Level,
    Link,
    Result,
    Unread,
    capital,
    culprit,
    cut,
    examine,
    known,
    passed,
    unknown,
)
from riverui.domain.health import Cause
from riverui.domain.health.baseline import FEWEST_ENDS, Baseline, Subject, subject_of
from riverui.domain.health.facts import FIRST, HealthFacts, QueueWaiting, WaitingKind
from riverui.domain.health.lost import hanging, overrun
from riverui.domain.health.queues import LateQueue, unreported, unworked, wait, worked
from riverui.domain.health.slow import SLOW_CURE, runs
from riverui.domain.health.usual import RECENT, percent, usual, within
from riverui.domain.text import counted
from riverui.domain.time import duration

FLOOD_TIMES = 3.0
"""How many times the usual number of jobs of a kind is a flood rather than a busy hour."""
_MORE_TIMES = 1.5
"""How many times the usual number must come for a queue to be behind because of that."""
_MINUTE = timedelta(minutes=1)


class _Backlog(Struct, frozen=True, kw_only=True):
    """A late queue whose clients take jobs."""

    facts: HealthFacts
    late: LateQueue

    @property
    def name(self) -> str:
        return self.late.name

    @property
    def level(self) -> Level:
        return self.late.level

    @property
    def waiting(self) -> QueueWaiting:
        return known(self.facts.waiting_in(self.name))

    @property
    def oldest(self) -> str:
        return f"The oldest job there has waited {self.late.words}"

    def owns(self, kind: str) -> bool:
        """Return whether jobs of a kind have ended in the queue."""
        hour = self.facts.hour
        return not isinstance(hour, Unread) and (self.name, kind) in hour.pairs

    def mean_run(self, kind: str) -> float:
        """Return how many seconds a job of a kind has run on average; 1 if that is unknown."""
        hour = self.facts.hour
        tally = None if isinstance(hour, Unread) else hour.pairs.get((self.name, kind))
        return tally.run.sum_us / tally.run.n / 1e6 if tally and tally.run.n else 1.0

    def jobs(self, kind: str = "", *, state: str = "available") -> Link:
        """Return where its jobs are listed, of one kind if it is given."""
        label = "Open what runs" if state == "running" else "Open what waits"
        return Link(label=label, page="jobs", state=state, queue=self.name, kind=kind)


def backlog(facts: HealthFacts, late: LateQueue, others: str) -> list[Finding]:
    """Return why a queue is behind although its clients take jobs. The last finding is the cause;
    those before it are ruled out or unknown. `others` is a sentence about further queues.
    """
    queue = _Backlog(facts=facts, late=late)
    causes: list[Finding] = []
    for check in _CHECKS:
        causes += examine(queue, [check])
        if causes[-1].result is Result.FAILED:
            # It causes what the following checks would find.
            break
    last = causes[-1]
    causes[-1] = replace(
        last,
        detail=f"{last.detail} {others}".strip(),
        began=last.began or late.since,
        baseline=_baseline(queue, last),
    )
    return causes


def _baseline(queue: _Backlog, cause: Finding) -> Baseline | None:
    """Return what is usual for the subject of a cause, with what is usual for the queue."""
    late, about = queue.late.known, subject_of(cause)
    if about.what != "kind":
        return late
    kind = cause.baseline or Baseline(before=queue.late.since, minutes=0)
    wait, waiting = (late.wait, late.waiting) if late else (None, None)
    return replace(kind, queue=queue.name, wait=wait, waiting=waiting)


def _worked(queue: _Backlog) -> Finding:
    """Return whether all waiting kinds are worked."""
    facts, waiting = queue.facts, queue.waiting
    if not waiting.jobs:
        return passed("None of its jobs wait any more.")
    orphans = unworked(facts, queue.name)
    if not orphans:
        kind, owned = _most(waiting)
        if owned.taken_at or owned.retries or kind in worked(facts, queue.name):
            return passed(f"Jobs of {cut(kind)}, which waits most, are worked.")
        return unknown(f"Whether {cut(kind)} is worked was not measured.")
    kind = max(orphans, key=lambda kind: (waiting.kinds[kind].jobs, kind))
    owned = waiting.kinds[kind]
    cap = owned.jobs if waiting.jobs >= waiting.cap else None
    count = counted(owned.jobs, f"{cut(kind)} job", cap)
    since = f", the oldest for {duration(facts.now - owned.since)}" if owned.since else ""
    have = "has" if owned.overtaken == 1 else "have"
    overtaken = f"; {counted(owned.overtaken, 'younger job')} {have} overtaken them"
    words = (
        f"{count} {'waits' if owned.jobs == 1 else 'wait'} in queue {cut(queue.name)}{since}"
        f"{overtaken if owned.overtaken else ''}."
    )
    return Finding(
        level=queue.level,
        evidence=f"Nobody works it: {words}",
        cause=Cause.UNKNOWN_KIND,
        title=f"Nobody works {cut(kind)}.",
        headline=capital(words),
        detail="The clients of the queue seem to have no worker for this kind."
        if unreported(facts, queue.name, waiting)
        else "No live client of the queue reports a worker for this kind.",
        cure="Deploy a worker that has this kind; the jobs wait, none is lost.",
        culprit=culprit("kind", kind, owned.jobs / waiting.jobs),
        link=queue.jobs(kind),
    )


def _retries(queue: _Backlog) -> Finding:
    """Return whether most waiting jobs, or most of those that come first, were tried before."""
    waiting = queue.waiting
    kinds, total = waiting.kinds, waiting.jobs
    count = sum(found.retries for found in kinds.values())
    if count < total * CULPRIT_SHARE:
        total, count = min((total + 1) // 2, FIRST), waiting.first
    many = f"{count:,}" if count else "None"
    evidence = f"{many} of the {total:,} jobs that come next have been tried before."
    if total < FEWEST_ENDS or count < total * CULPRIT_SHARE:
        return passed(evidence)
    kind = max(kinds, key=lambda name: kinds[name].retries)
    share = kinds[kind].retries / sum(found.retries for found in kinds.values())
    most = "All" if share == 1 else percent(share)
    owner = f" {most} of the retries are {cut(kind)}." if share >= CULPRIT_SHARE else ""
    return Finding(
        level=queue.level,
        evidence=evidence,
        cause=Cause.RETRY_STORM,
        title=f"Retries crowd queue {cut(queue.name)}.",
        headline=f"{evidence}{owner} {queue.oldest}.",
        cure="If they succeed now, the queue empties by itself; if not, mend their error first.",
        culprit=culprit("kind", kind, share),
        link=queue.jobs(kind if share >= CULPRIT_SHARE else ""),
    )


def _flood(queue: _Backlog) -> Finding:
    """Return whether most waiting jobs, or most of the work that waits, is of one kind, of which
    far more than usual has come since the queue is late.
    """
    waiting = queue.waiting
    if not waiting.jobs:
        return passed("None of its jobs wait any more.")
    if queue.facts.looking:
        return unknown(queue.facts.looking)
    jobs = {kind: float(found.jobs) for kind, found in waiting.kinds.items()}
    work = {kind: jobs[kind] * queue.mean_run(kind) for kind in jobs}
    finding = passed(f"No kind makes up half of what waits; {cut(_most(waiting)[0])} has the most.")
    for parts, what in ((jobs, "what waits"), (work, "the work that waits")):
        kind = max(parts, key=lambda kind: parts[kind])
        share = parts[kind] / max(sum(parts.values()), 1e-9)
        if share >= CULPRIT_SHARE:
            finding = _flooded(queue, kind, share, what)
            if finding.result is Result.FAILED:
                break
    return finding


def _flooded(queue: _Backlog, kind: str, share: float, what: str) -> Finding:
    """Return whether far more jobs than usual of a kind have come, which is this share of what
    waits.
    """
    facts = queue.facts
    # What comes within a minute waits from the next one on.
    since = queue.late.since - _MINUTE
    own, every = Subject("kind", kind), Subject("queue", queue.name)
    now, usually = within(facts, own, since=since), usual(facts, own, since)
    if now is None:
        return unknown(f"How many {cut(kind)} come was not measured.")
    came = max(now.inserted, now.ended + queue.waiting.kinds[kind].jobs)
    normal = _normal(usually, facts.now - since)
    numbers = f"{came:,} came in {duration(facts.now - since)}, usually {normal:,.0f}"
    if came < FEWEST_ENDS or came < max(normal, 1.0) * FLOOD_TIMES:
        return passed(f"No flood of {cut(kind)}: {numbers}.")
    others = (within(facts, every, since=since) or Tally()).inserted - now.inserted
    normal_others = _normal(queue.late.known, facts.now - since) - normal
    if normal_others >= FEWEST_ENDS and others / normal_others * 2 > came / max(normal, 1.0):
        return passed(f"{cut(kind)}: {numbers}. All others come more often, too.")
    much = "all" if share == 1 else percent(share)
    owns = f"{numbers}; {much} of {what} is of this kind."
    return Finding(
        level=queue.level,
        evidence=f"{cut(kind)}: {owns}",
        cause=Cause.FLOOD,
        title=f"{cut(kind)} floods queue {cut(queue.name)}.",
        headline=f"{owns} {queue.oldest}.",
        cure="Find out what inserts so many.",
        culprit=culprit("kind", kind, share),
        baseline=usually,
        link=queue.jobs(kind),
    )


def _normal(usually: Baseline | None, span: timedelta) -> float:
    """Return how many jobs usually come in a time."""
    return max(usually.inserted, usually.ended) * (span / _MINUTE) if usually else 0.0


def _slow(queue: _Backlog) -> Finding:
    """Return whether a kind that holds most of the slots takes far longer than usual."""
    facts = queue.facts
    own = [job for job in known(facts.running).jobs if job.queue == queue.name]
    if facts.looking:
        return unknown(facts.looking)
    slots, hung = Counter(job.kind for job in own), hanging(facts)
    stuck = [job for job in overrun(facts) if job.queue == queue.name]
    if stuck and len(stuck) == len(own):
        # Nothing else of the queue runs: already one such job hangs.
        hung = {kind: [job for job in stuck if job.kind == kind] for kind in slots}
    found = {kind: runs(facts, kind, hung.get(kind, ())) for kind in _holders(queue, slots)}
    slow = [each for each in found.values() if each is not None and each.slow]
    if not slow:
        words = [f"{cut(each.kind)} {each.words}" for each in found.values() if each is not None]
        return passed(f"{words[0]}.") if words else unknown("How long its jobs run is not known.")
    worst = max(slow, key=lambda each: slots[each.kind])
    share = f"holds {slots[worst.kind]:,} of {len(own):,} jobs that run"
    what = share if len(own) > 1 else "is all that runs"
    holds = f"{worst.words}, and {what} in queue {cut(queue.name)}."
    return Finding(
        level=queue.level,
        evidence=f"{cut(worst.kind)} {holds}",
        cause=Cause.SLOW_KIND,
        title=f"{cut(worst.kind)} got slow.",
        headline=f"It {holds} {queue.oldest}.",
        culprit=culprit("kind", worst.kind, 1.0),
        began=worst.began,
        baseline=worst.usual,
        cure=SLOW_CURE,
        link=queue.jobs(worst.kind, state="running"),
    )


def _holders(queue: _Backlog, slots: Mapping[str, int]) -> list[str]:
    """Return the kinds that hold half of a queue's slots: now, or of the time since it is late."""
    facts, total = queue.facts, sum(slots.values())
    spent: dict[str, float] = {}
    for kind in facts.kind_hours:
        ran = within(facts, Subject("kind", kind), since=queue.late.since)
        spent[kind] = ran.run.sum_us if ran else 0
    every = within(facts, Subject("queue", queue.name), since=queue.late.since)
    most = every.run.sum_us if every else 0
    return [
        kind
        for kind in {**slots, **spent}
        if slots.get(kind, 0) >= max(1, total * CULPRIT_SHARE)
        or (kind in spent and queue.owns(kind) and spent[kind] >= max(1, most * CULPRIT_SHARE))
    ]


def _limits(queue: _Backlog) -> Finding:
    """Return that all clients of a queue are busy: the remaining cause if jobs are taken."""
    facts, waiting = queue.facts, queue.facts.waiting_in(queue.name)
    unread = isinstance(waiting, Unread)
    finding = Finding(
        name="waits" if unread else "",
        label="Waits" if unread else "",
        level=queue.level,
        cause=Cause.LATE if unread else Cause.LIMITS,
        title=f"Queue {cut(queue.name)} is behind.",
        culprit=culprit("queue", queue.name, 1.0),
        link=Link(label="Open the queue", page="queue", name=queue.name),
    )
    if isinstance(waiting, Unread):
        return replace(finding, evidence=f"{queue.oldest}; why could not be read.")
    since = max(queue.late.since, facts.now - RECENT)
    now, usually = within(facts, Subject("queue", queue.name), since=since), queue.late.known
    minutes = max((facts.now - since) / _MINUTE, 1.0)
    waits = wait(counted(waiting.jobs, "job", waiting.cap))
    rates = ""
    if now is not None:
        came = now.inserted / minutes
        rates = f"; {came:,.0f} come a minute and {now.ended / minutes:,.0f} end"
        if usually and usually.ended:
            rates += f", usually {usually.ended:,.0f}"
            if came < usually.ended * _MORE_TIMES:
                finding = replace(finding, cause=Cause.FALLING_BEHIND)
    busy = f"{counted(queue.late.row.running, 'job')} running{_slots(queue)}"
    evidence = f"{waits}; {busy}{rates}."
    headline = f"{queue.oldest}: more comes than its clients can do. {evidence}"
    return replace(finding, evidence=evidence, headline=headline)


_CHECKS: Sequence[Check[_Backlog]] = (
    ("kinds", "Kinds", _worked),
    ("retries", "Retries", _retries),
    ("flood", "Floods", _flood),
    ("held", "Slots held by one kind", _slow),
    ("limits", "Slots", _limits),
)


def _most(waiting: QueueWaiting) -> tuple[str, WaitingKind]:
    """Return the kind with most waiting jobs."""
    return max(waiting.kinds.items(), key=lambda item: item[1].jobs)


def _slots(queue: _Backlog) -> str:
    """Return how many slots are taken, as part of a sentence; empty if clients do not report it."""
    reports = [c for c in queue.facts.reporting.values() if queue.name in c.slots and not c.lost]
    if not reports:
        return ""
    most, taken = (
        sum(numbers) for numbers in zip(*(c.slots[queue.name] for c in reports), strict=True)
    )
    return f" ({taken:,} of {most:,} slots of the clients that report theirs)"
