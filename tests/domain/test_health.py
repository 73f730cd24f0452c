"""The health report, from facts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from riverui.domain.figures import Tally
from riverui.domain.findings import Diagnosis, Level, Result, Unread
from riverui.domain.health import Cause, HealthReport
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.facts import (
    HealthFacts,
    LostJob,
    LostJobs,
    OpenTransaction,
    OverdueJobs,
    QueueWaiting,
    ReportingClient,
    RunningJob,
    RunningJobs,
    UsualHour,
)
from riverui.domain.health.usual import grade_failing, grade_wait, percent, usual
from riverui.domain.health.verdict import judge
from riverui.domain.marks import Mark
from tests.cases import cases
from tests.domain.anything import UNREAD, anything
from tests.health_facts import (
    CLIENT,
    MINUTE,
    NOW,
    SECOND,
    database,
    facts,
    figures,
    jobs,
    queue,
    running,
    tally,
    waiting,
)
from tests.scale import scaled

HOUR = timedelta(hours=1)
OK, UNKNOWN, WARN, CRITICAL = Level.OK, Level.UNKNOWN, Level.WARN, Level.CRITICAL


def results(*sections: Diagnosis) -> Mapping[str, Result]:
    return {check.name: check.result for section in sections for check in section.checks}


def found(report: HealthReport) -> set[str]:
    """Return the names of the checks that found something."""
    seen = results(*report.sections)
    return {name for name, result in seen.items() if result is Result.FAILED}


def late(**fields: Any) -> HealthFacts:
    """Return facts in which queue mail has waited for 4 minutes, and usually waits for a second."""
    row = queue(available=400, waits=4 * MINUTE, running=8)
    given = {
        "queues": [row],
        "running": jobs(*running(8)),
        "waiting": {"mail": waiting(400, {"a": (100, 0), "b": (100, 0), "c": (100, 0)})},
        "queue_hours": {"mail": figures()},
    } | fields
    return facts(**given)


def holding(waits: QueueWaiting | Unread, **fields: Any) -> HealthFacts:
    """Return facts in which that waits in queue mail, which is late."""
    return late(waiting={"mail": waits}, **fields)


def failing(ago: int) -> Tally:
    """Return a kind that has failed in a third of its attempts for 8 minutes."""
    return tally(20, 10) if ago < 8 else tally(30)


def failures(**fields: Any) -> HealthFacts:
    given = {
        "hour": figures(failing),
        "kind_hours": {"mail_send": figures(failing), "hook": figures()},
    } | fields
    return facts(**given)


def slow(ago: int) -> Tally:
    """Return a kind whose runs have taken 30 times as long for 10 minutes."""
    return tally(2, run=30 * SECOND) if ago < 10 else tally(10)


def open_since(span: timedelta, client: str = "psql") -> OpenTransaction:
    return OpenTransaction(pid=7, client=client, state="idle in transaction", since=NOW - span)


def reporting(silent: timedelta, **fields: Any) -> ReportingClient:
    client = ReportingClient(seen_at=NOW - silent, lost=False, slots={"mail": (8, 8)})
    return replace(client, **fields)


def lost(id: int, rescues: int, ago: timedelta) -> LostJob:
    return LostJob(id=id, queue="mail", kind="parse", rescues=rescues, attempted_at=NOW - ago)


def overdue(span: timedelta) -> OverdueJobs:
    return OverdueJobs(jobs=1_000, cap=1_000, oldest_at=NOW - span)


def orphans(**kind: Any) -> QueueWaiting:
    """Return what waits in a queue, two jobs of a kind among it that others may have overtaken."""
    waits = waiting(400, {"orphan": (2, 0), "mail_send": (298, 0)})
    orphan = replace(waits.kinds["orphan"], since=NOW - 9 * MINUTE, **kind)
    return replace(waits, kinds={**waits.kinds, "orphan": orphan})


PAUSED = queue(available=34, waits=30 * MINUTE, paused=38 * MINUTE)
GONE = running(5, client="gone", age=12 * MINUTE)
SLOW = running(5, client="slow", age=HOUR)
MIGRATION = open_since(4 * MINUTE, "migrate")
POISON = [lost(42, 3, 10 * MINUTE), lost(43, 1, MINUTE), lost(44, 9, 7 * HOUR)]
STORM = waiting(4_000, {"hook": (250, 240), "mail_send": (50, 0)})
ERROR = "ConnectionResetError: upstream closed\nat x"


INCIDENTS: Mapping[str, tuple[HealthFacts, str, str]] = {
    "nobody works": (
        late(leader=None, running=jobs(), waiting={"mail": waiting(400, taken=5 * MINUTE)}),
        "critical nobody_works: served. None. queues",
        "No client works. 400 jobs wait, the oldest for 4 m 0 s, usually 1.0 s.",
    ),
    "nobody works one queue": (
        holding(waiting(400, taken=None), running=jobs(*running(queue="hooks", kind="hook"))),
        "warn nobody_works: served. queue mail. queue mail",
        "Nobody works queue mail.",
    ),
    "a client is lost": (
        facts(running=jobs(*running(3), *GONE)),
        "warn lost_client: clients. client gone. jobs",
        "It still holds 5 jobs: mail_send. The leader rescues them from 09:48 on",
    ),
    "a client that reported itself is silent": (
        facts(running=jobs(*SLOW), reporting={"slow": reporting(70 * SECOND, lost=True)}),
        "warn lost_client: clients. client slow. workers",
        "It still holds 5 jobs: mail_send. They are rescued within 90 s.",
    ),
    "the only client of a queue is lost": (
        holding(waiting(400, taken=12 * MINUTE), running=jobs(*GONE)),
        "critical lost_client: clients. client gone. jobs",
        "Client gone is gone.",
    ),
    "a paused queue": (
        facts(queues=[PAUSED, queue("hooks")]),
        "warn paused: paused. queue mail. queue mail",
        "Queue mail is paused. 34 jobs wait there, the oldest for 30 m 0 s.",
    ),
    "all queues are paused": (
        facts(queues=[PAUSED, queue("hooks", paused=MINUTE)]),
        "critical paused: paused. None. queues",
        "All 2 queues are paused.",
    ),
    "nobody leads": (
        facts(overdue=overdue(MINUTE), leader=None),
        "critical leaderless: leader. None. jobs",
        "No client leads. At least 1,000 jobs due to be tried",
    ),
    "the leader is late": (
        facts(overdue=overdue(MINUTE)),
        "warn leaderless: leader. None. jobs",
        "The leader is late. At least 1,000 jobs due to be tried",
    ),
    "the leader is very late": (
        facts(overdue=overdue(10 * MINUTE)),
        "critical leaderless: leader. None. jobs",
        "the first for 10 m 0 s",
    ),
    "a long transaction": (
        facts(database=database(oldest=open_since(5 * MINUTE), dead_rows=1_200_000)),
        "warn long_transaction: transactions. None. database",
        "process 7 (psql), idle in transaction has been open for 5 m 0 s. 1,200,000 dead rows",
    ),
    "a very long transaction": (
        facts(database=database(oldest=open_since(HOUR))),
        "critical long_transaction: transactions. None. database",
        "has been open for 1 h 0 m.",
    ),
    "locked tables": (
        late(database=database(blocked=3, blocked_since=NOW - 3 * MINUTE, blocker=MIGRATION)),
        "critical blocked: locks. None. database",
        "3 statements wait for a lock, the first for 3 m 0 s. The transaction of process 7 (mig",
    ),
    "locked tables, with clients that give up and try again": (
        late(database=database(blocked=1, blocked_since=NOW - 4 * SECOND, blocker=MIGRATION)),
        "critical blocked: locks. None. database",
        "To end process 7, run: select pg_terminate_backend(7)",
    ),
    "notifications pile up": (
        facts(database=database(notifications=0.5)),
        "warn notifications: notifications. None. database",
        "50 % full",
    ),
    "inserts are about to fail": (
        facts(database=database(notifications=0.9)),
        "critical notifications: notifications. None. database",
        "90 % full",
    ),
    "a kind that nobody works, which owns less than half of what waits": (
        holding(orphans(overtaken=5)),
        "warn unknown_kind: kinds. None. jobs orphan",
        "Nobody works orphan. 2 orphan jobs wait in queue",
    ),
    "a retry storm": (
        holding(STORM),
        "warn retry_storm: retries. kind hook. jobs hook",
        "240 of the 300 jobs that come next have been tried before",
    ),
    "a flood of one kind": (
        holding(
            waiting(4_000, {"hook": (3_869, 0), "mail_send": (131, 0)}),
            kind_hours={"hook": figures(lambda _: tally(2))},
        ),
        "warn flood: flood. kind hook. jobs hook",
        "hook floods queue mail. 3,881 came in 5 m 0 s, usually 10; 97 % of what waits is of this",
    ),
    "a flood of a kind that never came before": (
        holding(
            waiting(4_000, {"hook": (300, 0)}),
            kind_hours={"hook": figures(lambda ago: tally(5) if ago < 3 else Tally())},
        ),
        "warn flood: flood. kind hook. jobs hook",
        "hook floods queue mail.",
    ),
    "a flood of long jobs, behind which more short ones wait": (
        holding(
            waiting(300, {"hook": (100, 0), "mail_send": (200, 0)}),
            kind_hours={"hook": figures(lambda _: tally(2))},
            hour=figures(pairs={("mail", "hook"): tally(30, run=20 * SECOND)}),
        ),
        "warn flood: flood. kind hook. jobs hook",
        "112 came in 5 m 0 s, usually 10; 91 % of the work that waits is of this kind.",
    ),
    "the only job that runs in a late queue hangs": (
        holding(
            waiting(60, {"mail_send": (60, 0)}),
            running=jobs(*running(age=4 * MINUTE)),
            kind_hours={"mail_send": figures(lambda ago: tally(10) if ago > 5 else Tally())},
        ),
        "warn slow_kind: held. kind mail_send. jobs mail_send",
        "and is all that runs in queue mail.",
    ),
    "a kind got slow": (
        holding(waiting(80, {"mail_send": (80, 0)}), kind_hours={"mail_send": figures(slow)}),
        "warn slow_kind: held. kind mail_send. jobs mail_send",
        "It runs 30.0 s (median), usually 1.0 s, and holds 8 of 8 jobs that run in",
    ),
    "a kind hangs before any of its runs ends": (
        holding(
            waiting(60, {"mail_send": (60, 0)}),
            running=jobs(*running(8, age=4 * MINUTE)),
            kind_hours={"mail_send": figures(lambda ago: tally(10) if ago > 5 else Tally())},
        ),
        "warn slow_kind: held. kind mail_send. jobs mail_send",
        "mail_send got slow.",
    ),
    "all clients are busy": (
        late(),
        "warn falling_behind: limits. queue mail. queue mail",
        "Queue mail is behind. The oldest job there has waited 4 m 0 s, usually 1.0 s: more comes",
    ),
    "all clients that report their slots are busy": (
        late(reporting={"a": reporting(SECOND), "c": reporting(HOUR, lost=True)}),
        "warn falling_behind: limits. queue mail. queue mail",
        "8 jobs running (8 of 8 slots of the clients that report theirs)",
    ),
    "a late queue that could not be looked into": (
        holding(UNREAD),
        "warn late: waits. queue mail. queue mail",
        "why could not be read.",
    ),
    "failures rise": (
        failures(errors=[ERROR] * 12),
        "critical failures: failures. kind mail_send. errors mail_send",
        "mail_send is failing. 33 % of its attempts failed since 08:53, usually 0 %."
        " ConnectionResetError: upstream closed (12 of the newest 12 failures)",
    ),
    "failures that no kind owns": (
        failures(kind_hours={name: figures(failing) for name in ("a", "b", "c")}),
        "critical failures: failures. None. errors",
        "a, b and c are failing.",
    ),
    "a poison job": (
        facts(lost=LostJobs(jobs=POISON, whole=False)),
        "critical poison_job: poison. job 42. job 42",
        "Job 42 kills its workers. It is of kind parse, was lost with its worker 3 times",
    ),
    "a poison job whose rescues count as failures": (
        facts(
            lost=LostJobs(jobs=[lost(42, 12, MINUTE)], whole=True),
            hour=figures(lambda ago: tally(20, 1) if ago < 12 else tally(20)),
            kind_hours={"parse": figures(lambda ago: tally(2, 1) if ago < 12 else tally(2))},
            failed_jobs={"parse": [NOW], "mail_send": [NOW] * 3},
        ),
        "critical poison_job: poison. job 42. job 42",
        "It is of kind parse, was lost with its worker 12 times",
    ),
    "old figures": (
        facts(hour=figures(read_at=NOW - 61 * SECOND, trouble="The database is away.")),
        "warn stale: fresh. None. database",
        "ago only. The database is away.",
    ),
    "trouble while figures are too old to say anything": (
        facts(hour=figures(read_at=NOW - HOUR), queues=[PAUSED, queue("hooks")]),
        "warn paused: fresh, paused. queue mail. queue mail",
        "Queue mail is paused.",
    ),
    "the worst of two comes first": (
        late(queues=[PAUSED, queue("more", available=4_000, waits=HOUR, running=8)]),
        "critical late: paused, waits. queue more. queue more",
        "Besides: Queue mail is paused.",
    ),
}


def test_each_incident_is_named_and_nothing_else() -> None:
    with cases() as case:
        for name, (given_facts, expected, words) in INCIDENTS.items():
            with case(name):
                report = judge(given_facts)
                worst, checks = report.worst, ", ".join(sorted(found(report)))
                culprit = worst.culprit and f"{worst.culprit.what} {worst.culprit.name}"
                link = worst.link and f"{worst.link.page} {worst.link.name or worst.link.kind}"
                summary = f"{report.level} {report.cause}: {checks}. {culprit}. {link}"
                assert summary.strip() == expected
                assert words in f"{report.headline} {worst.further}"


def test_a_calm_database() -> None:
    report = judge(facts())
    assert [section.level for section in report.sections] == [OK] * 3
    assert report.cause is Cause.NONE
    assert report.headline == (
        "Work is flowing. Jobs start 1.0 s after they are due (p95), usually 1.0 s."
    )
    assert report.success.headline == "0 % of 160 attempts failed in the last 15 min, usually 0 %."
    assert report.data.headline == "4.0 s old, from all rows."
    assert found(report) == set()
    assert all(section.link is None for section in report.sections)
    empty = figures(lambda _: Tally(), {})
    report = judge(facts(queues=[], leader=None, running=jobs(), hour=empty))
    assert (report.level, report.flow.title) == (OK, "Nothing to do.")
    assert report.success.title == "Nothing has failed."


def test_what_is_not_as_bad_as_it_looks() -> None:
    """Facts near an incident that are none: the check's result, and no warning."""
    long = figures(pairs={("mail", "mail_send"): tally(20, run=40 * MINUTE)})
    took = [*running(1, client="slow", age=HOUR), *running(1, client="slow")]
    part = figures(lambda ago: tally(10, 20) if ago < 2 else None, complete=False)
    spared: Mapping[str, tuple[HealthFacts, str]] = {
        "it has held jobs for a minute": (
            facts(running=jobs(*running(5, client="slow", age=1.9 * MINUTE))),
            "clients passed",
        ),
        "it took another": (facts(running=jobs(*took)), "clients passed"),
        "it leads": (facts(running=jobs(*running(5, client=CLIENT, age=HOUR))), "clients passed"),
        "it gives signs of life": (
            facts(running=jobs(*SLOW), reporting={"slow": reporting(20 * SECOND)}),
            "clients passed",
        ),
        "its jobs take long": (facts(running=jobs(*SLOW), hour=long), "clients passed"),
        "nobody knows how long such jobs run": (
            facts(running=jobs(*running(5, client="slow", age=HOUR, kind="rare"))),
            "clients unknown",
        ),
        "not all running jobs were read": (
            facts(running=RunningJobs(jobs=running(3), cap=3)),
            "clients unknown",
        ),
        "not all lost jobs were read": (
            facts(lost=LostJobs(jobs=(), whole=False)),
            "poison unknown",
        ),
        "not all queues were read": (
            facts(queues=[queue(f"q{n}") for n in range(3)], queue_limit=3),
            "served unknown",
        ),
        "nothing waits in a paused queue": (facts(queues=[queue(paused=HOUR)]), "paused passed"),
        "jobs have just become due": (facts(overdue=overdue(59 * SECOND)), "leader passed"),
        "a transaction has been idle for 4 minutes": (
            facts(database=database(oldest=open_since(4.9 * MINUTE))),
            "transactions passed",
        ),
        "a statement waits for a short transaction": (
            facts(
                database=database(
                    blocked=1, blocked_since=NOW - 4 * SECOND, blocker=open_since(20 * SECOND)
                )
            ),
            "locks passed",
        ),
        "a few jobs fail again and again": (
            failures(failed_jobs={"mail_send": [NOW - 2 * MINUTE] * 3 + [NOW - HOUR / 2] * 40}),
            "failures passed",
        ),
        "sessions are hidden from the role": (facts(database=database(hidden=3)), "locks unknown"),
        "notifications are half read": (
            facts(database=database(notifications=0.49)),
            "notifications passed",
        ),
        "the hour has not been read": (facts(hour=part), "failures unknown"),
    }
    with cases() as case:
        for name, (given_facts, expected) in spared.items():
            with case(name):
                report = judge(given_facts)
                assert expected in {f"{k} {v}" for k, v in results(*report.sections).items()}
                assert report.level in (OK, UNKNOWN)


