"""Scenarios of one worker at a time, with River's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.sides import Job, Pair, Side, to_microseconds, until

pytestmark = pytest.mark.interop

_RESERVED = {
    "cancel_attempted_at",
    "output",
    "river:periodic_job_id",
    "river:rescue_count",
    "river:resumable_cursor",
    "river:resumable_step",
    "river:unique_nonce",
    "snoozes",
}
"""Metadata keys that are River's own."""


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _followed(pair: Pair, side: Side, behavior: str, **opts: Any) -> Job:
    """Insert a job, and return it as both sides read it when it has ended."""
    job = to_microseconds(side.reaches(side.insert(behavior, behavior, **opts)["id"]))
    for reader in pair:
        assert to_microseconds(reader.get(job["id"])) == job
    return job


@pytest.mark.short
def test_reference_insert_candidate_work(pair: Pair) -> None:
    _insert_then_work(pair.go, pair.ours)


@pytest.mark.short
def test_candidate_insert_reference_work(pair: Pair) -> None:
    _insert_then_work(pair.ours, pair.go)


def _insert_then_work(inserter: Side, worker: Side) -> None:
    job = inserter.insert("to be worked")
    assert (job["state"], job["kind"], job["max_attempts"]) == ("available", "conformance_echo", 25)
    assert (job["attempt"], job["attempted_by"]) == (0, [])
    assert worker.get(job["id"]) == job
    client = worker.start()
    done = worker.reaches(job["id"])
    assert (done["state"], done["attempt"], done["attempted_by"]) == ("completed", 1, [client])
    assert done["attempted_at"]
    assert done["finalized_at"]
    assert inserter.get(job["id"]) == done


def test_barrier_wait_and_release(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=2)
        side.call("barrier_create", name="b")
        job = side.insert("b", "barrier_wait")
        running = side.reaches(job["id"], "running")
        assert running["attempt"] == 1
        side.call("barrier_release", name="b")
        done = side.reaches(job["id"])
        assert (done["state"], done["attempted_at"]) == ("completed", running["attempted_at"])
        side.call("stop")


@pytest.mark.short
def test_single_implementation_worker_outcomes(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=2)
        for behavior, opts, state, text in (
            ("cancel", {}, "cancelled", "JobCancelError: cancelled by conformance worker"),
            ("discard", {"max_attempts": 1}, "discarded", "conformance discard"),
            ("error", {"max_attempts": 1}, "discarded", "conformance retryable error"),
        ):
            job = _followed(pair, side, behavior, **opts)
            assert (job["state"], job["attempt"]) == (state, 1)
            assert job["finalized_at"]
            (error,) = job["errors"]
            assert (error["error"], error["attempt"]) == (text, 1)
        job = _followed(pair, side, "output")
        assert (job["state"], job["errors"]) == ("completed", [])
        assert job["metadata"]["output"] == {"message": "output"}
        side.call("stop")


def test_panic_attempt_trace(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=1)
        job = _followed(pair, side, "panic", max_attempts=1)
        assert (job["state"], job["attempt"]) == ("discarded", 1)
        (error,) = job["errors"]
        assert "conformance worker panic" in error["error"]
        assert error["trace"]
        side.call("stop")


@pytest.mark.short
def test_transactional_completion(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=1)
        job = _followed(pair, side, "transactional_complete")
        assert (job["state"], job["errors"]) == ("completed", [])
        assert job["metadata"]["transactional_completion"] is True
        side.call("stop")


@pytest.mark.short
def test_snooze_once_metadata_transition(pair: Pair) -> None:
    for side, observer in pair.directions:
        side.start(max_workers=1)
        short = side.call("insert", behavior="snooze_once", duration_ms=5)
        short = side.reaches(short["id"])
        assert (short["state"], short["attempt"], short["errors"]) == ("completed", 1, [])
        assert short["metadata"]["snoozes"] == 1
        # Longer than the scheduler's interval.
        long = side.call("insert", behavior="snooze_once", duration_ms=10_000)
        long = side.reaches(long["id"], "scheduled")
        assert (long["attempt"], long["errors"], long["finalized_at"]) == (0, [], None)
        assert long["metadata"]["snoozes"] == 1
        delay = (_at(long["scheduled_at"]) - _at(long["attempted_at"])).total_seconds()
        assert 9.9 <= delay < 12
        assert observer.get(long["id"]) == long
        side.call("stop")


