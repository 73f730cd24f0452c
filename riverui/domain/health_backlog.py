"""Why a queue is behind although its jobs are taken: retries, a flood, a slow kind, or limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from riverui.domain.health import Cause, HealthAction, Level
from riverui.domain.health_facts import HealthFacts, QueueWaiting, RunningJob
from riverui.domain.health_findings import (
    Finding,
    culprit,
    cut,
    failed,
    jobs,
    passed,
    unmeasured,
    wait,
)
from riverui.domain.health_kinds import unreported, unworked, worked
from riverui.domain.health_usual import (
    CULPRIT_SHARE,
    FEWEST_ENDS,
    FEWEST_RECENT,
    RECENT,
    SPAN,
    Usual,
    percent,
    ratio,
    recent,
    usual,
)
from riverui.domain.job_facts import Unread
from riverui.domain.sketch import Sketch
from riverui.domain.time import duration

FLOOD_TIMES = 3.0
"""How many times as many jobs of a kind as usual are a flood rather than a busy hour."""
SLOW_TIMES = 3.0
"""How many times as long as usual a kind's runs may take: below it lies what other args make."""
_NEWEST = 5
"""Minutes whose runs tell how slow a kind is now: trouble is minutes old when somebody looks."""


def backlog(
    facts: HealthFacts,
    *,
    queue: str,
    running: int,
    words: str,
    level: Level,
    known: Usual | None,
    others: str,
) -> list[Finding]:
    """Return what keeps a queue behind whose clients take jobs: one cause is found, those before it
    are ruled out or not measured.

    `words` tell how long it waits; `others` is a sentence about further queues.
    """
    oldest = f"its oldest job has waited {words}"
    waiting = facts.waiting.get(queue, Unread(why="It was not read."))
    checks: list[Callable[[], Finding]] = [
        lambda: _worked(facts, queue, waiting),
        lambda: _retries(queue, waiting, oldest),
        lambda: _flood(facts, queue, waiting, oldest),
        lambda: _slow(facts, queue, oldest),
        lambda: _limits(facts, queue, running, waiting, oldest, known),
    ]
    causes: list[Finding] = []
    for check in checks:
        causes.append(check())
        if causes[-1].cause is not Cause.NONE:
            # The rest is what this one brings about.
            break
    causes[-1] = replace(causes[-1], level=level, detail=f"{causes[-1].detail} {others}".strip())
    return causes


def _worked(facts: HealthFacts, queue: str, waiting: QueueWaiting | Unread) -> Finding:
    """Return whether all kinds that wait are worked."""
    name, label = "kinds", "Its kinds are worked"
    if isinstance(waiting, Unread):
        return unmeasured(name, label, waiting)
    if not waiting.kinds:
        return passed(name, label, "Nothing of it waits any more.")
    orphans = unworked(facts, queue)
    if not orphans:
        kind, owned = max(waiting.kinds.items(), key=lambda item: item[1].jobs)
        if owned.taken_at or owned.retries or kind in worked(facts, queue):
            return passed(name, label, f"Jobs of {cut(kind)}, which waits most, are worked.")
        return unmeasured(name, label, f"Whether {cut(kind)} is worked was not measured.")
    kind = max(orphans, key=lambda kind: (waiting.kinds[kind].jobs, kind))
    owned, share = waiting.kinds[kind], waiting.kinds[kind].jobs / waiting.looked_at
    count = jobs(owned.jobs, owned.jobs if waiting.looked_at < waiting.jobs else None)
    since = f", the oldest for {duration(facts.now - owned.since)}" if owned.since else ""
    younger = "younger job has" if owned.overtaken == 1 else "younger jobs have"
    overtaken = f"; {owned.overtaken:,} {younger} overtaken them" if owned.overtaken else ""
    waits = "waits" if owned.jobs == 1 else "wait"
    words = f"{count[0].upper()}{count[1:]} of it {waits} in queue {cut(queue)}{since}{overtaken}."
    reported = not unreported(facts, queue, waiting)
    return Finding(
        check=failed(name, label, f"Nobody works {cut(kind)}: {words[0].lower()}{words[1:]}"),
        cause=Cause.UNKNOWN_KIND,
        label=f"Nobody works {cut(kind)}.",
        headline=words,
        detail="No live client of the queue reports a worker for this kind."
        if reported
        else "Its clients seem to have no worker for this kind.",
        culprit=culprit("kind", kind, share) if share >= CULPRIT_SHARE else None,
        action=HealthAction(
            label="See what waits", page="jobs", state="available", queue=queue, kind=kind
        ),
    )