def test_what_was_not_measured_is_unknown() -> None:
    unread: Sequence[tuple[str, str, set[str]]] = (
        ("queues", "flow", {"served", "paused"}),
        ("running", "flow", {"clients"}),
        ("leader", "flow", {"leader"}),
        ("overdue", "flow", {"leader"}),
        ("database", "flow", {"locks", "transactions", "notifications"}),
        ("lost", "success", {"poison"}),
        ("hour", "success", {"failures"}),
        ("hour", "data", {"fresh", "whole"}),
        ("database", "data", {"primary"}),
    )
    with cases() as case:
        for fact, name, checks in unread:
            with case((fact, name)):
                report = judge(facts(**{fact: UNREAD}))
                section = getattr(report, name)
                assert {results(section)[check] for check in checks} == {Result.UNKNOWN}
                if fact in ("queues", "running", "hour"):
                    assert section.level is report.flow.level is UNKNOWN
    report = judge(facts(hour=figures(lambda _: None, {}, read_at=None, complete=False)))
    assert [section.level for section in report.sections] == [UNKNOWN] * 3
    assert report.data.title == "There are no figures yet."


def test_old_figures_say_nothing() -> None:
    with cases() as case:
        for age, levels in ((60, [OK] * 3), (300, [OK, OK, WARN]), (301, [UNKNOWN] * 3)):
            with case(age):
                report = judge(facts(hour=figures(read_at=NOW - timedelta(seconds=age))))
                assert [section.level for section in report.sections] == levels