def _in_order(trace: Sequence[str], *wanted: str) -> None:
    places = [trace.index(entry) for entry in wanted]
    assert places == sorted(places), trace


def test_extension_hook_middleware_order(pair: Pair) -> None:
    for side in pair:
        side.start(instrumented=True, max_workers=1)
        assert side.reaches(side.insert("traced")["id"])["state"] == "completed"
        trace = side.stats(lambda seen: "job_completed" in seen["events"])["trace"]
        _in_order(
            trace,
            "middleware:insert_before",
            "hook:insert_begin",
            "middleware:insert_after",
            "middleware:work_before",
            "hook:work_begin",
            "hook:work_end",
            "middleware:work_after",
        )
        side.call("stop")


def test_resumable_retry(pair: Pair) -> None:
    for side in pair:
        side.start(instrumented=True, max_workers=1, retry_delay_ms=5)
        job = _followed(pair, side, "resumable", max_attempts=2)
        assert (job["state"], job["attempt"], len(job["errors"])) == ("completed", 2, 1)
        assert job["metadata"]["river:resumable_step"] == "first"
        seen = side.stats(lambda seen: {"job_completed", "job_failed"} <= {*seen["events"]})
        assert (seen["resumable_first_runs"], seen["resumable_second_runs"]) == (1, 2)
        side.call("stop")


@pytest.mark.short
def test_resumable_validation(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=1)
        for behavior, metadata, step in (
            ("resumable_duplicate", {}, "first"),
            ("resumable_duplicate", {"river:resumable_step": "later"}, "later"),
            ("resumable", {"river:resumable_step": ""}, "first"),
            ("output", {"river:resumable_cursor": []}, None),
        ):
            job = _followed(pair, side, behavior, max_attempts=1, metadata=metadata)
            assert job["state"] == "discarded", (side, behavior, metadata)
            (error,) = job["errors"]
            assert job["metadata"].get("river:resumable_step") == step
            assert "output" not in job["metadata"]
            if "duplicate" in behavior:
                assert "duplicate resumable step" in error["error"]
        side.call("stop")


def test_resumable_cross_engine_cursor(pair: Pair) -> None:
    for first, second in pair.directions:
        job = first.call(
            "insert",
            behavior="resumable_cursor",
            opts={"max_attempts": 3, "metadata": {"application": "retained"}},
        )
        for attempt, worker in enumerate((first, second, first), start=1):
            worker.start(max_workers=1, retry_delay_ms=60_000)
            job = worker.reaches(job["id"], "completed" if attempt == 3 else "retryable")
            worker.call("stop")
            metadata = job["metadata"]
            assert job["attempt"] == attempt
            assert (metadata["application"], metadata["first_attempt"]) == ("retained", 1)
            if attempt == 1:
                assert metadata["river:resumable_step"] == "first"
                assert metadata["river:resumable_cursor"] == {"second": 7}
            else:
                assert metadata["river:resumable_step"] == "second"
                assert metadata.get("river:resumable_cursor") is None
                assert metadata["cursor_observed"] == 7
            if attempt < 3:
                second.call("retry", id=job["id"])
        assert len(job["errors"]) == 2


def test_multi_engine_resumable_cursor(pair: Pair) -> None:
    """The same between two processes of ours and Go's."""
    third = pair.another(pair.ours)
    job = third.call("insert", behavior="resumable_cursor", opts={"max_attempts": 3})
    for worker in (third, pair.go, pair.ours):
        worker.start(max_workers=1, retry_delay_ms=60_000)
        job = worker.reaches(job["id"], "completed", "retryable")
        worker.call("stop")
        if job["state"] == "retryable":
            pair.go.call("retry", id=job["id"])
    assert (job["state"], job["attempt"]) == ("completed", 3)
    assert job["metadata"]["cursor_observed"] == 7


