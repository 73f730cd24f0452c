"""What looks at a database make of incidents: they open, go on, close and come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from riverui.domain.findings import Culprit, Diagnosis, Finding, Level, Link
from riverui.domain.health import Cause, HealthReport
from riverui.domain.health.baseline import Baseline, Subject
from riverui.features.incidents.domain import (
    MAX_MINUTES,
    ChangeKind,
    Incident,
    Key,
    Look,
    Measure,
    look,
)

T0 = datetime(2026, 11, 23, 18, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
USUAL = Baseline(before=T0, minutes=45.0, completed=92.5, failed=7.5)


def failing(kind: str = "email_send", cause: Cause = Cause.FAILURES, **given: Any) -> Finding:
    """Return the finding of a kind that fails; of all kinds for an empty name."""
    fields: dict[str, Any] = {
        "name": "failures",
        "label": "Failures are as usual",
        "level": Level.CRITICAL,
        "cause": cause,
        "title": f"{kind or 'Everything'} is failing.",
        "headline": "77 % of its attempts fail, usually 7.5 %.",
        "culprit": Culprit(what="kind", name=kind, share=1.0) if kind else None,
        "link": Link(label="See what failed", page="jobs", state="retryable", kind=kind),
        "began": T0,
        "baseline": USUAL,
    }
    return Finding(**fields | given)


def behind(cause: Cause, queue: str = "mail", *, kind: str = "") -> Finding:
    """Return the finding of a late queue, because of a kind if one is given."""
    return Finding(
        name=cause.value,
        level=Level.WARN,
        cause=cause,
        title=f"Queue {queue} is behind.",
        culprit=Culprit(what="kind", name=kind, share=1.0) if kind else None,
        link=Link(label="See what waits", page="jobs", queue=queue, kind=kind),
    )


PASSED = Finding(name="failures", label="Failures are as usual", evidence="0.4 % failed.")
UNREAD = Finding(name="failures", level=Level.UNKNOWN, evidence="It could not be read.")


class Days:
    """A database that is looked at now and then."""

    def __init__(self) -> None:
        self.at = T0
        self.suspects: Mapping[Key, datetime] = {}
        self.incidents: dict[str, Incident] = {}

    def look(self, *findings: Finding, after: timedelta = MINUTE / 3, ok: bool = True) -> Look:
        """Look after a while, and return what that changed."""
        self.at += after
        level = Level.OK if ok else Level.UNKNOWN
        parts = {name: Diagnosis(name=name, checks=()) for name in ("flow", "success", "data")}
        parts["success"] = Diagnosis(name="success", level=level, checks=findings or (PASSED,))
        report = HealthReport(at=self.at, **parts)
        found = look(report, list(self.incidents.values()), self.suspects)
        self.suspects = found.suspects
        self.incidents |= {incident.id: incident for incident in found.incidents}
        return found

    def minutes(self, *findings: Finding, n: float) -> list[ChangeKind]:
        """Look for some minutes, and return what happened."""
        return [change.kind for _ in range(round(3 * n)) for change in self.look(*findings).changes]

    @property
    def one(self) -> Incident:
        """Return the only incident."""
        (found,) = self.incidents.values()
        return found


def kinds(found: Look) -> Sequence[ChangeKind]:
    return [change.kind for change in found.changes]


def test_two_looks_that_agree_open_an_incident_with_its_beginning() -> None:
    days = Days()
    assert kinds(days.look(failing())) == []
    assert days.incidents == {}
    assert kinds(days.look(failing())) == [ChangeKind.OPENED]
    assert days.one.key == (Cause.FAILURES, Subject("kind", "email_send"))
    assert (days.one.opened_at, days.one.found_at) == (T0, T0 + MINUTE / 3)
    assert (days.one.measure, days.one.usual) == (Measure.FAILING, 0.075)
    assert (days.one.kind, days.one.facts.check) == ("email_send", "failures")


def test_a_moment_or_two_distant_ones_open_none() -> None:
    days = Days()
    days.look(failing())
    days.look()
    days.look(failing())
    days.look(failing(), after=2 * MINUTE)
    assert days.incidents == {}


def test_what_goes_on_stays_open_with_the_baseline_of_its_beginning() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    higher = Baseline(before=T0 + timedelta(hours=2), minutes=45.0, completed=23.0, failed=77.0)
    assert days.minutes(failing(baseline=higher, level=Level.WARN), n=240) == []
    assert days.one.facts.baseline == USUAL
    assert (days.one.level, days.one.seen_at) == (Level.WARN, days.at)


def test_it_closes_after_five_good_minutes_and_reopens_within_fifteen() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    last = days.at
    assert days.minutes(n=5) == []
    assert kinds(days.look()) == [ChangeKind.CLOSED]
    assert (days.one.closed_at, days.one.ended_at) == (days.at, last)
    days.minutes(n=10)
    assert kinds(days.look(failing())) == []
    assert kinds(days.look(failing())) == [ChangeKind.REOPENED]
    assert days.one.closed_at is None
    assert (days.one.opened_at, days.one.facts.baseline) == (T0, USUAL)


def test_a_pause_of_four_minutes_is_a_part_of_it() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    days.minutes(n=4)
    days.look(failing())
    assert days.minutes(n=4) == []
    assert days.one.closed_at is None


def test_what_is_not_measured_is_not_good() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    days.minutes(n=4)
    assert days.minutes(UNREAD, n=30) == []
    assert days.one.good_since is None
    assert days.minutes(n=5.4) == [ChangeKind.CLOSED]


def test_a_check_that_is_not_made_any_more_is_good_unless_flow_is_unknown() -> None:
    days = Days()
    days.minutes(behind(Cause.LIMITS), n=1)
    assert days.minutes(n=5.4) == [ChangeKind.CLOSED]


def test_a_cause_that_is_known_better_later_is_the_same_incident() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    days.look(failing(cause=Cause.DEPLOY))
    causes = [days.one.cause]
    days.look(failing(cause=Cause.DEPLOY))
    assert [*causes, days.one.cause] == [Cause.FAILURES, Cause.DEPLOY]
    days.minutes(failing(""), n=1)
    assert days.one.subject == Subject()
    late = Days()
    late.minutes(behind(Cause.LATE), n=1)
    late.minutes(behind(Cause.FLOOD, kind="scan"), n=1)
    assert late.one.key == (Cause.FLOOD, Subject("kind", "scan"))
    assert (late.one.queue, late.one.measure) == ("mail", Measure.WAIT)


def test_several_causes_are_several_incidents() -> None:
    days = Days()
    both = failing(), behind(Cause.LIMITS), behind(Cause.FLOOD, "scans", kind="scan")
    assert days.minutes(*both, n=1) == [ChangeKind.OPENED] * 3
    assert days.minutes(*both[1:], n=6) == [ChangeKind.CLOSED]
    still = [each.cause for each in days.incidents.values() if each.closed_at is None]
    assert still == [Cause.LIMITS, Cause.FLOOD]


def test_of_several_like_it_the_report_has_only_the_worst() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    minute = int(T0.timestamp()) // 60
    bad = days.one.with_minutes([(minute + n, 0.77) for n in range(10)])
    days.incidents[bad.id] = bad
    worse = failing("sms_send")
    assert days.minutes(worse, n=10) == [ChangeKind.OPENED]
    still = bad.with_minutes([(minute + 10 + n, 0.08) for n in range(5)])
    days.incidents[bad.id] = still
    changes = days.minutes(worse, n=6)
    assert changes == [ChangeKind.CLOSED]
    assert days.incidents[bad.id].closed_at is not None


def test_old_figures_are_no_incident() -> None:
    days = Days()
    stale = Finding(name="fresh", level=Level.WARN, cause=Cause.STALE, title="These are old.")
    assert days.minutes(stale, n=2) == []


def test_minutes_are_bounded_and_the_beginning_stays_whole() -> None:
    days = Days()
    days.minutes(failing(), n=1)
    first = int(T0.timestamp()) // 60 - 30
    grown = days.one
    for hour in range(12):
        start = first + 60 * hour
        grown = grown.with_minutes([(minute, 0.5) for minute in range(start, start + 60)])
    minutes = [at for at, _ in grown.facts.minutes]
    assert len(minutes) <= MAX_MINUTES
    assert minutes[:90] == list(range(first, first + 90))
    assert minutes[-1] == first + 12 * 60 - 1
    assert minutes == sorted(set(minutes))
    again = grown.with_minutes([(first, None), (minutes[-1], 0.7)]).facts.minutes
    assert (again[0], again[-1]) == ((first, 0.5), (minutes[-1], 0.7))


def test_objectives_of_queues_end_one_by_one() -> None:
    def burning(queue: str) -> Finding:
        subject = Culprit(what="queue", name=queue, share=1.0)
        link = Link(label="Open the queue", page="queue", name=queue)
        found = behind(Cause.SLO_BURN, queue)
        return replace(found, name=f"slo {queue}", culprit=subject, link=link)

    mail, other = burning("mail"), burning("other")
    days = Days()
    days.minutes(mail, other, n=6)
    over = replace(mail, level=Level.OK, cause="", culprit=None)
    assert days.minutes(over, other, n=6) == [ChangeKind.CLOSED]
    assert {each.subject.name: each.closed_at is None for each in days.incidents.values()} == {
        "mail": False,
        "other": True,
    }