def _retries(queue: str, waiting: QueueWaiting | Unread, oldest: str) -> Finding:
    """Return whether most of what waits has been tried before."""
    name, label = "retries", "Retries do not crowd it"
    if isinstance(waiting, Unread):
        return unmeasured(name, label, waiting)
    total = waiting.looked_at
    retries = {kind: found.retries for kind, found in waiting.kinds.items() if found.retries}
    count = sum(retries.values())
    if total < FEWEST_ENDS or count < total * CULPRIT_SHARE:
        return passed(
            name, label, f"{count:,} of the {total:,} jobs that come next are tried again."
        )
    kind = max(retries, key=lambda name: retries[name])
    share = retries[kind] / count
    evidence = f"{count:,} of the {total:,} jobs that come next have been tried before."
    owner = f" {percent(share)} of them are {cut(kind)}." if share >= CULPRIT_SHARE else ""
    return Finding(
        check=failed(name, label, evidence),
        cause=Cause.RETRY_STORM,
        label=f"Retries crowd queue {cut(queue)}.",
        headline=f"{evidence}{owner} {oldest[0].upper()}{oldest[1:]}.",
        culprit=culprit("kind", kind, share) if share >= CULPRIT_SHARE else None,
        action=HealthAction(
            label="See what waits", page="jobs", state="available", queue=queue, kind=kind
        )
        if share >= CULPRIT_SHARE
        else HealthAction(label="See what waits", page="jobs", state="available", queue=queue),
    )


def _flood(facts: HealthFacts, queue: str, waiting: QueueWaiting | Unread, oldest: str) -> Finding:
    """Return whether one kind owns what waits, and came in far greater numbers than usual."""
    name, label = "flood", "No kind floods it"
    if isinstance(waiting, Unread):
        return unmeasured(name, label, waiting)
    if not waiting.kinds:
        return passed(name, label, "Nothing of it waits any more.")
    kind, owned = max(waiting.kinds.items(), key=lambda item: item[1].jobs)
    share = owned.jobs / waiting.looked_at
    if share < CULPRIT_SHARE:
        return passed(name, label, f"No kind owns half of what waits; {cut(kind)} is the most.")
    known = usual(facts.kind_hours.get(kind), facts.kind_weeks.get(kind), facts)
    now = recent(facts.kind_hours.get(kind), facts)
    if now is None:
        return unmeasured(name, label, f"How many {cut(kind)} come was not measured.")
    came = max(now.inserted, round(now.ended + waiting.jobs * share))
    if known is None:
        # So few of it ended before that there is nothing to compare with: it is new here.
        normal = _before(facts, kind)
    else:
        normal = max(known.tally.inserted, known.tally.ended) * (RECENT / known.span)
    if came < FEWEST_ENDS or came < max(normal, 1.0) * FLOOD_TIMES:
        evidence = f"{came:,} {cut(kind)} came in {SPAN}, usually {normal:,.0f}."
        return passed(name, label, evidence)
    evidence = (
        f"{cut(kind)} owns {percent(share)} of what waits: {came:,} came in {SPAN},"
        f" usually {normal:,.0f}."
    )
    return Finding(
        check=failed(name, label, evidence),
        cause=Cause.FLOOD,
        label=f"{cut(kind)} floods queue {cut(queue)}.",
        headline=f"It{evidence.removeprefix(cut(kind))} {oldest[0].upper()}{oldest[1:]}.",
        culprit=culprit("kind", kind, share),
        action=HealthAction(
            label="See what waits", page="jobs", state="available", queue=queue, kind=kind
        ),
    )


