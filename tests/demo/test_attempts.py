"""What River makes of a demo job's attempt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from riverui.demo.attempts import PastAttempt, Plan, begin
from riverui.demo.failures import Failure
from riverui.demo.payloads import Line
from riverui.demo.shop import BY_NAME, KINDS, QUEUES
from riverui.domain.jobs import JobState

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FAILING = Plan(seconds=1.5, lines=(), failure=Failure(error="it broke", trace="main.go:7"))


def attempt(plan: Plan, **changes: object) -> PastAttempt:
    made = PastAttempt(
        kind=BY_NAME["webhook_delivery"],
        plan=plan,
        number=1,
        max_attempts=3,
        errors=0,
        snoozes=0,
        logs=[],
        started_at=NOW,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_failed_attempt_waits_by_the_fourth_power_of_failures() -> None:
    row = attempt(FAILING, number=2, errors=1).outcome(NOW, Random(1))
    assert row["state"] is JobState.RETRYABLE
    assert isinstance(row["scheduled_at"], datetime)
    assert timedelta(seconds=14) < row["scheduled_at"] - NOW < timedelta(seconds=18)
    assert row["error"] == {"at": NOW, "attempt": 2, "error": "it broke", "trace": "main.go:7"}


def test_a_short_wait_leaves_the_job_available() -> None:
    row = attempt(FAILING).outcome(NOW, Random(1))
    assert row["state"] is JobState.AVAILABLE
    assert isinstance(row["scheduled_at"], datetime)
    assert row["scheduled_at"] > NOW


def test_the_last_attempt_discards() -> None:
    assert (
        attempt(FAILING, number=3, errors=2).outcome(NOW, Random(1))["state"] is JobState.DISCARDED
    )


def test_a_snooze_gives_the_attempt_back() -> None:
    row = attempt(Plan(seconds=1, lines=(), snooze=timedelta(seconds=45)), snoozes=1).outcome(
        NOW, Random(1)
    )
    assert row["state"] is JobState.SCHEDULED
    assert row["attempt"] == 0
    assert row["scheduled_at"] == NOW + timedelta(seconds=45)
    assert row["metadata"] == {"snoozes": 2}
    assert row["error"] is None


def test_a_log_grows_while_the_job_runs() -> None:
    lines: tuple[tuple[float, Line], ...] = (
        (0.0, ("INFO", "one", {})),
        (4.0, ("INFO", "two", {"of": 2})),
    )
    running = attempt(Plan(seconds=10, lines=lines))
    assert running.logs_at(NOW + timedelta(seconds=3)) == [
        {"attempt": 1, "log": "time=2026-11-21T12:00:00.000Z level=INFO msg=one\n"}
    ]
    (entry,) = running.logs_at(NOW + timedelta(seconds=4))
    assert isinstance(entry, dict)
    assert entry["log"].splitlines()[1] == "time=2026-11-21T12:00:04.000Z level=INFO msg=two of=2"


def test_python_s_log_lines_look_like_those_that_riverui_keeps() -> None:
    plan = Plan(seconds=1, lines=((0.0, ("WARN", "slow", {"file": "a b"})),))
    (entry,) = attempt(plan, kind=BY_NAME["image_resize"]).logs_at(NOW)
    assert isinstance(entry, dict)
    assert entry["log"] == '2026-11-21T12:00:00.000Z WARNING shop.image_resize: slow file="a b"\n'


def test_a_log_keeps_what_earlier_attempts_wrote() -> None:
    earlier = {"attempt": 1, "log": "before\n"}
    plan = Plan(seconds=1, lines=((0.0, ("INFO", "x", {})),))
    again = attempt(plan, number=2, logs=[earlier])
    assert again.logs_at(NOW)[0] == earlier
    assert len(again.logs_at(NOW)) == 2


def test_the_same_job_meets_the_same_fate() -> None:
    kind = BY_NAME["payment_capture"]
    args = kind.args(Random(3))
    one, other = (
        begin(
            kind,
            args=args,
            metadata={"trace_id": "t"},
            number=1,
            max_attempts=5,
            errors=0,
            started_at=NOW,
        )
        for _ in range(2)
    )
    assert one == other


def test_each_kind_can_be_worked_whatever_its_args() -> None:
    for kind in KINDS:
        assert any(queue.name == kind.queue for queue in QUEUES)
        for number in range(1, 30):
            made = begin(
                kind,
                args={},
                metadata={"trace_id": f"{number}"},
                number=number,
                max_attempts=99,
                errors=0,
                started_at=NOW,
            )
            assert made.outcome(made.ends_at, Random(number))["state"]