def test_dynamic_queue_add_reconfigure_remove(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=1)
        side.call("queue_add", name="dynamic", max_workers=1)
        side.call("queue_add", name="dynamic", max_workers=2)
        side.call("barrier_create", name="both")
        ids = [side.insert("both", "barrier_wait", queue="dynamic")["id"] for _ in range(2)]
        for job_id in ids:
            side.reaches(job_id, "running")
        side.call("barrier_release", name="both")
        for job_id in ids:
            assert side.reaches(job_id)["state"] == "completed"
        side.call("queue_remove", name="dynamic")
        left = side.insert("removed queue", queue="dynamic")
        assert side.reaches(side.insert("marker")["id"])["state"] == "completed"
        assert side.get(left["id"])["state"] == "available"
        side.call("stop")


def test_error_handler_cancel_override(pair: Pair) -> None:
    for side in pair:
        side.start(error_handler_cancel=True, instrumented=True, max_workers=1)
        job = _followed(pair, side, "error", max_attempts=3)
        assert (job["state"], job["attempt"], len(job["errors"])) == ("cancelled", 1, 1)
        seen = side.stats(lambda seen: "job_cancelled" in seen["events"])
        assert seen["error_handler_calls"] == 1
        side.call("stop")


def test_timeout_cancellation(pair: Pair) -> None:
    for side in pair:
        side.start(job_timeout_ms=20, max_workers=1)
        job = _followed(pair, side, "cooperative_cancel", max_attempts=1)
        assert (job["state"], job["attempt"], len(job["errors"])) == ("discarded", 1, 1)
        took = _at(job["finalized_at"]) - _at(job["attempted_at"])
        assert took >= timedelta(milliseconds=20)
        side.call("stop")


@pytest.mark.short
def test_external_terminal_completion_race(pair: Pair) -> None:
    for worker, other in pair.directions:
        worker.start(instrumented=True, max_workers=1)
        for behavior, state in (
            ("barrier_output", "completed"),
            ("barrier_output", "discarded"),
            ("barrier_wait", "completed"),
        ):
            worker.call("barrier_create", name="race")
            job = other.insert("race", behavior)
            other.reaches(job["id"], "running")
            ended = pair.ours.call(
                "raw_finalize", id=job["id"], metadata={"external": state}, state=state
            )
            before = len(worker.call("runtime_stats")["events"])
            worker.call("barrier_release", name="race")
            worker.stats(lambda seen: len(seen["events"]) > before)  # noqa: B023
            kept = other.get(job["id"])
            for name in ("state", "finalized_at", "errors"):
                assert kept[name] == ended[name]
            expected = {"race": "worker"} if behavior == "barrier_output" else None
            assert kept["metadata"].get("output") == expected
            assert kept["metadata"]["external"] == state
        events = worker.call("runtime_stats")["events"]
        assert events == ["job_completed", "job_failed", "job_completed"]
        worker.call("stop")


def test_reserved_metadata_cross_engine(pair: Pair) -> None:
    for worker, controller in pair.directions:
        worker.start(max_workers=2)
        kept = {"metadata": {"user": "kept"}}
        output = controller.insert("reserved", "output", **kept)
        snoozed = controller.insert("reserved", "snooze_once", **kept)
        cancelled = controller.insert("reserved", "cooperative_cancel", **kept)
        controller.reaches(cancelled["id"], "running")
        controller.call("cancel", id=cancelled["id"])
        jobs = [controller.reaches(job["id"]) for job in (output, snoozed, cancelled)]
        assert [job["state"] for job in jobs] == ["completed", "completed", "cancelled"]
        for job in jobs:
            assert job["metadata"].pop("user") == "kept"
            assert {*job["metadata"]} <= _RESERVED
        assert jobs[0]["metadata"] == {"output": {"message": "reserved"}}
        assert jobs[1]["metadata"] == {"snoozes": 1}
        assert _at(jobs[2]["metadata"]["cancel_attempted_at"])
        worker.call("stop")


def test_completion_batching(pair: Pair) -> None:
    """A transaction that writes takes a number: one for each job would be a thousand."""
    most = 1_000
    for side in pair:
        pair.reset()
        side.start(fetch_poll_interval_ms=1_000, max_workers=most)
        side.call("barrier_create", name="all")
        side.call("insert_many", jobs=[{"behavior": "barrier_wait", "message": "all"}] * most)
        _count(pair, "running", most)
        next_number = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        before = pair.value(next_number)
        side.call("barrier_release", name="all")
        _count(pair, "completed", most)
        assert pair.value(next_number) - before < most / 4
        assert pair.value(
            "select count(*) from river_job where attempt = 1 and errors is null"
        ) == (most)
        side.call("stop")