def test_waits_beside_what_is_usual() -> None:
    waits: Sequence[tuple[timedelta, timedelta | None, Level]] = (
        (59 * SECOND, SECOND, OK),
        (60 * SECOND, SECOND, WARN),
        (599 * SECOND, SECOND, WARN),
        (600 * SECOND, SECOND, CRITICAL),
        (5.9 * MINUTE, 2 * MINUTE, OK),
        (6.5 * MINUTE, 2 * MINUTE, WARN),
        (21.5 * MINUTE, 2 * MINUTE, CRITICAL),
        (59 * SECOND, None, OK),
        (60 * SECOND, None, WARN),
        (600 * SECOND, None, CRITICAL),
    )
    with cases() as case:
        for waited, usually, level in waits:
            with case((waited, usually)):
                hour = None if usually is None else figures(wait_of(usually))
                assert grade_wait(waited, usual(facts(hour=hour or UNREAD))) is level


def wait_of(span: timedelta) -> Callable[[int], Tally]:
    return lambda _: tally(wait=span)


def test_failures_beside_what_is_usual() -> None:
    shares: Sequence[tuple[float, int | None, Level]] = (
        (0.019, 1, OK),
        (0.02, 1, WARN),
        (0.049, 1, WARN),
        (0.05, 1, CRITICAL),
        (0.05, 30, OK),
        (0.06, 30, WARN),
        (0.12, 30, CRITICAL),
        (0.2, 200, OK),
        (0.6, 600, WARN),
        (0.02, None, WARN),
        (0.05, None, CRITICAL),
    )
    with cases() as case:
        for failed, of_1000, level in shares:
            with case((failed, of_1000)):
                hour = None if of_1000 is None else figures(failing_of_1000(of_1000))
                known = usual(facts(hour=hour or UNREAD))
                assert grade_failing(failed, 100, known) is level
                assert grade_failing(failed, 9, known) is OK, "a single job's retries"
    known = usual(facts(hour=figures(lambda _: tally(96, 4))))
    for failures, level in ((14, OK), (21, CRITICAL)):
        assert grade_failing(failures / 114, failures, known) is level, "chance"


