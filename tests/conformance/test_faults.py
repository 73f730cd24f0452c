"""Scenarios of faults, with River's names: lost connections, killed processes, odd rows."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from tests.conformance.sides import Job, Pair, Side, until
from tests.storage.tcp_proxy import TcpProxy

pytestmark = pytest.mark.interop

_POLLS_SELDOM = 60_000
"""Milliseconds: only a notification wakes the worker."""
_RESCUED = "Stuck job rescued by JobRescuer"


def _wakes(worker: Side, inserter: Side) -> None:
    """Assert that an insert wakes the worker, at the latest when it listens again."""

    def woken() -> bool:
        job = inserter.insert("wakes")
        until_ = time.monotonic() + 0.5
        while time.monotonic() < until_:
            if worker.get(job["id"])["state"] == "completed":
                return True
        return False

    until(woken, "a notification")


def _end_connections(pair: Pair, side: Side, where: str = "true") -> int:
    return int(
        pair.value(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            f" where application_name = %s and {where}",
            side.application,
        )
    )


def test_listener_backend_disconnect_reconnect(pair: Pair) -> None:
    for worker, inserter in pair.directions:
        worker.start(fetch_poll_interval_ms=_POLLS_SELDOM, max_workers=1)
        _wakes(worker, inserter)
        for where in ("query ilike 'listen %%'", "true"):
            assert _end_connections(pair, worker, where) >= 1
            _wakes(worker, inserter)
        worker.call("stop")


def test_multi_engine_fault_recovery(pair: Pair) -> None:
    """All connections of all sides end at once, among them a second process of ours."""
    sides = [*pair, pair.another(pair.ours)]
    for side in sides:
        side.start(f"client-{side.application}", queue=side.application.replace("-", "_"))
    for side in sides:
        assert _end_connections(pair, side) >= 1
    for side in sides:
        job = pair.go.insert("after the fault", queue=side.application.replace("-", "_"))
        assert pair.go.reaches(job["id"])["attempted_by"] == [f"client-{side.application}"]


def test_multi_engine_resource_bound(pair: Pair) -> None:
    sides = [*pair, pair.another(pair.ours)]
    for side in sides:
        side.start(f"client-{side.application}", max_workers=50)
        side.call("insert_many", jobs=[{"behavior": "sleep", "duration_ms": 5}] * 300)
    most = {side.application: 0 for side in sides}

    def done() -> bool:
        for application in most:
            count = pair.value(
                "select count(*) from pg_stat_activity where application_name = %s", application
            )
            most[application] = max(most[application], count)
        return bool(pair.value("select count(*) = 0 from river_job where state <> 'completed'"))

    until(done, "900 completed jobs")
    assert max(most.values()) <= 20


async def test_database_unavailable_reconnect(pair: Pair) -> None:
    """A job that ends while its worker has no database is completed afterwards, and once."""
    for kind, other in pair.directions:
        await asyncio.to_thread(pair.reset)
        down, refused = False, 0

        def let_in() -> bool:
            nonlocal refused
            refused += down  # noqa: B023
            return not down  # noqa: B023

        proxy = TcpProxy(pair.url, let_in=let_in)
        await proxy.open()
        side = pair.another(kind, proxy.url)
        job = await asyncio.to_thread(_in_outage, side, other)
        down = True
        await proxy.shut()
        await proxy.open()
        await asyncio.to_thread(side.call, "barrier_release", name="outage")
        during = await asyncio.to_thread(other.insert, "inserted during the outage")
        await asyncio.to_thread(until, lambda: refused >= 3, "attempts to connect")  # noqa: B023
        down = False
        for job_id in (job["id"], during["id"]):
            done = await asyncio.to_thread(other.reaches, job_id)
            assert (done["state"], done["attempt"], done["errors"]) == ("completed", 1, [])
        await asyncio.to_thread(side.close)
        await proxy.shut()


def _in_outage(side: Side, other: Side) -> Job:
    """Return a job that is running when the outage begins."""
    side.start()
    side.call("barrier_create", name="outage")
    return other.reaches(other.insert("outage", "barrier_wait")["id"], "running")


def test_completion_transient_failure_retry(pair: Pair) -> None:
    for side in pair:
        pair.execute("create sequence fault")
        pair.execute(
            "create function fail_once() returns trigger language plpgsql as $$ begin"
            " if old.state = 'running' and new.state = 'completed' and nextval('fault') = 1 then"
            " raise exception 'injected' using errcode = '40001'; end if; return new; end $$"
        )
        pair.execute(
            "create trigger fail_once before update on river_job"
            " for each row execute function fail_once()"
        )
        try:
            side.start()
            job = side.reaches(side.insert("completed at the second try")["id"])
            assert (job["state"], job["attempt"], job["errors"]) == ("completed", 1, [])
            assert pair.value("select last_value from fault") >= 2
            side.call("stop")
        finally:
            pair.execute("drop function fail_once cascade")
            pair.execute("drop sequence fault")


def test_completion_row_lock_wait(pair: Pair) -> None:
    for side in pair:
        side.start()
        side.call("barrier_create", name="lock")
        job = side.insert("lock", "barrier_wait")
        side.reaches(job["id"], "running")
        with psycopg.connect(pair.url) as locker:
            locker.execute("select from river_job where id = %s for update", [job["id"]])
            side.call("barrier_release", name="lock")
            until(
                lambda: pair.value(
                    "select count(*) from pg_stat_activity where application_name = %s"
                    " and wait_event_type = 'Lock'",
                    side.application,  # noqa: B023
                ),
                "the completion's wait",
            )
        done = side.reaches(job["id"])
        assert (done["state"], done["attempt"]) == ("completed", 1)
        side.call("stop")


def _stopped_hard(pair: Pair, side: Side) -> dict[str, Job]:
    """Return jobs by behavior, of which one was cancelled unnoticed, after a hard stop."""
    side.start(max_workers=4)
    jobs = {
        name: side.insert(name, "cooperative_cancel" if name == "cancelled_before" else name)
        for name in ("cooperative_cancel", "cancelled_before", "cancel_error", "cancel_panic")
    }
    for job in jobs.values():
        side.reaches(job["id"], "running")
    pair.execute(
        "update river_job set metadata = metadata ||"
        ' \'{"cancel_attempted_at": "2026-01-02T03:04:05Z"}\' where id = %s',
        jobs["cancelled_before"]["id"],
    )
    side.call("stop", cancel=True)
    return {name: side.get(job["id"]) for name, job in jobs.items()}


def test_hard_shutdown_soft_stop_classification(pair: Pair) -> None:
    for side in pair:
        pair.reset()
        jobs = _stopped_hard(pair, side)
        job = jobs["cooperative_cancel"]
        assert (job["state"], job["attempt"], job["errors"]) == ("available", 0, [])
        assert job["attempted_at"]
        for name in ("cancel_error", "cancel_panic"):
            job = jobs[name]
            assert job["state"] in ("available", "retryable"), (side, name)
            assert (job["attempt"], len(job["errors"])) == (1, 1), (side, name)


def test_shutdown_after_cancel_attempt(pair: Pair) -> None:
    for side in pair:
        pair.reset()
        job = _stopped_hard(pair, side)["cancelled_before"]
        assert job["state"] == "cancelled", side
        assert job["finalized_at"]


def test_claimed_row_decode_isolation(pair: Pair) -> None:
    odd = (
        'array[\'{"at": "2024-01-02 03:04:05+00", "attempt": "1", "error": {"message": "boom"},'
        ' "trace": ["frame"]}\'::jsonb, \'42\'::jsonb]'
    )
    sparse = 'array[\'{"error": "sparse", "extra": true}\'::jsonb]'
    for side in pair:
        pair.reset()
        plain, sparse_errors, odd_errors, array = (
            side.insert(name)["id"] for name in ("plain", "sparse", "odd", "array metadata")
        )
        pair.execute(f"update river_job set errors = {sparse} where id = %s", sparse_errors)
        pair.execute(f"update river_job set errors = {odd} where id = %s", odd_errors)
        pair.execute("update river_job set metadata = '[1]' where id = %s", array)
        side.start(retry_delay_ms=3_600_000)
        for job_id in (plain, sparse_errors, odd_errors, array):
            until(
                lambda: (
                    pair.value("select state from river_job where id = %s", job_id)  # noqa: B023
                    == "completed"
                ),
                f"job {job_id}",
            )
        assert pair.value(f"select errors = {odd} from river_job where id = %s", odd_errors)
        assert pair.value("select metadata::text from river_job where id = %s", array) == "[1]"
        assert side.stats(lambda seen: len(seen["events"]) == 4)["events"] == ["job_completed"] * 4
        side.call("stop")


def test_ignored_cancellation_hard_abort(pair: Pair) -> None:
    """A coroutine that ignores its cancellation cannot be ended. Unlike in the scenario, its job
    stays running after the stop, as it may still do something, and is rescued later.
    """
    stuck = pair.another(pair.ours)
    stuck.start("stuck", max_workers=1)
    job = stuck.insert("deaf", "ignored_cancel")
    stuck.reaches(job["id"], "running")
    stuck.call("stop", cancel=True)
    assert pair.go.get(job["id"])["state"] == "running"
    stuck.kill()
    _expire_leader(pair)
    pair.execute("update river_job set attempted_at = now() - interval '2 hours'")
    pair.ours.start("rescuer", queue="another")
    rescued = pair.go.reaches(job["id"], "available", "retryable")
    assert [error["error"] for error in rescued["errors"]] == [_RESCUED]


def _expire_leader(pair: Pair) -> None:
    pair.execute("update river_leader set expires_at = now() - interval '1 second'")


def _kill_then_rescue(pair: Pair, crashing: Side, recovery: Side) -> None:
    queue = "process_kill"
    killed = pair.another(crashing)
    killed.start("killed", max_workers=1, queue=queue)
    job = recovery.call(
        "insert", behavior="sleep", duration_ms=1_000, opts={"queue": queue, "max_attempts": 25}
    )
    job = recovery.reaches(job["id"], "running")
    killed.kill()
    _expire_leader(pair)
    # Instead of waiting until it counts as stuck.
    pair.execute("update river_job set attempted_at = attempted_at - interval '2 seconds'")
    recovery.start(
        "rescuer", job_timeout_ms=1_500, max_workers=1, queue=queue, rescue_after_ms=1_500
    )
    assert pair.leader_but("killed")["leader_id"] == "rescuer"
    job = recovery.reaches(job["id"])
    assert (job["state"], job["attempt"]) == ("completed", 2)
    assert job["attempted_by"] == ["killed", "rescuer"]
    assert [error["error"] for error in job["errors"]] == [_RESCUED]
    assert job["metadata"]["river:rescue_count"] == 1


def test_candidate_process_kill_reference_rescue(pair: Pair) -> None:
    _kill_then_rescue(pair, pair.ours, pair.go)


def test_reference_process_kill_candidate_rescue(pair: Pair) -> None:
    _kill_then_rescue(pair, pair.go, pair.ours)


def test_process_kill_restart_and_rescue(pair: Pair) -> None:
    _kill_then_rescue(pair, pair.ours, pair.another(pair.ours))


def test_multi_engine_process_kill_rescue_failover(pair: Pair) -> None:
    """Between two processes of ours, in both directions."""
    for first, second in (
        (pair.ours, pair.another(pair.ours)),
        (pair.another(pair.ours), pair.ours),
    ):
        _kill_then_rescue(pair, first, second)
        second.call("stop")
        pair.reset()


def test_mixed_leader_death_failover_both_directions(pair: Pair) -> None:
    def periodic() -> int:
        return int(
            pair.value(
                "select count(*) from river_job"
                " where metadata ->> 'river:periodic_job_id' = 'conformance-periodic'"
            )
        )

    told = {"instrumented": True, "max_workers": 1, "periodic_run_on_start": True}
    for kind, follower in pair.directions:
        pair.reset()
        leader = pair.another(kind)
        leader.start("dying", **told)
        assert pair.leader_but()["leader_id"] == "dying"
        until(lambda: periodic() == 1, "the leader's periodic job")
        follower.start("surviving", **told)
        follower.reaches(follower.insert("follower works")["id"])
        assert follower.call("runtime_stats")["periodic_starts"] == 0
        leader.kill()
        _expire_leader(pair)
        assert pair.leader_but("dying")["leader_id"] == "surviving"
        until(lambda: periodic() == 2, "the follower's periodic job")
        follower.reaches(follower.insert("after takeover")["id"])
        assert periodic() == 2
        follower.call("stop")


def test_rolling_deployment_same_protocol(pair: Pair) -> None:
    running = {side: pair.another(side) for side in pair}
    ids: list[int] = []

    def insert() -> None:
        for side in list(running.values()) * 10:
            job = side.call("insert", behavior="sleep", duration_ms=20)
            ids.append(job["id"])

    for side, process in running.items():
        process.start(f"{side.name}-0", max_workers=4)
    insert()
    for side in pair:
        running[side].call("stop")
        insert()
        running[side] = pair.another(side)
        running[side].start(f"{side.name}-1", max_workers=4)
        insert()
    until(
        lambda: pair.value("select count(*) from river_job where state = 'completed'") == len(ids),
        "every job",
    )
    rows = pair.execute("select attempt, attempted_by, errors from river_job")
    assert {(row["attempt"], len(row["attempted_by"]), row["errors"]) for row in rows} == {
        (1, 1, None)
    }
    workers = {row["attempted_by"][0] for row in rows}
    assert {"go-1", "python-1"} <= workers
    assert pair.leader_but()["leader_id"] in ("go-1", "python-1")
