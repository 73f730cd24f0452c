"""Scenarios of both sides at work, with River's names: notifications, cancellation, leaders."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from tests.conformance.sides import Listening, Pair, Side, until

pytestmark = pytest.mark.interop

_POLLS_SELDOM = 60_000
"""Milliseconds: only a notification wakes the worker."""
_PERIODIC = "conformance-periodic"


def _periodic(pair: Pair, job_id: str = _PERIODIC) -> Sequence[int]:
    jobs = pair.go.list(limit=1_000)
    return [job["id"] for job in jobs if job["metadata"].get("river:periodic_job_id") == job_id]


def test_notification_only_wakeups(pair: Pair) -> None:
    for worker, inserter in pair.directions:
        worker.start(fetch_poll_interval_ms=_POLLS_SELDOM, max_workers=1)
        job = inserter.insert("wakes")
        worker.reaches(job["id"], "completed", within=5)
        worker.call("stop")


def test_lost_notification_poll_recovery(pair: Pair) -> None:
    for side in pair:
        client = side.start(fetch_poll_interval_ms=250, max_workers=1)
        job = pair.ours.call("raw_insert_no_notify", message="polled")
        assert side.reaches(job["id"])["attempted_by"] == [client]
        side.call("stop")


def test_transactional_insert_notification_commit_only(
    pair: Pair, listen: Callable[..., Listening]
) -> None:
    for worker, inserter in pair.directions:
        # A queue each: of several inserts within the cooldown only the first notifies.
        worker.start(fetch_poll_interval_ms=_POLLS_SELDOM, max_workers=2, queue="committed")
        inserts = listen("river_insert")
        job = {"opts": {"queue": "rolled_back"}}
        inserter.call("tx_begin", handle="h")
        inserter.call("tx_insert_many", handle="h", jobs=[job, job])
        inserter.call("tx_rollback", handle="h")
        assert inserts.heard() == []
        job = {"opts": {"queue": "committed"}}
        inserter.call("tx_begin", handle="h")
        results = inserter.call("tx_insert_many", handle="h", jobs=[job, job])["results"]
        assert worker.list() == []
        inserter.call("tx_commit", handle="h")
        for result in results:
            worker.reaches(result["job"]["id"], "completed", within=5)
        assert [json.loads(payload) for _, payload in inserts.heard()] == [{"queue": "committed"}]
        worker.call("stop")
        pair.reset()


def test_pause_resume_notification(pair: Pair) -> None:
    for worker, controller in pair.directions:
        worker.start(instrumented=True, max_workers=1)
        worker.call("queue_add", name="marker", max_workers=1)
        controller.call("queue_pause", name="default")
        worker.stats(lambda seen: "queue_paused" in seen["events"])
        job = controller.insert("while paused")
        marker = controller.insert("not paused", queue="marker")
        assert worker.reaches(marker["id"])["state"] == "completed"
        assert worker.get(job["id"])["state"] == "available", worker
        controller.call("queue_resume", name="default")
        resumed = controller.call("queue_get", name="default")
        assert resumed["paused_at"] is None
        job = worker.reaches(job["id"])
        began, at = map(datetime.fromisoformat, (job["attempted_at"], resumed["updated_at"]))
        assert began >= at
        worker.stats(lambda seen: "queue_resumed" in seen["events"])
        worker.call("stop")


def test_remote_queue_subscription_events(pair: Pair) -> None:
    for observer, controller in pair.directions:
        observer.start(fetch_poll_interval_ms=_POLLS_SELDOM, instrumented=True, max_workers=1)
        observer.reaches(controller.insert("warm up")["id"], "completed")
        for paused, resumed, *methods in (
            (1, 0, "queue_pause"),
            (1, 1, "queue_pause", "queue_resume"),
            (2, 1, "queue_resume", "queue_pause"),
            (2, 2, "queue_resume"),
        ):
            for method in methods:
                controller.call(method, name="*")

            def counts(seen: dict[str, list[str]]) -> tuple[int, int]:
                events = seen["events"]
                return events.count("queue_paused"), events.count("queue_resumed")

            wanted = (paused, resumed)
            observer.stats(lambda seen: counts(seen) == wanted)  # noqa: B023
        observer.call("stop")


def test_remote_cancel_notification(pair: Pair) -> None:
    for worker, controller in pair.directions:
        worker.start(fetch_poll_interval_ms=_POLLS_SELDOM, max_workers=1)
        job = controller.insert("cancelled", "cooperative_cancel")
        worker.reaches(job["id"], "running")
        asked = controller.call("cancel", id=job["id"])
        assert asked["state"] == "running"
        at = asked["metadata"]["cancel_attempted_at"]
        assert datetime.fromisoformat(at)
        job = worker.reaches(job["id"], "cancelled", within=5)
        assert job["metadata"]["cancel_attempted_at"] == at
        worker.call("stop")


def test_cooperative_remote_cancellation(pair: Pair) -> None:
    for worker, controller in pair.directions:
        worker.start(instrumented=True, max_workers=1)
        job = controller.insert("cancelled", "cooperative_cancel")
        worker.reaches(job["id"], "running")
        controller.call("cancel", id=job["id"])
        job = worker.reaches(job["id"], "cancelled")
        assert job["attempt"] == 1
        assert job["finalized_at"]
        assert [error["error"] for error in job["errors"]] == [
            "JobCancelError: job cancelled remotely"
        ]
        seen = worker.stats(lambda seen: "job_cancelled" in seen["events"])
        assert "job_failed" not in seen["events"]
        worker.call("stop")


def test_claim_time_cancellation(pair: Pair) -> None:
    for claimer, canceller in pair.directions:
        claimer.call("barrier_create", name="claim")
        client = claimer.start(claim_barrier="claim", instrumented=True, max_workers=1)
        claimer.call("queue_add", name="other", max_workers=1)
        job = canceller.insert("cancelled", "cooperative_cancel")
        job = canceller.reaches(job["id"], "running")
        assert job["attempted_by"] == [client]
        assert canceller.call("cancel", id=job["id"])["state"] == "running"
        # Notifications arrive in order, and this one has an event.
        canceller.call("queue_pause", name="other")
        claimer.stats(lambda seen: "queue_paused" in seen["events"])
        claimer.call("barrier_release", name="claim")
        job = canceller.reaches(job["id"])
        assert (job["state"], job["attempt"]) == ("cancelled", 1)
        assert [error["error"] for error in job["errors"]] == [
            "JobCancelError: job cancelled remotely"
        ]
        claimer.stats(lambda seen: seen["cancelled_at_start"] == 1)
        claimer.call("stop")
        pair.reset()


def test_refetched_attempt_cancellation(pair: Pair) -> None:
    for worker, canceller in pair.directions:
        worker.start(max_workers=1)
        job = canceller.call("insert", behavior="snooze_then_cancel", duration_ms=1)

        def refetched() -> bool:
            found = worker.get(job["id"])  # noqa: B023
            return found["state"] == "running" and "snoozes" in found["metadata"]

        until(refetched, "the second attempt")
        canceller.call("cancel", id=job["id"])
        assert worker.reaches(job["id"])["state"] == "cancelled"
        worker.call("stop")


def published(
    pair: Pair, side: Side, listen: Callable[..., Any]
) -> dict[str, list[tuple[str, str]]]:
    """Return the notifications of each operation of a side, by topic."""
    pair.reset()
    channels = listen("river_control", "river_insert", "river_leadership")
    done: dict[str, list[tuple[str, str]]] = {}

    def note(operation: str) -> None:
        done[operation] = [
            (topic, re.sub(r'"job_id":\d+', '"job_id":0', payload))
            for topic, payload in channels.heard()
        ]

    job = side.insert("bytes", queue="notification_bytes")
    note("insert")
    side.call("cancel", id=job["id"])
    note("cancel")
    side.call("retry", id=job["id"])
    note("retry")
    side.start("notification-bytes", max_workers=1)
    term = pair.leader_but()
    note("start")
    side.call("request_resign")
    pair.leader_but(term["elected_at"])
    note("request_resign")
    side.call("queue_update", name="default", metadata={"alpha": 1, "zeta": "<&>"})
    note("queue_update")
    side.call("queue_pause", name="default")
    note("queue_pause")
    side.call("queue_resume", name="default")
    note("queue_resume")
    side.call("stop")
    note("stop")
    return done


def test_notification_payload_bytes(pair: Pair, listen: Callable[..., Listening]) -> None:
    expected = published(pair, pair.go, listen)
    assert len(expected["insert"]) == 1
    assert published(pair, pair.ours, listen) == expected


def test_periodic_run_on_start(pair: Pair) -> None:
    for side in pair:
        pair.reset()
        side.start(instrumented=True, max_workers=1, periodic_run_on_start=True)
        until(lambda: _periodic(pair), "the periodic job")
        (job_id,) = _periodic(pair)
        job = side.reaches(job_id)
        assert (job["state"], job["metadata"]["periodic"]) == ("completed", True)
        assert side.stats(lambda seen: seen["periodic_starts"])["periodic_starts"] == 1
        assert len(_periodic(pair)) == 1
        side.call("stop")


def test_periodic_unique_cross_engine(pair: Pair) -> None:
    for sides in pair.directions:
        pair.reset()
        for number, side in enumerate(sides, start=1):
            side.start(
                instrumented=True, max_workers=1, periodic_run_on_start=True, periodic_unique=True
            )
            # The marker comes after the unique one.
            until(
                lambda: len(_periodic(pair, f"{_PERIODIC}-marker")) == number,  # noqa: B023
                "the marker",
            )
            (job_id,) = _periodic(pair)
            assert side.reaches(job_id)["state"] == "completed"
            side.call("stop")


def test_mixed_request_resign_terms(pair: Pair, listen: Callable[..., Listening]) -> None:
    for leader, requester in pair.directions:
        pair.reset()
        client = leader.start(max_workers=1)
        first = pair.leader_but()
        assert first["leader_id"] == client
        requester.call("request_resign")
        second = pair.leader_but(first["elected_at"])
        leadership = listen("river_leadership")
        requester.call("tx_begin", handle="h")
        requester.call("request_resign", handle="h")
        requester.call("tx_rollback", handle="h")
        assert leadership.heard() == []
        assert pair.leader_but()["elected_at"] == second["elected_at"]
        requester.call("tx_begin", handle="h")
        requester.call("request_resign", handle="h")
        requester.call("tx_commit", handle="h")
        pair.leader_but(first["elected_at"], second["elected_at"])
        requests = [payload for _, payload in leadership.heard() if "request_resign" in payload]
        assert len(requests) == 1
        leader.call("stop")


def test_mixed_leader_failover_both_directions(pair: Pair) -> None:
    ids = [side.start(max_workers=2) for side in pair]
    terms = [pair.leader_but()["elected_at"]]
    for side in pair:
        side.call("request_resign")
        terms.append(pair.leader_but(*terms)["elected_at"])
    last = pair.leader_but()["leader_id"]
    leader, follower = (pair.go, pair.ours) if last == ids[0] else (pair.ours, pair.go)
    leader.call("stop")
    assert pair.leader_but(last)["leader_id"] == f"{follower.name}-client"
    leader.start(max_workers=2)
    follower.call("stop")
    assert pair.leader_but(f"{follower.name}-client")["leader_id"] == last


def test_multi_engine_leader_failover(pair: Pair) -> None:
    """The same with a second process of ours."""
    third = pair.another(pair.ours)
    third.start("third-client")
    sides = {"third-client": third, **{side.start(): side for side in pair}}
    left: list[str] = []
    while sides:
        leader = pair.leader_but(*left)["leader_id"]
        sides.pop(leader).call("stop")
        left.append(leader)
    assert sorted(left) == ["go-client", "python-client", "third-client"]


def test_leader_election_disabled_both_directions(pair: Pair) -> None:
    for disabled, eligible in pair.directions:
        pair.reset()
        disabled.refuses(
            "rejected",
            "start",
            client_id="both",
            leader_election_disabled=True,
            periodic_run_on_start=True,
        )
        without = disabled.start(
            "without-election", instrumented=True, leader_election_disabled=True, max_workers=1
        )
        assert disabled.reaches(eligible.insert("before")["id"])["attempted_by"] == [without]
        assert pair.leader() is None
        leader = eligible.start(
            "eligible", instrumented=True, periodic_run_on_start=True, queue="of_eligible"
        )
        assert pair.leader_but()["leader_id"] == leader
        until(lambda: _periodic(pair), "the periodic job")
        assert disabled.reaches(_periodic(pair)[0])["attempted_by"] == [without]
        assert disabled.call("runtime_stats")["periodic_starts"] == 0
        eligible.call("stop")
        assert disabled.reaches(eligible.insert("after")["id"])["attempted_by"] == [without]
        assert pair.leader() is None
        disabled.call("stop")


def test_multi_engine_leader_election_disabled(pair: Pair) -> None:
    """The same with a second process of ours."""
    third = pair.another(pair.ours)
    for side in (pair.ours, third):
        side.start(f"no-{side.application}", leader_election_disabled=True)
    assert pair.go.start() == pair.leader_but()["leader_id"]
    pair.go.call("stop")
    job = pair.go.insert("worked without a leader")
    assert pair.go.reaches(job["id"])["attempted_by"][0].startswith("no-")
    assert pair.leader() is None


def test_mixed_skip_locked_competition(pair: Pair) -> None:
    _compete(pair, [*pair])


def test_multi_engine_competition(pair: Pair) -> None:
    """The same with a second process of ours."""
    _compete(pair, [*pair, pair.another(pair.ours)])


def _compete(pair: Pair, sides: Sequence[Side]) -> None:
    clients = {side.start(f"competitor-{side.application}", max_workers=8) for side in sides}
    for side in sides:
        side.call("insert_many", jobs=[{"behavior": "sleep", "duration_ms": 5}] * 150)
    whole = 150 * len(sides)
    until(
        lambda: pair.value("select count(*) from river_job where state = 'completed'") == whole,
        f"{whole} completed jobs",
    )
    rows = pair.execute("select attempt, attempted_by, errors from river_job")
    assert {(row["attempt"], len(row["attempted_by"]), row["errors"]) for row in rows} == {
        (1, 1, None)
    }
    assert {row["attempted_by"][0] for row in rows} == clients


def test_multi_engine_job_list_cursor_interchange(pair: Pair) -> None:
    sides = [*pair, pair.another(pair.ours)]
    ids = [side.insert("listed")["id"] for side in sides * 2]
    for first, second in itertools.permutations(sides, 2):
        page = first.call("list", limit=3)
        assert second.call("list", limit=3) == page
        assert [job["id"] for job in second.list(after=page["cursor"])] == ids[3:]


def test_multi_engine_directed_candidate_work_notification_cancellation(pair: Pair) -> None:
    """Between two processes of ours, as between two runtimes that are not Go's."""
    third = pair.another(pair.ours)
    for worker, controller in ((pair.ours, third), (third, pair.ours)):
        worker.start(f"worker-{worker.application}", fetch_poll_interval_ms=_POLLS_SELDOM)
        job = controller.insert("wakes")
        worker.reaches(job["id"], "completed", within=5)
        # The controller's next notification within the cooldown would be dropped, as in River.
        job = worker.insert("cancelled", "cooperative_cancel")
        worker.reaches(job["id"], "running")
        controller.call("cancel", id=job["id"])
        worker.reaches(job["id"], "cancelled", within=5)
        worker.call("stop")