def failing_of_1000(failed: int) -> Callable[[int], Tally]:
    return lambda _: tally(1000 - failed, failed)


def test_a_week_says_more_than_an_hour() -> None:
    hour = figures(lambda _: tally(500, 500))
    assert judge(facts(hour=hour)).success.level is WARN, "however long it has been so"
    week = UsualHour(tally=tally(500, 500), days=6)
    assert judge(facts(hour=hour, week=week)).success.level is OK
    known = usual(facts(hour=hour, week=UsualHour(tally=tally(500, 500), days=1)))
    assert known is not None
    assert not known.weekly, "one day may have been odd"


def test_what_goes_on_does_not_become_usual() -> None:
    """A kept baseline outweighs the hour before, which is a part of the problem."""
    bad = {
        "hour": figures(lambda _: tally(20, 10)),
        "queue_hours": {"mail": figures(wait_of(HOUR))},
    }
    waits = waiting(4_000, {"mail_send": (300, 0)})
    given = late(
        **bad, kind_hours={"mail_send": figures(lambda _: tally(90))}, waiting={"mail": waits}
    )
    assert judge(given).flow.level is OK
    before = NOW - 3 * HOUR
    calm = Baseline.of(tally(600), HOUR, before=before)
    assert calm is not None
    kept = replace(calm, queue="mail")
    assert msgspec.json.decode(msgspec.json.encode(kept), type=Baseline) == kept
    given.baselines = {(Cause.FLOOD, Subject("kind", "mail_send")): kept}
    flow = judge(given).flow
    assert (flow.level, flow.cause) == (WARN, Cause.FLOOD)
    assert "waited 4 m 0 s, usually 1.0 s" in flow.headline
    assert flow.baseline == kept


