"""The health report, from facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from riverui.domain.checks import Result
from riverui.domain.figures import Tally
from riverui.domain.health import Cause, HealthReport, HealthSection, Level
from riverui.domain.health_facts import (
    ErrorSample,
    HealthFacts,
    LostJob,
    LostJobs,
    OpenTransaction,
    OverdueJobs,
    ReportingClient,
    RunningJob,
    RunningJobs,
    UsualHour,
)
from riverui.domain.health_usual import grade_failing, grade_wait, percent, usual
from riverui.domain.health_verdict import judge
from riverui.domain.job_facts import Unread
from riverui.features.marks.domain import Mark
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

HOUR = timedelta(hours=1)
UNREAD = Unread(why="The query took too long.")


def results(section: HealthSection) -> Mapping[str, Result]:
    return {check.name: check.result for check in section.checks}


def found(report: HealthReport) -> set[str]:
    """Return the names of the checks that found something."""
    return {
        check.name
        for section in report.sections
        for check in section.checks
        if check.result is Result.FAILED
    }


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


def test_a_calm_database() -> None:
    report = judge(facts())
    assert [section.level for section in report.sections] == [Level.OK] * 3
    assert report.cause is Cause.NONE
    assert report.headline == (
        "Work is flowing. Jobs start 1.0 s after they are due (p95), usually 1.0 s."
    )
    assert report.success.headline == "0 % of 160 attempts in the last 15 min failed, usually 0 %."
    assert report.data.headline == "4.0 s old, from all rows."
    assert found(report) == set()
    assert all(section.action is None for section in report.sections)


def test_nothing_to_do() -> None:
    empty = figures(lambda _: Tally(), {})
    report = judge(facts(queues=[], leader=None, running=jobs(), hour=empty))
    assert (report.level, report.flow.label) == (Level.OK, "Nothing to do.")
    assert report.success.label == "Nothing has failed."


UNREADS: Sequence[tuple[str, str, set[str]]] = (
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


@pytest.mark.parametrize(("fact", "section", "checks"), UNREADS)
def test_what_was_not_measured_is_unknown(fact: str, section: str, checks: set[str]) -> None:
    report = judge(facts(**{fact: UNREAD}))
    seen = results(getattr(report, section))
    assert {name for name in seen if seen[name] is Result.UNKNOWN} >= checks
    assert all(seen[name] is not Result.PASSED for name in checks)
    if fact in ("queues", "running", "hour"):
        assert getattr(report, section).level is Level.UNKNOWN
        assert report.flow.level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("age", "levels"),
    [
        (60, (Level.OK, Level.OK, Level.OK)),
        (61, (Level.OK, Level.OK, Level.WARN)),
        (300, (Level.OK, Level.OK, Level.WARN)),
        (301, (Level.UNKNOWN, Level.UNKNOWN, Level.UNKNOWN)),
    ],
)
def test_old_figures_say_nothing(age: int, levels: tuple[Level, ...]) -> None:
    hour = figures(read_at=NOW - timedelta(seconds=age), trouble="The database is away.")
    report = judge(facts(hour=hour))
    assert tuple(section.level for section in report.sections) == levels
    if levels[2] is not Level.OK:
        assert report.data.headline.endswith("ago only. The database is away.")


def test_trouble_is_told_even_of_old_figures() -> None:
    hour = figures(read_at=NOW - timedelta(hours=1))
    report = judge(facts(hour=hour, queues=[queue(available=9, waits=HOUR, paused=HOUR)]))
    assert (report.level, report.cause) == (Level.WARN, Cause.PAUSED)


def test_before_the_first_reading_nothing_is_known() -> None:
    report = judge(facts(hour=figures(lambda _: None, {}, read_at=None, complete=False)))
    assert [section.level for section in report.sections] == [Level.UNKNOWN] * 3
    assert report.data.label == "There are no figures yet."


@pytest.mark.parametrize(
    ("waited", "usually", "level"),
    [
        (59 * SECOND, SECOND, Level.OK),
        (60 * SECOND, SECOND, Level.WARN),
        (599 * SECOND, SECOND, Level.WARN),
        (600 * SECOND, SECOND, Level.CRITICAL),
        (5.9 * MINUTE, 2 * MINUTE, Level.OK),
        (6.5 * MINUTE, 2 * MINUTE, Level.WARN),
        (21.5 * MINUTE, 2 * MINUTE, Level.CRITICAL),
        (59 * SECOND, None, Level.OK),
        (60 * SECOND, None, Level.WARN),
        (600 * SECOND, None, Level.CRITICAL),
    ],
)
def test_waits_beside_what_is_usual(
    waited: timedelta, usually: timedelta | None, level: Level
) -> None:
    hour = None if usually is None else figures(lambda _: tally(wait=usually))
    assert grade_wait(waited, usual(hour, None, facts())) is level


@pytest.mark.parametrize(
    ("failed", "usually", "level"),
    [
        (0.019, 0.001, Level.OK),
        (0.02, 0.001, Level.WARN),
        (0.049, 0.001, Level.WARN),
        (0.05, 0.001, Level.CRITICAL),
        (0.05, 0.03, Level.OK),
        (0.06, 0.03, Level.WARN),
        (0.12, 0.03, Level.CRITICAL),
        (0.2, 0.2, Level.WARN),
        (0.02, None, Level.WARN),
        (0.05, None, Level.CRITICAL),
    ],
)
def test_failures_beside_what_is_usual(failed: float, usually: float | None, level: Level) -> None:
    hour = None
    if usually is not None:
        hour = figures(lambda _: tally(1000 - round(usually * 1000), round(usually * 1000)))
    known = usual(hour, None, facts())
    assert grade_failing(failed, 100, known) is level
    assert grade_failing(failed, 9, known) is Level.OK, "a single job's retries"


@pytest.mark.parametrize(("failures", "level"), [(14, Level.OK), (21, Level.CRITICAL)])
def test_what_may_be_chance_is_not_told(failures: int, level: Level) -> None:
    known = usual(figures(lambda _: tally(96, 4)), None, facts())
    assert grade_failing(failures / 114, failures, known) is level


def test_a_week_tells_more_than_an_hour() -> None:
    hour = figures(lambda _: tally(500, 500))
    assert judge(facts(hour=hour)).success.level is Level.WARN, "however long it has been so"
    week = UsualHour(tally=tally(500, 500), days=6)
    assert judge(facts(hour=hour, week=week)).success.level is Level.OK
    known = usual(hour, UsualHour(tally=tally(500, 500), days=1), facts())
    assert known is not None
    assert not known.weekly, "one day may have been odd"


def test_failures_wait_until_the_hour_has_been_read() -> None:
    hour = figures(lambda ago: tally(10, 20) if ago < 2 else None, complete=False)
    report = judge(facts(hour=hour))
    assert report.success.level is Level.UNKNOWN
    assert results(report.success)["failures"] is Result.UNKNOWN


def test_nobody_works() -> None:
    report = judge(
        late(leader=None, running=jobs(), waiting={"mail": waiting(400, taken=5 * MINUTE)})
    )
    assert (report.level, report.cause) == (Level.CRITICAL, Cause.NOBODY_WORKS)
    assert report.headline == (
        "No client works. 400 jobs wait, the oldest for 4 m 0 s, usually 1.0 s."
    )
    assert found(report) == {"served"}
    assert report.success.level is Level.OK


def test_one_job_waits() -> None:
    rows = [queue(name, available=1, waits=40 * MINUTE) for name in ("mail", "reports", "hooks")]
    other = jobs(*running(kind="import", queue="imports"))
    for count, others in ((1, ""), (2, "reports waits too."), (3, "reports and hooks wait too.")):
        waits = {row.queue.name: waiting(1, {"a": (1, 0), "b": (0, 0)}, taken=None) for row in rows}
        flow = judge(facts(queues=rows[:count], running=other, waiting=waits)).flow
        assert flow.headline == "1 job waits, the oldest for 40 m 0 s."
        assert flow.detail == others


def test_nobody_works_one_queue() -> None:
    other = running(queue="hooks", kind="hook")
    report = judge(late(running=jobs(*other), waiting={"mail": waiting(400, taken=None)}))
    assert (report.level, report.cause) == (Level.WARN, Cause.NOBODY_WORKS)
    assert report.flow.label == "Nobody works queue mail."
    assert report.flow.culprit is not None
    assert (report.flow.culprit.name, report.flow.culprit.share) == ("mail", 1.0)
    assert report.flow.action is not None
    assert (report.flow.action.page, report.flow.action.name) == ("queue", "mail")
    assert found(report) == {"served"}


def test_who_works_a_late_queue_may_be_unknown() -> None:
    report = judge(late(running=jobs(), waiting={"mail": UNREAD}))
    assert results(report.flow)["served"] is Result.UNKNOWN
    assert report.level is Level.WARN


def test_a_client_that_is_gone() -> None:
    own = running(5, client="gone", age=12 * MINUTE)
    report = judge(facts(running=jobs(*running(3), *own)))
    assert (report.level, report.cause) == (Level.WARN, Cause.LOST_CLIENT)
    assert report.flow.headline == (
        "gone has taken no job for 12 m 0 s and still holds 5 jobs: mail_send."
    )
    assert report.flow.culprit is not None
    assert report.flow.culprit.what == "client"
    assert found(report) == {"clients"}


@pytest.mark.parametrize(
    ("own", "result"),
    [
        (running(5, client="busy", age=4 * MINUTE), Result.PASSED),
        ([*running(1, client="busy", age=HOUR), *running(1, client="busy")], Result.PASSED),
        (running(5, client=CLIENT, age=HOUR), Result.PASSED),
        (running(5, client="busy", age=HOUR, kind="rare"), Result.UNKNOWN),
    ],
    ids=["not for long", "took another", "leads", "nobody knows how long such jobs run"],
)
def test_a_client_that_may_live(own: list[RunningJob], result: Result) -> None:
    report = judge(facts(running=jobs(*own)))
    assert results(report.flow)["clients"] is result
    assert report.level is Level.OK


def test_a_client_whose_jobs_take_long() -> None:
    pairs = {("mail", "mail_send"): tally(20, run=20 * MINUTE)}
    own = running(5, client="busy", age=HOUR)
    assert judge(facts(running=jobs(*own), hour=figures(pairs=pairs))).level is Level.OK


def reporting(silent: timedelta, *, lost: bool = False) -> ReportingClient:
    return ReportingClient(seen_at=NOW - silent, lost=lost, slots={"mail": (8, 8)})


def test_slots_are_told_where_clients_tell_them() -> None:
    clients = {"a": reporting(SECOND), "b": reporting(SECOND), "c": reporting(HOUR, lost=True)}
    report = judge(late(reporting=clients))
    assert "8 jobs running (16 of 16 slots of the clients that tell theirs)" in report.headline


def test_a_client_that_reports_itself() -> None:
    own = jobs(*running(2, client="slow", age=HOUR))
    alive = judge(facts(running=own, reporting={"slow": reporting(20 * SECOND)}))
    assert alive.level is Level.OK
    silent = judge(facts(running=own, reporting={"slow": reporting(70 * SECOND, lost=True)}))
    assert silent.cause is Cause.LOST_CLIENT
    assert "slow has been silent for 1 m 10 s" in silent.flow.headline


def test_the_only_client_of_a_queue_is_gone() -> None:
    own = running(5, client="gone", age=12 * MINUTE)
    report = judge(late(running=jobs(*own), waiting={"mail": waiting(400, taken=12 * MINUTE)}))
    assert (report.level, report.cause) == (Level.CRITICAL, Cause.LOST_CLIENT)
    assert found(report) == {"clients"}


def test_paused_queues() -> None:
    held = queue(available=34, waits=30 * MINUTE, paused=38 * MINUTE)
    one = judge(facts(queues=[held, queue("hooks")]))
    assert (one.level, one.cause) == (Level.WARN, Cause.PAUSED)
    assert one.headline == (
        "Queue mail is paused. 34 jobs wait there, the oldest for 30 m 0 s; paused for 38 m 0 s."
    )
    every = judge(facts(queues=[held, queue("hooks", paused=MINUTE)]))
    assert every.level is Level.CRITICAL
    assert every.flow.label == "All 2 queues are paused."
    idle = judge(facts(queues=[queue(paused=HOUR)]))
    assert (idle.level, results(idle.flow)["paused"]) == (Level.OK, Result.PASSED)


@pytest.mark.parametrize(
    ("overdue", "leads", "level"),
    [
        (None, False, Level.OK),
        (59 * SECOND, False, Level.OK),
        (60 * SECOND, False, Level.CRITICAL),
        (60 * SECOND, True, Level.WARN),
        (10 * MINUTE, True, Level.CRITICAL),
    ],
)
def test_leaderless(overdue: timedelta | None, leads: bool, level: Level) -> None:
    late_jobs = OverdueJobs(
        jobs=0 if overdue is None else 1_000,
        cap=1_000,
        oldest_at=None if overdue is None else NOW - overdue,
    )
    given = {"overdue": late_jobs} | ({} if leads else {"leader": None})
    report = judge(facts(**given))
    assert report.level is level
    if level is not Level.OK:
        assert report.cause is Cause.LEADERLESS
        assert report.flow.headline.startswith("At least 1,000 jobs due to be tried")
        assert found(report) == {"leader"}


def open_since(span: timedelta, client: str = "psql") -> OpenTransaction:
    return OpenTransaction(pid=7, client=client, state="idle in transaction", since=NOW - span)


@pytest.mark.parametrize(
    ("span", "level"),
    [(9.9 * MINUTE, Level.OK), (10 * MINUTE, Level.WARN), (HOUR, Level.CRITICAL)],
)
def test_a_long_transaction(span: timedelta, level: Level) -> None:
    state = database(oldest=open_since(span), dead_rows=1_200_000)
    report = judge(facts(database=state))
    assert report.level is level
    if level is not Level.OK:
        assert report.cause is Cause.LONG_TRANSACTION
        assert "process 7 (psql), idle in transaction has been open for" in report.flow.headline
        assert "1,200,000 dead rows" in report.flow.headline
        assert found(report) == {"transactions"}


def test_sessions_that_may_not_be_seen_are_not_ruled_out() -> None:
    report = judge(facts(database=database(hidden=3)))
    assert results(report.flow)["transactions"] is Result.UNKNOWN
    assert results(report.flow)["locks"] is Result.UNKNOWN
    assert report.level is Level.OK


def test_locked_tables() -> None:
    state = database(
        blocked=3, blocked_since=NOW - 3 * MINUTE, blocker=open_since(4 * MINUTE, "migrate")
    )
    report = judge(late(database=state))
    assert (report.level, report.cause) == (Level.CRITICAL, Cause.BLOCKED)
    assert report.flow.headline.startswith("3 statements wait for a lock, the first for 3 m 0 s;")
    assert "(migrate)" in report.flow.headline


@pytest.mark.parametrize(
    ("full", "level"),
    [(0.49, Level.OK), (0.5, Level.WARN), (0.9, Level.CRITICAL)],
)
def test_notifications_that_pile_up(full: float, level: Level) -> None:
    report = judge(facts(database=database(notifications=full)))
    assert report.level is level
    assert (report.cause is Cause.NOTIFICATIONS) is (level is not Level.OK)


def test_a_retry_storm() -> None:
    storm = waiting(4_000, {"hook": (250, 240), "mail_send": (50, 0)})
    report = judge(late(waiting={"mail": storm}))
    assert (report.level, report.cause) == (Level.WARN, Cause.RETRY_STORM)
    assert "240 of the 300 jobs that come next have been tried before" in report.flow.headline
    assert report.flow.culprit is not None
    assert report.flow.culprit.name == "hook"
    assert found(report) == {"retries"}
    assert report.flow.checks[-1].name == "retries", "the rest is what they bring about"


def test_a_flood_of_one_kind() -> None:
    flood = waiting(4_000, {"hook": (290, 0), "mail_send": (10, 0)})
    kinds = {"hook": figures(lambda _: tally(2))}
    report = judge(late(waiting={"mail": flood}, kind_hours=kinds))
    assert (report.level, report.cause) == (Level.WARN, Cause.FLOOD)
    assert report.flow.label == "hook floods queue mail."
    assert "It owns 97 % of what waits: 3,899 came in 15 min, usually 30." in report.flow.headline
    assert found(report) == {"flood"}


def test_a_kind_that_never_came_before_may_flood_too() -> None:
    flood = waiting(4_000, {"hook": (300, 0)})
    kinds = {"hook": figures(lambda ago: tally(5) if ago < 3 else Tally())}
    assert judge(late(waiting={"mail": flood}, kind_hours=kinds)).cause is Cause.FLOOD


def test_a_kind_that_got_slow() -> None:
    def minute(ago: int) -> Tally:
        return tally(2, run=30 * SECOND) if ago < 10 else tally(10)

    kinds = {"mail_send": figures(minute)}
    backlog = waiting(80, {"mail_send": (80, 0)})
    report = judge(late(waiting={"mail": backlog}, kind_hours=kinds))
    assert (report.level, report.cause) == (Level.WARN, Cause.SLOW_KIND)
    assert report.flow.headline.startswith(
        "It runs 30.0 s (median), usually 1.0 s, and holds 8 of 8 jobs that run in"
    )
    assert found(report) == {"slow"}
    assert results(report.flow)["flood"] is Result.PASSED, "no more come than usual"


def test_a_kind_that_hangs_before_any_run_ends() -> None:
    kinds = {"mail_send": figures(lambda ago: tally(10) if ago > 5 else Tally())}
    hung = jobs(*running(8, age=4 * MINUTE))
    backlog = waiting(60, {"mail_send": (60, 0)})
    report = judge(late(running=hung, waiting={"mail": backlog}, kind_hours=kinds))
    assert report.cause is Cause.SLOW_KIND


def test_clients_that_are_all_busy() -> None:
    report = judge(late())
    assert (report.level, report.cause) == (Level.WARN, Cause.LIMITS)
    assert report.headline.startswith(
        "Queue mail is behind. Its oldest job has waited 4 m 0 s, usually 1.0 s: more comes than"
    )
    assert report.flow.culprit is None
    assert found(report) == {"limits"}
    ruled_out = {check.name for check in report.flow.ruled_out}
    assert ruled_out >= {"served", "clients", "paused", "leader", "retries", "flood"}


@pytest.mark.parametrize(("own", "named"), [(149, False), (150, True)])
def test_a_culprit_owns_at_least_half(own: int, named: bool) -> None:
    kinds = {"a": (own, own), "b": (300 - own, 0)}
    report = judge(late(waiting={"mail": waiting(300, kinds)}))
    assert (report.cause is Cause.RETRY_STORM) is named
    three = {"a": (149, 149), "b": (75, 75), "c": (76, 76)}
    storm = judge(late(waiting={"mail": waiting(300, three)}))
    assert storm.cause is Cause.RETRY_STORM
    assert storm.flow.culprit is None
    for section in (*report.sections, *storm.sections):
        assert section.culprit is None or section.culprit.share >= 0.5


def failing(ago: int) -> Tally:
    """Return a kind that has failed in a third of its attempts for 8 minutes."""
    return tally(20, 10) if ago < 8 else tally(30)


def failures(**fields: Any) -> HealthFacts:
    given = {
        "hour": figures(failing),
        "kind_hours": {"mail_send": figures(failing), "hook": figures()},
    } | fields
    return facts(**given)


def test_failures_rise() -> None:
    error = ErrorSample(kind="mail_send", error="ConnectionResetError: upstream closed\nat x")
    report = judge(failures(errors=[error] * 12))
    assert (report.level, report.cause) == (Level.CRITICAL, Cause.FAILURES)
    assert report.headline == (
        "mail_send is failing. 17 % of its attempts failed in the last 15 min, usually 0 %,"
        " since 08:53."
    )
    assert report.success.detail == (
        "ConnectionResetError: upstream closed (12 of the newest 12 failures)"
    )
    assert report.flow.level is Level.OK
    assert found(report) == {"failures"}
    assert report.success.action is not None
    assert (report.success.action.state, report.success.action.kind) == ("retryable", "mail_send")


@pytest.mark.parametrize(
    ("before", "named"),
    [(-2.1, False), (-1.5, True), (0, True), (9, True), (11, False)],
)
def test_failures_since_a_deploy(before: float, named: bool) -> None:
    began = NOW.replace(second=0) - 7 * MINUTE
    mark = Mark(at=began - before * MINUTE, label="v1.4.2")
    report = judge(failures(marks=[mark]))
    assert (report.cause is Cause.DEPLOY) is named
    assert ("since 08:53 (deploy v1.4.2)." in report.headline) is named
    assert judge(failures(marks=UNREAD)).cause is Cause.FAILURES


def test_when_failures_began_is_told_beyond_single_minutes() -> None:
    def minute(ago: int) -> Tally:
        if ago == 0:
            return tally(3)
        return tally(20, 10) if ago < 8 else tally(26, 4 if ago in (10, 20) else 0)

    report = judge(failures(kind_hours={"mail_send": figures(minute)}))
    assert "since 08:53." in report.headline
    always = judge(failures(kind_hours={"mail_send": figures(lambda _: tally(10, 20))}))
    assert "since" not in always.headline


def test_failures_that_no_kind_owns() -> None:
    kinds = {name: figures(failing) for name in ("a", "b", "c")}
    report = judge(failures(kind_hours=kinds))
    assert report.cause is Cause.FAILURES
    assert report.success.label == "Failures rise."
    assert report.success.culprit is None


def test_a_poison_job() -> None:
    lost = [
        LostJob(id=42, queue="mail", kind="parse", rescues=3, attempted_at=NOW - 10 * MINUTE),
        LostJob(id=43, queue="mail", kind="parse", rescues=1, attempted_at=NOW),
        LostJob(id=44, queue="mail", kind="old", rescues=9, attempted_at=NOW - 7 * HOUR),
    ]
    report = judge(facts(lost=LostJobs(jobs=lost, whole=False)))
    assert (report.level, report.cause) == (Level.WARN, Cause.POISON_JOB)
    assert "Job 42 (parse) was lost with its worker 3 times" in report.headline
    assert report.success.action is not None
    assert (report.success.action.page, report.success.action.name) == ("job", "42")
    assert found(report) == {"poison"}


def test_what_was_looked_at_in_part_is_not_ruled_out() -> None:
    full = RunningJobs(jobs=running(3), cap=3)
    report = judge(facts(running=full))
    assert results(report.flow)["clients"] is Result.UNKNOWN
    report = judge(facts(lost=LostJobs(jobs=(), whole=False)))
    assert results(report.success)["poison"] is Result.UNKNOWN
    report = judge(facts(queues=[queue(f"q{n}") for n in range(3)], queue_limit=3))
    assert results(report.flow)["paused"] is results(report.flow)["served"] is Result.UNKNOWN
    elsewhere = RunningJobs(jobs=running(3, queue="a"), cap=3)
    hidden = judge(late(running=elsewhere, waiting={"mail": waiting(400, taken=HOUR)}))
    assert hidden.cause is not Cause.NOBODY_WORKS, "its running jobs were not read"


def test_a_late_queue_that_could_not_be_looked_into() -> None:
    report = judge(late(waiting={"mail": UNREAD}))
    assert (report.level, report.cause) == (Level.WARN, Cause.LATE)
    assert report.flow.headline.endswith("why could not be read.")
    assert found(report) == {"waits"}


def test_a_kind_that_nobody_works() -> None:
    def orphans(**kind: Any) -> HealthFacts:
        found = waiting(400, {"orphan": (2, 0), "mail_send": (298, 0)})
        orphan = replace(found.kinds["orphan"], since=NOW - 9 * MINUTE, **kind)
        return late(waiting={"mail": replace(found, kinds={**found.kinds, "orphan": orphan})})

    report = judge(orphans(overtaken=5))
    assert (report.level, report.cause) == (Level.WARN, Cause.UNKNOWN_KIND)
    assert report.headline.startswith("Nobody works orphan. At least 2 jobs of it wait in queue")
    assert found(report) == {"kinds"}
    assert report.flow.culprit is None, "it owns less than half of what waits"
    # A lock or a limit makes clients pass over single jobs.
    for spared in (orphans(overtaken=4), replace(orphans(overtaken=9), running=jobs(*held()))):
        assert judge(spared).cause is not Cause.UNKNOWN_KIND
    # Whether the kind that waits most is worked is told only where it was seen.
    few = waiting(2, {"orphan": (2, 0)})
    report = judge(late(waiting={"mail": few}))
    assert results(report.flow)["kinds"] is Result.UNKNOWN
    report = judge(late(waiting={"mail": few}, running=jobs(*held())))
    assert results(report.flow)["kinds"] is Result.PASSED


def held() -> list[RunningJob]:
    """Return the jobs of a queue that run, one of them of a kind that waits."""
    return [*running(7), *running(1, kind="orphan")]


def test_a_kind_that_clients_report_or_do_not() -> None:
    def judged(*kinds: frozenset[str] | None, **fields: Any) -> HealthReport:
        clients = {
            f"c{n}": replace(reporting(SECOND), kinds=reported) for n, reported in enumerate(kinds)
        }
        asked = waiting(3, {"orphan": (3, 0)}, client="c0")
        mine = jobs(*running(8, client="c0"))
        given = {"waiting": {"mail": asked}, "reporting": clients, "running": mine} | fields
        return judge(late(**given))

    other, own = frozenset({"mail_send"}), frozenset({"orphan"})
    assert judged(other).cause is Cause.UNKNOWN_KIND
    assert judged(other, other).cause is Cause.UNKNOWN_KIND
    assert judged(other, own).cause is not Cause.UNKNOWN_KIND
    assert judged(other, None).cause is not Cause.UNKNOWN_KIND
    assert judged().cause is not Cause.UNKNOWN_KIND
    # Go's clients report nothing.
    assert judged(other, running=jobs(*running(8))).cause is not Cause.UNKNOWN_KIND


def test_the_worst_is_told_first() -> None:
    held = queue("hooks", available=3, waits=30 * MINUTE, paused=HOUR)
    report = judge(late(queues=[held, queue(available=4_000, waits=HOUR, running=8)]))
    assert (report.level, report.cause) == (Level.CRITICAL, Cause.LIMITS)
    assert found(report) == {"paused", "limits"}
    assert report.flow.detail == "Besides: Queue hooks is paused."


def test_names_are_bounded() -> None:
    huge = "\u202e" + "x" * 5_000
    reports = [
        judge(failures(kind_hours={huge: figures(failing)}, marks=[Mark(at=NOW, label=huge)])),
        judge(late(queues=[queue(huge, available=9, waits=HOUR, paused=HOUR)])),
        judge(facts(running=jobs(*running(5, client=huge, age=HOUR)))),
        judge(facts(database=database(oldest=open_since(HOUR, huge)))),
        judge(
            late(
                waiting={"mail": waiting(300, {huge: (300, 0)})},
                kind_hours={huge: figures(lambda _: tally(1))},
            )
        ),
        judge(failures(errors=[ErrorSample(kind="mail_send", error=huge)])),
    ]
    for report in reports:
        assert report.level.badness >= Level.WARN.badness
        for section in report.sections:
            assert max(map(len, (section.label, section.headline, section.detail))) < 600
            assert section.culprit is None or len(section.culprit.name) <= 200
            for check in section.checks:
                assert len(check.evidence) < 600


def test_shares_in_words() -> None:
    assert [percent(share) for share in (0, 0.004, 0.0999, 0.31, 1)] == [
        *("0 %", "0.4 %", "10.0 %", "31 %", "100 %")
    ]
