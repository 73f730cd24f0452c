"""When an operation stops by itself."""

from __future__ import annotations

from riverui.domain.jobs import JobOutcome, JobState
from riverui.features.operations.domain import REMEMBERED, WATCHED, Pace, Watch
from tests.cases import cases


def outcome(state: JobState | None, errors: int = 3) -> JobOutcome:
    return JobOutcome(state=state, errors=errors)


def test_what_becomes_of_jobs() -> None:
    watch = Watch().with_jobs({each: outcome(JobState.AVAILABLE) for each in range(1, 9)})
    watch = watch.with_outcomes(
        {
            1: outcome(JobState.COMPLETED),
            2: outcome(JobState.RETRYABLE, 4),
            3: outcome(JobState.DISCARDED, 4),
            4: outcome(JobState.COMPLETED, 4),
            5: outcome(JobState.RUNNING),
            6: outcome(JobState.CANCELLED),
            7: outcome(JobState.SCHEDULED),
        }
    )
    assert watch.outcomes == "+---"
    assert set(watch.pending) == {5, 7}
    assert Watch.read(watch.stored) == watch


def test_only_so_many_are_watched_and_remembered() -> None:
    watch = Watch(outcomes="-" * REMEMBERED)
    watch = watch.with_jobs({each: outcome(JobState.AVAILABLE) for each in range(WATCHED + 50)})
    assert len(watch.pending) == WATCHED
    watch = watch.with_outcomes({each: outcome(JobState.COMPLETED) for each in range(WATCHED)})
    assert watch.outcomes == "+" * REMEMBERED


def test_a_share_too_large_stops() -> None:
    with cases() as case:
        for outcomes, tried, stops in (
            ("", False, False),
            ("-" * 9, False, False),
            ("-" * 2 + "+" * 8, False, False),
            ("-" * 3 + "+" * 7, False, True),
            ("-" * 20 + "+" * 80, False, False),
            ("-" * 21 + "+" * 79, False, True),
            ("-", True, True),
            ("+", True, False),
        ):
            with case((outcomes, tried)):
                watch = Watch(outcomes=outcomes)
                assert bool(watch.reason_to_stop(Pace(stop_failing=20), tried=tried)) is stops
                assert watch.reason_to_stop(Pace(per_minute=5), tried=tried) == ""


def test_a_trial_waits_for_all_of_a_few() -> None:
    pace = Pace(canary=3)
    assert not Watch(outcomes="--", pending={7: 0}).reason_to_stop(pace, tried=True)
    assert Watch(outcomes="--+").reason_to_stop(pace, tried=True)


def test_what_was_asked_for_in_words() -> None:
    assert Pace().words == ""
    assert Pace(per_minute=1200, canary=10).words == (
        "10 jobs first, at most 1,200 a minute, stops if more than 20 % fail again"
    )
    assert Pace.read(Pace(canary=3, stop_failing=50).stored) == Pace(canary=3, stop_failing=50)