def _count(pair: Pair, state: str, wanted: int) -> None:
    sql = "select count(*) from river_job where state = %s::river_job_state"
    until(lambda: pair.value(sql, state) == wanted, f"{wanted} {state} jobs")


def test_pool_pressure_completion(pair: Pair) -> None:
    for side in pair:
        side.start(max_workers=100)
    jobs = [{"behavior": "sleep", "duration_ms": 10}] * 300
    for side in pair:
        side.call("insert_many", jobs=jobs)
    peak: list[int] = []

    def done() -> bool:
        for side in pair:
            peak.append(
                pair.value(
                    "select count(*) from pg_stat_activity where application_name = %s",
                    side.application,
                )
            )
        return bool(pair.value("select count(*) = 600 from river_job where state = 'completed'"))

    until(done, "600 completed jobs")
    assert max(peak) <= 20
    assert pair.value("select count(*) from river_job where attempt = 1 and errors is null") == 600


def test_clock_boundary_scheduling(pair: Pair) -> None:
    for worker, inserter in pair.directions:
        worker.start(max_workers=2)
        at = datetime.now(UTC) + timedelta(seconds=1)
        job = inserter.insert("in the future", scheduled_at=at.isoformat())
        assert job["state"] == "scheduled"
        job = worker.reaches(job["id"])
        assert _at(job["attempted_at"]) >= _at(job["scheduled_at"])

        # Shorter than the scheduler's interval: the job stays available.
        job = inserter.call("insert", behavior="snooze_once", duration_ms=2_000)
        until(lambda: "snoozes" in inserter.get(job["id"])["metadata"], "the snooze")  # noqa: B023
        snoozed = inserter.get(job["id"])
        assert snoozed["state"] == "available"
        job = worker.reaches(job["id"])
        assert _at(job["attempted_at"]) >= _at(snoozed["scheduled_at"])
        worker.call("stop")


def test_default_retry_policy_schedule(pair: Pair) -> None:
    for worker, observer in pair.directions:
        worker.start(max_workers=1)
        job = observer.insert("retried", "error", max_attempts=5)
        job = observer.reaches(job["id"], "retryable")
        assert (job["attempt"], len(job["errors"])) == (2, 2)
        first = (_at(job["attempted_at"]) - _at(job["errors"][0]["at"])).total_seconds()
        second = (_at(job["scheduled_at"]) - _at(job["errors"][1]["at"])).total_seconds()
        # The fourth power of the errors in seconds, ± 10 %, and some time to write it.
        assert 0.9 - 0.25 <= first < 1.1 + 5
        assert 16 * 0.9 - 0.25 <= second <= 16 * 1.1 + 0.25
        worker.call("stop")


def test_stuck_job_detection(pair: Pair) -> None:
    for side in pair:
        stuck = pair.another(side)
        stuck.call(
            "start", client_id="stuck", job_stuck_threshold_ms=100, job_timeout_ms=50, max_workers=1
        )
        job = stuck.insert("deaf", "ignored_cancel")
        stuck.reaches(job["id"], "running")
        assert stuck.stats(lambda seen: seen["stuck_jobs"])["stuck_jobs"] == 1
        stuck.kill()


def test_mixed_unknown_kind_error(pair: Pair) -> None:
    text = "job kind is not registered in the client's Workers bundle: conformance_unregistered"
    for side in pair:
        raw: Callable[[int], int] = lambda most: pair.ours.call(  # noqa: E731
            "raw_insert_no_notify", kind="conformance_unregistered", opts={"max_attempts": most}
        )["id"]
        last, retried = raw(1), raw(5)
        client = side.start(max_workers=1)
        assert side.reaches(side.insert("known")["id"])["state"] == "completed"
        job = side.reaches(last, "discarded")
        assert (job["attempt"], job["attempted_by"]) == (1, [client])
        assert [error["error"] for error in job["errors"]] == [text]
        # After a second it is tried again, then in 16 s.
        job = side.reaches(retried, "retryable")
        assert (job["attempt"], job["attempted_by"]) == (2, [client, client])
        assert [error["error"] for error in job["errors"]] == [text, text]
        side.call("stop")