def test_one_job_waits() -> None:
    rows = [queue(name, available=1, waits=40 * MINUTE) for name in ("mail", "reports", "hooks")]
    other = jobs(*running(kind="import", queue="imports"))
    for count, others in ((1, ""), (2, "reports waits too."), (3, "reports and hooks wait too.")):
        waits = {row.queue.name: waiting(1, {"a": (1, 0), "b": (0, 0)}, taken=None) for row in rows}
        flow = judge(facts(queues=rows[:count], running=other, waiting=waits)).flow
        assert flow.headline == "1 job waits, the oldest for 40 m 0 s."
        assert flow.detail == others


def test_who_works_a_late_queue_may_be_unknown() -> None:
    report = judge(holding(UNREAD, running=jobs()))
    assert results(report.flow)["served"] is Result.UNKNOWN
    elsewhere = RunningJobs(jobs=running(3, queue="a"), cap=3)
    hidden = judge(holding(waiting(400, taken=HOUR), running=elsewhere))
    assert hidden.cause is not Cause.NOBODY_WORKS, "its running jobs were not read"


def test_causes_of_a_backlog_are_looked_for_in_order() -> None:
    passed = {name for name, result in results(judge(late()).flow).items() if result == "passed"}
    assert passed >= {"served", "clients", "paused", "leader", "retries", "flood"}
    assert judge(holding(STORM)).flow.checks[-1].name == "retries", "it brings about the rest"


