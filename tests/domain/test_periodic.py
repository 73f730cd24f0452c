"""How often something comes, and what did not come, as far as its jobs tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import JobState
from riverui.domain.periodic import PeriodicHistories, PeriodicHistory, PeriodicRun

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def history(minutes_ago: Sequence[float], *, attempt: int = 1) -> PeriodicHistory:
    """Return jobs that were due so long ago, the newest first."""
    runs = [
        PeriodicRun(
            id=number,
            state=JobState.COMPLETED,
            scheduled_at=NOW - timedelta(minutes=ago),
            attempted_at=NOW - timedelta(minutes=ago) + timedelta(seconds=2),
            finalized_at=NOW - timedelta(minutes=ago) + timedelta(seconds=5),
            attempt=attempt,
        )
        for number, ago in enumerate(minutes_ago)
    ]
    return PeriodicHistory(id="it", kind="kind", queue="default", runs=runs, jobs=len(runs))


def test_what_comes_every_ten_minutes() -> None:
    seen = history([3, 13, 23, 33.1, 43])
    assert seen.usual == timedelta(minutes=10)
    assert seen.steady
    assert seen.expected_at == NOW + timedelta(minutes=7)
    assert seen.overdue(NOW) is None
    assert seen.overdue(NOW + timedelta(minutes=23)) == timedelta(minutes=26)
    assert seen.missed == 0


def test_gaps_are_missed_jobs() -> None:
    assert history([0, 10, 20, 50, 60, 70]).missed == 2
    # One that was late is none.
    assert history([0, 10, 20, 42, 50, 60]).missed == 0


def test_a_changed_schedule_is_followed() -> None:
    old = [100 + 60.0 * n for n in range(20)]
    assert history([*map(float, range(21)), *old]).usual == timedelta(minutes=1)


def test_too_few_tell_nothing() -> None:
    for minutes in ([5], [5, 15]):
        seen = history(minutes)
        assert seen.usual is None
        assert seen.expected_at is None
        assert seen.overdue(NOW + timedelta(days=9)) is None
        assert seen.missed == 0


def test_a_calendars_schedule_is_not_foretold() -> None:
    # Working hours: two in the morning, a long night.
    seen = history([0, 60, 1440, 1500, 4320, 4380, 10_000])
    assert not seen.steady
    assert seen.expected_at is None
    assert seen.overdue(NOW + timedelta(days=9)) is None


def test_jobs_that_are_tried_again_do_not_tell_when_they_were_due() -> None:
    assert history([0, 10, 20, 30], attempt=2).usual is None


def test_a_run() -> None:
    run = history([3]).runs[0]
    assert (run.waited, run.ran(NOW)) == (timedelta(seconds=2), timedelta(seconds=3))


def test_a_schedule_tells_the_next_time() -> None:
    seen = history([3, 13, 23])
    assert replace(seen, schedule="@every 10m").next_at(NOW) == NOW + timedelta(minutes=7)
    assert replace(seen, schedule="*/15 * * * *").next_at(NOW) == NOW + timedelta(minutes=15)
    assert replace(seen, schedule="@every 1m").next_at(NOW) is None
    for text in ("", "NeverSchedule()", "x" * 200):
        assert replace(seen, schedule=text).next_at(NOW) is None


def test_schedules_of_clients() -> None:
    found = PeriodicHistories(histories=[history([3])], complete=True)
    told = found.with_schedules({"it": "@every 1m", "new": "0 9 * * *"})
    assert told.histories[0].schedule == "@every 1m"
    assert told.coming == {"new": "0 9 * * *"}
