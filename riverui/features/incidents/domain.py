"""Incidents: problems that begin, last and end, and what each look at the database changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from riverui.domain.findings import Finding, Level, Link, Result
from riverui.domain.health import Cause, HealthReport
from riverui.domain.health.baseline import Baseline, Subject, subject_of
from riverui.domain.ulid import ulid

AGREE_WITHIN = timedelta(seconds=60)
"""Maximum time between two looks that agree on a cause: one look may see a passing moment."""
GOOD_FOR = timedelta(minutes=5)
"""How long a cause must be gone until its incident is closed: shorter pauses are a part of it."""
BACK_WITHIN = timedelta(minutes=15)
"""How soon after its end a cause that comes back reopens its incident instead of a new one."""
BEFORE = timedelta(minutes=30)
"""How long before its beginning the minutes of an incident start, to show what was usual."""
MAX_MINUTES = 240
"""Most minutes that are kept of an incident; of longer ones, every second one and so on."""
_MINUTES_SHOW = 5
"""Last minutes that show whether an incident goes on."""
_MAX_CHECKS = 20
"""Most checks that are kept of an incident."""
_MAX_EVIDENCE = 300
"""Most characters of the evidence of a check, so that all of them fit into the table."""
_MAX_USER, _MAX_WORDS = 60, 120
"""Most characters of the name of who did something, and of what was done."""
_MAX_TEXT = 900
"""Most characters of a title, a headline and a detail."""

_MAX_MINUTE = 2**31
"""The last minute since 1970 that is read of a row: some 4,000 years."""

Minute = tuple[Annotated[int, Meta(ge=0, le=_MAX_MINUTE)], float | None]
"""A minute since 1970, and the value in it."""
Key = tuple[Cause, Subject]
"""What an incident is about: one look has at most one finding for each."""

_FAILING = frozenset({Cause.FAILURES, Cause.DEPLOY})
_BEHIND = frozenset(
    {
        Cause.NOBODY_WORKS,
        Cause.UNKNOWN_KIND,
        Cause.RETRY_STORM,
        Cause.FLOOD,
        Cause.SLOW_KIND,
        Cause.LATE,
        Cause.LIMITS,
        Cause.FALLING_BEHIND,
    }
)
_WAITS = _BEHIND - {Cause.SLOW_KIND} | {Cause.PAUSED, Cause.SLO_BURN}
_NO_INCIDENTS = frozenset({Cause.NONE, Cause.STALE})
"""Causes that concern the figures rather than the jobs."""


class Measure(StrEnum):
    """The figure that shows how an incident goes on."""

    FAILING = "failing"
    """The share of attempts that failed, from 0 to 1."""
    WAIT = "wait"
    """How long jobs wait, in seconds: the oldest one, or those that ended."""
    RUN = "run"
    """How long jobs run, in seconds: the median."""
    ENDED = "ended"
    """Jobs that ended."""


class RuledOut(Struct, frozen=True, array_like=True):
    """A check of the last look that saw the incident."""

    name: str
    label: str
    result: Result
    evidence: str


class Deed(Struct, frozen=True, array_like=True):
    """What a person did on a dashboard."""

    at: Annotated[datetime, Meta(tz=True)]
    user: str
    words: str
    """In the past tense, such as `2 jobs retried`."""

    @classmethod
    def of(cls, at: datetime, user: str, words: str) -> Self:
        """Return a deed whose texts are cut, so that all of an incident fit into the table."""
        return cls(at, user[:_MAX_USER], words[:_MAX_WORDS])


class IncidentFacts(Struct, frozen=True, kw_only=True):
    """What is known of an incident besides its sentence; kept as JSON."""

    check: str = ""
    """The check whose finding it is."""
    detail: str = ""
    cure: str = ""
    """What to do about it that no button does."""
    statement: str = ""
    """The SQL that does it."""
    link: Link | None = None
    baseline: Baseline | None = None
    """What was usual before it began, unchanged since it opened."""
    minutes: tuple[Minute, ...] = ()
    """The values of `Incident.measure`, the oldest first."""
    checks: tuple[RuledOut, ...] = ()


class Incident(Struct, frozen=True, kw_only=True):
    """A problem with a beginning and, once it is over, an end."""

    id: str
    cause: Cause
    subject: Subject
    level: Level
    title: str
    headline: str
    opened_at: datetime
    """When it began."""
    found_at: datetime
    """When it was found."""
    seen_at: datetime
    """When its cause was there for the last time."""
    good_since: datetime | None = None
    """Since when its cause has been gone; None while it is there or cannot be measured."""
    closed_at: datetime | None = None
    facts: IncidentFacts = IncidentFacts()
    deeds: tuple[Deed, ...] = ()
    """What people did while it was open; the oldest first."""
    note: str = ""
    noted_at: datetime | None = None
    noted_by: str = ""

    @property
    def key(self) -> Key:
        """Return its cause and its subject."""
        return self.cause, self.subject

    @property
    def queue(self) -> str:
        """Return the queue that waits or that its jobs are of; empty for all queues."""
        return _queue(self.subject, self.facts.link)

    @property
    def kind(self) -> str:
        """Return the kind that it is about; empty for all kinds."""
        return self.subject.name if self.subject.what == "kind" else ""

    @property
    def measure(self) -> Measure:
        """Return the figure that shows how it goes on."""
        if self.cause in _FAILING:
            return Measure.FAILING
        if self.cause in _WAITS:
            return Measure.WAIT
        return Measure.RUN if self.cause is Cause.SLOW_KIND else Measure.ENDED

    @property
    def usual(self) -> float | None:
        """Return the usual value of its measure; None if unknown."""
        baseline = self.facts.baseline
        if baseline is None:
            return None
        if self.measure is Measure.FAILING:
            return baseline.failing
        if self.measure is Measure.ENDED:
            return baseline.ended
        span = baseline.wait if self.measure is Measure.WAIT else baseline.run_median
        return None if span is None else span.total_seconds()

    @property
    def as_usual(self) -> bool:
        """Return whether its last minutes were nearer to what is usual than to its worst one."""
        values = [value for _, value in self.facts.minutes if value is not None]
        middle = (max(values, default=0.0) + (self.usual or 0.0)) / 2
        return bool(values) and max(values[-_MINUTES_SHOW:]) < middle

    @property
    def ended_at(self) -> datetime | None:
        """Return when it was over: when its cause was last there; None while it is open."""
        return None if self.closed_at is None else self.seen_at

    def with_minutes(self, found: Sequence[Minute]) -> Incident:
        """Return a copy with these minutes added, and thinned out if they are many. Of the known
        ones only the last is replaced, which may not have been over.
        """
        minutes = dict(self.facts.minutes)
        last = max(minutes, default=0)
        minutes.update((at, value) for at, value in found if at == last or at not in minutes)
        kept = sorted(minutes.items())
        first = int(self.opened_at.timestamp() // 60)
        while len(kept) > MAX_MINUTES:
            # The beginning stays whole, as it shows what happened.
            late = [at for at, _ in kept if at > first + MAX_MINUTES // 4]
            dropped = set(late[1:-1:2] or [kept[0][0]])
            kept = [minute for minute in kept if minute[0] not in dropped]
        return replace(self, facts=replace(self.facts, minutes=tuple(kept)))


class ChangeKind(StrEnum):
    """What happened to an incident."""

    OPENED = "opened"
    REOPENED = "reopened"
    CLOSED = "closed"


class IncidentChange(Struct, frozen=True, kw_only=True):
    """An incident that was opened, reopened or closed: each is made once, by one dashboard."""

    kind: ChangeKind
    incident: Incident


class Look(Struct, frozen=True, kw_only=True):
    """What a health report changes."""

    incidents: Sequence[Incident]
    """The known ones that are or were open, and the new ones."""
    changes: Sequence[IncidentChange]
    suspects: Mapping[Key, datetime]
    """Causes of this report, and when it was made; for the next look."""


def look(report: HealthReport, known: Sequence[Incident], suspects: Mapping[Key, datetime]) -> Look:
    """Return the incidents after a report. `known` are those that are open or were closed within
    BACK_WITHIN, `suspects` those of the look before.

    Opening, reopening and renaming take two looks that agree. An incident closes once its cause
    has been measured, and was gone, for GOOD_FOR.
    """
    at, found = report.at, dict(troubles(report))
    agreed = {key for key in found if key in suspects and at - suspects[key] <= AGREE_WITHIN}
    mine = _match(known, found)
    after: list[Incident] = []
    changes: list[tuple[ChangeKind, str]] = []
    for incident in known:
        key = mine.get(incident.id)
        if incident.closed_at is not None:
            if key not in agreed:
                # It stays closed.
                continue
            incident = replace(incident, closed_at=None)
            changes.append((ChangeKind.REOPENED, incident.id))
        if key is not None:
            incident = _seen(incident, found[key], report, renamed=key in agreed)
        elif not _measured(incident, report, found):
            incident = replace(incident, good_since=None)
        else:
            since = incident.good_since or at
            incident = replace(incident, good_since=since)
            if at - since >= GOOD_FOR:
                incident = replace(incident, closed_at=at)
                changes.append((ChangeKind.CLOSED, incident.id))
        after.append(incident)
    for key in [key for key in found if key in agreed - set(mine.values())]:
        new = _opened(key, found[key], report, found_at=suspects[key])
        after.append(new)
        changes.append((ChangeKind.OPENED, new.id))
    by_id = {incident.id: incident for incident in after}
    return Look(
        incidents=after,
        changes=[IncidentChange(kind=kind, incident=by_id[name]) for kind, name in changes],
        suspects=dict.fromkeys(found, at),
    )


def baselines(opened: Iterable[Incident]) -> Mapping[Key, Baseline]:
    """Return what was usual before the open incidents, for the next health report."""
    return {
        incident.key: incident.facts.baseline
        for incident in opened
        if incident.facts.baseline is not None
    }


def troubles(report: HealthReport) -> Iterator[tuple[Key, Finding]]:
    """Yield the findings of a report that are causes, with what they are about."""
    for section in report.sections:
        for check in section.checks:
            cause = Cause(check.cause)
            if check.result is Result.FAILED and cause not in _NO_INCIDENTS:
                yield (cause, subject_of(check)), check


def _match(known: Sequence[Incident], found: Mapping[Key, Finding]) -> dict[str, Key]:
    """Return which finding each incident goes on with: the same one, else one that is akin. Open
    incidents come before closed ones.
    """
    mine: dict[str, Key] = {}
    left = dict(found)
    for closed in (False, True):
        mates = [incident for incident in known if (incident.closed_at is not None) is closed]
        for exact in (True, False):
            for incident in mates:
                near = [
                    key
                    for key, finding in left.items()
                    if incident.key == key or (not exact and _akin(incident, key, finding))
                ]
                if incident.id not in mine and near:
                    del left[near[0]]
                    mine[incident.id] = near[0]
    return mine


def _akin(incident: Incident, key: Key, finding: Finding) -> bool:
    """Return whether a finding may be of the same incident: of the same cause or of one that is
    found out only later, and about the same thing or about all of them.
    """
    cause, subject = key
    if cause not in _family(incident.cause):
        return False
    if cause in _FAILING:
        return incident.subject == subject or Subject() in (incident.subject, subject)
    if cause is Cause.SLO_BURN:
        return incident.subject == subject
    queue = _queue(subject, finding.link)
    return cause not in _BEHIND or incident.queue == queue or "" in (incident.queue, queue)


def _family(cause: Cause) -> frozenset[Cause]:
    """Return the causes of which a report has only the worst."""
    return next((family for family in (_FAILING, _BEHIND) if cause in family), frozenset({cause}))


def _queue(subject: Subject, link: Link | None) -> str:
    if subject.what == "queue":
        return subject.name
    if link is None:
        return ""
    return link.name if link.page == "queue" else link.queue


def _measured(incident: Incident, report: HealthReport, found: Iterable[Key]) -> bool:
    """Return whether a report that does not have its cause rules it out."""
    family = _family(incident.cause) - {Cause.SLO_BURN}
    if any(cause in family for cause, _ in found):
        # The report has only the worst of several.
        return incident.as_usual
    for section in report.sections:
        for check in section.checks:
            if check.name == incident.facts.check:
                return check.result is not Result.UNKNOWN
    # Some checks are made only while a queue is late.
    return report.flow.level is not Level.UNKNOWN


def _opened(key: Key, finding: Finding, report: HealthReport, *, found_at: datetime) -> Incident:
    cause, subject = key
    began = finding.began or found_at
    incident = Incident(
        id=ulid(report.at),
        cause=cause,
        subject=subject,
        level=finding.level,
        title="",
        headline="",
        opened_at=min(began, found_at),
        found_at=found_at,
        seen_at=report.at,
        facts=IncidentFacts(baseline=finding.baseline),
    )
    return _seen(incident, finding, report, renamed=True)


def _seen(incident: Incident, finding: Finding, report: HealthReport, *, renamed: bool) -> Incident:
    """Return an incident whose cause is there, in the words of this look if they are certain."""
    incident = replace(incident, seen_at=report.at, good_since=None)
    key = Cause(finding.cause), subject_of(finding)
    if key != incident.key and not renamed:
        return incident
    causes = (*report.flow.checks, *report.success.checks)
    # Whether the figures are good enough is no cause.
    others = [check for check in causes if check is not finding]
    facts = replace(
        incident.facts,
        check=finding.name,
        detail=finding.detail[:_MAX_TEXT],
        cure=finding.cure[:_MAX_TEXT],
        statement=finding.statement,
        link=finding.link,
        checks=tuple(
            RuledOut(
                check.name,
                check.label[:_MAX_EVIDENCE],
                check.result,
                check.evidence[:_MAX_EVIDENCE],
            )
            for check in others[:_MAX_CHECKS]
        ),
    )
    return replace(
        incident,
        cause=key[0],
        subject=key[1],
        level=finding.level,
        title=finding.title[:_MAX_TEXT],
        headline=(finding.headline or finding.evidence)[:_MAX_TEXT],
        facts=facts,
    )