def test_a_culprit_owns_at_least_half() -> None:
    for own, named in ((149, False), (150, True)):
        report = judge(holding(waiting(300, {"a": (own, own), "b": (300 - own, 0)})))
        assert (report.cause is Cause.RETRY_STORM) is named
    storm = judge(holding(waiting(300, {"a": (149, 149), "b": (75, 75), "c": (76, 76)})))
    assert storm.cause is Cause.RETRY_STORM
    assert storm.flow.culprit is None


def test_failures_since_a_deploy() -> None:
    began = NOW.replace(second=0) - 7 * MINUTE
    with cases() as case:
        for before, named in ((-2.1, False), (-1.5, True), (0, True), (9, True), (11, False)):
            with case(before):
                mark = Mark(at=began - before * MINUTE, label="v1.4.2")
                report = judge(failures(marks=[mark]))
                assert (report.cause is Cause.DEPLOY) is named
                assert ("since 08:53 (deploy v1.4.2)," in report.headline) is named
    assert judge(failures(marks=UNREAD)).cause is Cause.FAILURES
    # The kind came twenty minutes before that for the last time.
    seldom = figures(lambda ago: tally(0, 10) if ago < 8 else tally(5 * (ago > 28)))
    for before, named in ((21, True), (23, False)):
        mark = Mark(at=began - before * MINUTE, label="v1.4.2")
        report = judge(failures(kind_hours={"mail_send": seldom}, marks=[mark]))
        assert (report.cause is Cause.DEPLOY) is named