def _slow(facts: HealthFacts, queue: str, oldest: str) -> Finding:
    """Return whether a kind that holds most of the slots takes far longer than usual."""
    name, label = "slow", "No kind got slow"
    if isinstance(facts.running, Unread):
        return unmeasured(name, label, facts.running)
    own = [job for job in facts.running.jobs if job.queue == queue]
    if not own:
        return passed(name, label, "No job of it is running at the moment.")
    kind, slots = Counter(job.kind for job in own).most_common(1)[0]
    share = slots / len(own)
    if share < CULPRIT_SHARE:
        return passed(name, label, "No kind holds half of its slots.")
    known = usual(facts.kind_hours.get(kind), facts.kind_weeks.get(kind), facts)
    normal = known.tally.run.quantile(0.5) if known else None
    if normal is None:
        return unmeasured(name, label, f"How long {cut(kind)} usually runs is not known.")
    span = _median_run(facts, kind)
    age = _median_age([job for job in own if job.kind == kind], facts)
    slowest = known.tally.run.quantile(0.99) if known else None
    if slowest is not None and age >= slowest * SLOW_TIMES:
        # None of those that are slow may have ended yet.
        span = max(span, age)
    times = ratio(span, normal)
    if times < SLOW_TIMES:
        evidence = f"{cut(kind)} runs {duration(span)} (median), usually {duration(normal)}."
        return passed(name, label, evidence)
    evidence = (
        f"{cut(kind)} runs {duration(span)} (median), usually {duration(normal)}, and holds"
        f" {slots:,} of {jobs(len(own))} that run in queue {cut(queue)}."
    )
    return Finding(
        check=failed(name, label, evidence),
        cause=Cause.SLOW_KIND,
        label=f"{cut(kind)} got slow.",
        headline=f"It{evidence.removeprefix(cut(kind))} {oldest[0].upper()}{oldest[1:]}.",
        culprit=culprit("kind", kind, share),
        action=HealthAction(
            label="See what runs", page="jobs", state="running", queue=queue, kind=kind
        ),
    )


def _limits(
    facts: HealthFacts,
    queue: str,
    running: int,
    waiting: QueueWaiting | Unread,
    oldest: str,
    known: Usual | None,
) -> Finding:
    """Return that all clients of a queue are busy: what is left where jobs are taken, and wait."""
    if isinstance(waiting, Unread):
        words = f"{oldest[0].upper()}{oldest[1:]}; why could not be read."
        return Finding(
            check=failed("waits", "Nothing waits for longer than usual", words),
            cause=Cause.LATE,
            label=f"Queue {cut(queue)} is behind.",
            headline=words,
            action=HealthAction(label="Open the queue", page="queue", name=queue),
        )
    now = recent(facts.queue_hours.get(queue), facts)
    minutes = RECENT / timedelta(minutes=1)
    ended = f"; {now.ended / minutes:,.0f} a minute end" if now else ""
    normal = (
        f", usually {known.tally.ended / (known.span / timedelta(minutes=1)):,.0f}"
        if now and known
        else ""
    )
    count = wait(jobs(waiting.jobs, waiting.cap))
    evidence = f"{count}; {jobs(running)} running{_slots(facts, queue)}{ended}{normal}."
    return Finding(
        check=failed("limits", "Its clients have free slots", evidence),
        cause=Cause.LIMITS,
        label=f"Queue {cut(queue)} is behind.",
        headline=f"{oldest[0].upper()}{oldest[1:]}: more comes than its clients can do. {evidence}",
        action=HealthAction(label="Open the queue", page="queue", name=queue),
    )


def _slots(facts: HealthFacts, queue: str) -> str:
    """Return how many slots are taken, as part of a sentence; empty where clients do not tell."""
    own = [c.slots[queue] for c in facts.reporting.values() if queue in c.slots and not c.lost]
    if not own:
        return ""
    most, taken = (sum(numbers) for numbers in zip(*own, strict=True))
    return f" ({taken:,} of {most:,} slots of the clients that tell theirs)"


def _before(facts: HealthFacts, kind: str) -> float:
    """Return how many jobs of a kind ended within RECENT in the mean, however few they were."""
    hour = facts.kind_hours.get(kind)
    if hour is None:
        return 0.0
    columns = [c.tally.ended for c in hour.columns if c.tally and c.at < facts.now - RECENT]
    return sum(columns) / len(columns) * (RECENT / hour.window.step) if columns else 0.0


def _median_run(facts: HealthFacts, kind: str) -> timedelta:
    """Return the median of the newest runs that completed: of the last minutes if they are
    enough.
    """
    hour = facts.kind_hours.get(kind)
    now = recent(hour, facts)
    if now is None or now.run.n < FEWEST_RECENT or hour is None:
        return timedelta(0)
    newest = Sketch()
    for column in hour.columns[-_NEWEST:]:
        if column.tally is not None:
            newest.merge(column.tally.run)
    chosen = newest if newest.n >= FEWEST_RECENT else now.run
    return chosen.quantile(0.5) or timedelta(0)


def _median_age(own: Sequence[RunningJob], facts: HealthFacts) -> timedelta:
    ages = sorted(facts.now - job.attempted_at for job in own if job.attempted_at is not None)
    return max(ages[len(ages) // 2], timedelta(0)) if ages else timedelta(0)