def test_a_kind_that_few_jobs_of_a_failing_hour_are_of_is_named() -> None:
    hook = figures(lambda ago: tally(1, 8) if ago < 8 else tally(5))
    hour = figures(lambda ago: tally(20, 9) if ago < 8 else tally(30))
    failed = {"hook": [NOW] * 3, "mail_send": [NOW] * 2}
    report = judge(failures(hour=hour, kind_hours={"hook": hook}, failed_jobs=failed))
    assert report.cause is Cause.FAILURES
    assert report.headline.startswith("hook is failing.")


def test_when_failures_began_is_known_beyond_single_minutes() -> None:
    def minute(ago: int) -> Tally:
        if ago == 0:
            return tally(3)
        return tally(20, 10) if ago < 8 else tally(26, 4 if ago in (10, 20) else 0)

    report = judge(failures(kind_hours={"mail_send": figures(minute)}))
    assert "since 08:53," in report.headline
    always = figures(lambda _: tally(10, 20))
    usual = judge(failures(hour=always, kind_hours={"mail_send": always}))
    assert "since" not in usual.headline


def test_a_kind_that_somebody_may_work() -> None:
    """A lock or a limit makes clients pass over single jobs."""
    held: list[RunningJob] = [*running(7), *running(1, kind="orphan")]
    few = waiting(2, {"orphan": (2, 0)})
    assert judge(holding(orphans(overtaken=4))).cause is not Cause.UNKNOWN_KIND
    assert judge(holding(orphans(overtaken=2), running=jobs())).cause is Cause.UNKNOWN_KIND
    runs = judge(holding(orphans(overtaken=9), running=jobs(*held)))
    assert runs.cause is not Cause.UNKNOWN_KIND
    # Whether the kind that waits most is worked is known only if it was seen.
    assert results(judge(holding(few)).flow)["kinds"] is Result.UNKNOWN
    seen = judge(holding(few, running=jobs(*held)))
    assert results(seen.flow)["kinds"] is Result.PASSED


def test_a_kind_that_clients_report_or_do_not() -> None:
    def judged(*kinds: frozenset[str] | None, **fields: Any) -> Cause:
        clients = {f"c{n}": reporting(SECOND, kinds=own) for n, own in enumerate(kinds)}
        asked = waiting(3, {"orphan": (3, 0)}, client="c0")
        mine = jobs(*running(8, client="c0"))
        given = {"waiting": {"mail": asked}, "reporting": clients, "running": mine} | fields
        return judge(late(**given)).cause

    other, own = frozenset({"mail_send"}), frozenset({"orphan"})
    assert judged(other) is judged(other, other) is Cause.UNKNOWN_KIND
    assert Cause.UNKNOWN_KIND not in (judged(other, own), judged(other, None), judged())
    # Go's clients report nothing.
    assert judged(other, running=jobs(*running(8))) is not Cause.UNKNOWN_KIND


def test_names_are_bounded() -> None:
    huge = "\u202e" + "x" * 5_000
    flood = waiting(300, {huge: (300, 0)})
    reports = [
        judge(failures(kind_hours={huge: figures(failing)}, marks=[Mark(at=NOW, label=huge)])),
        judge(late(queues=[queue(huge, available=9, waits=HOUR, paused=HOUR)])),
        judge(facts(running=jobs(*running(5, client=huge, age=HOUR)))),
        judge(facts(database=database(oldest=open_since(HOUR, huge)))),
        judge(holding(flood, kind_hours={huge: figures(lambda _: tally(1))})),
        judge(failures(errors=[huge])),
    ]
    for report in reports:
        assert report.level.badness >= WARN.badness
        for section in report.sections:
            assert max(map(len, (section.title, section.headline, section.detail))) < 600
            assert section.culprit is None or len(section.culprit.name) <= 200
            for check in section.checks:
                assert len(check.evidence) < 600


def test_shares_in_words() -> None:
    assert [percent(share) for share in (0, 0.004, 0.0999, 0.31, 1)] == [
        *("0 %", "0.4 %", "10.0 %", "31 %", "100 %")
    ]


@given(
    anything(
        HealthFacts,
        now=st.just(NOW),
        queue_cap=st.just(1_000),
        queue_limit=st.just(200),
        sums=st.builds(dict),
    )
)
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_holds_together(given_facts: HealthFacts) -> None:
    report = judge(given_facts)
    for section in report.sections:
        names = [check.name for check in section.checks]
        assert len(set(names)) == len(names)
        assert section.title
        assert section.headline.endswith("."), section
        if section.result is Result.FAILED:
            assert section.cause
            assert section.link is not None
            assert Result.FAILED in [check.result for check in section.checks]
        for check in section.checks:
            assert check.evidence.endswith("."), check
        if section.culprit is not None:
            assert 0.5 <= section.culprit.share <= 1
    # Nothing passes that was not measured.
    seen = results(*report.sections)
    if isinstance(given_facts.database, Unread):
        assert {seen[name] for name in ("locks", "transactions", "notifications")} == {
            Result.UNKNOWN
        }
    if isinstance(given_facts.hour, Unread):
        assert OK not in (report.success.level, report.flow.level)
    if isinstance(given_facts.running, Unread):
        assert seen.get("clients", Result.UNKNOWN) is Result.UNKNOWN
