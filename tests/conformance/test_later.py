"""Scenarios of later commits of River's suite than the list that the other modules follow. River
has no names for these in a list; each is told by what it asserts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from tests.conformance.sides import Job, Pair, Side, to_microseconds, until

pytestmark = [pytest.mark.interop]

_CANCELLED = "JobCancelError: job cancelled remotely"
_UNIQUE_BUT_RETRYABLE = {
    "by_args": True,
    "by_state": ["available", "pending", "running", "scheduled"],
}


def test_retry_of_jobs_that_have_ended(pair: Pair) -> None:
    """One more attempt is allowed when all were used."""
    for worker, other in pair.directions:
        pair.reset()
        worker.start()
        for behavior, attempts, state, then in (
            ("error", 1, "discarded", 2),
            ("cancel", 3, "cancelled", 3),
        ):
            job = worker.insert(behavior, behavior, max_attempts=attempts)
            ended = worker.reaches(job["id"])
            assert (ended["state"], ended["attempt"]) == (state, 1)
            worker.call("stop")
            retried = other.call("retry", id=job["id"])
            assert to_microseconds(worker.get(job["id"])) == to_microseconds(retried)
            assert (retried["state"], retried["attempt"]) == ("available", 1)
            assert (retried["max_attempts"], retried["finalized_at"]) == (then, None)
            assert len(retried["errors"]) == 1
            at = datetime.fromisoformat(retried["scheduled_at"])
            assert at > datetime.fromisoformat(ended["finalized_at"])
            worker.call("delete", id=job["id"])
            worker.start()
        worker.call("stop")


def test_a_skipped_duplicate_keeps_its_kind(pair: Pair) -> None:
    """Unique without the kind: the job that is there already may have another one."""
    for first, second in pair.directions:
        pair.reset()
        opts: dict[str, Any] = {"unique": {"by_args": True, "exclude_kind": True}}
        there = first.insert("same", **opts)
        pair.execute("update river_job set kind = 'another' where id = %s", there["id"])
        there = first.get(there["id"])
        assert there["kind"] == "another"
        assert second.insert("same", **opts) == there
        many = second.call("insert_many", jobs=[{"message": "same", "opts": opts}])
        (result,) = many["results"]
        assert result == {"job": there, "unique_skipped_as_duplicate": True}
        assert first.list() == [there]


def test_due_retries_of_unique_jobs(pair: Pair) -> None:
    """The leader discards those whose key another job holds, and all but the first of those that
    share one.
    """

    def outcome(leader: Side) -> Sequence[Any]:
        pair.reset()
        jobs: dict[str, Job] = {}
        for name, message in (
            ("conflict", "conflict"),
            ("first", "duplicate"),
            ("second", "duplicate"),
            ("plain", "plain"),
        ):
            unique: dict[str, Any] = {} if name == "plain" else {"unique": _UNIQUE_BUT_RETRYABLE}
            jobs[name] = pair.go.insert(message, queue="not_worked", **unique)
            pair.execute(
                "update river_job set state = 'retryable', attempt = 1 where id = %s",
                jobs[name]["id"],
            )
        holder = pair.go.insert("conflict", queue="not_worked", unique=_UNIQUE_BUT_RETRYABLE)
        assert len({holder["id"], *(job["id"] for job in jobs.values())}) == 5
        leader.start()
        found = {
            name: leader.reaches(job["id"], "available", "discarded") for name, job in jobs.items()
        }
        leader.call("stop")
        assert leader.get(holder["id"])["state"] == "available"
        return [
            (
                name,
                job["state"],
                job["attempt"],
                bool(job["finalized_at"]),
                job["metadata"].get("unique_key_conflict"),
            )
            for name, job in found.items()
        ]

    expected = outcome(pair.go)
    assert [state for _, state, *_ in expected] == [
        "discarded",
        "available",
        "discarded",
        "available",
    ]
    assert outcome(pair.ours) == expected


def test_a_job_keeps_the_last_hundred_clients(pair: Pair) -> None:
    for worker, retrier in pair.directions:
        pair.reset()
        clients = [f"earlier-{number:03}" for number in range(98)]
        job = retrier.insert("history", "error", max_attempts=200)
        pair.execute(
            "update river_job set attempt = 98, attempted_by = %s where id = %s",
            clients,
            job["id"],
        )
        for number in range(3):
            clients.append(f"client-{number}")
            worker.start(clients[-1], retry_delay_ms=60_000)
            assert worker.reaches(job["id"], "retryable")["attempt"] == 99 + number
            worker.call("stop")
            if number < 2:
                retrier.call("retry", id=job["id"])
        for side in pair:
            assert side.get(job["id"])["attempted_by"] == clients[-100:]


def test_the_loser_of_a_race_returns_the_winners_row(pair: Pair) -> None:
    """Its statement waits for the winner's transaction, and changes nothing afterwards."""
    for winner, loser in pair.directions:
        pair.reset()
        job = winner.insert("race", scheduled_at="2099-01-01T00:00:00Z")
        for method in ("cancel", "retry"):
            winner.call("tx_begin", handle=method)
            won = winner.call(f"tx_{method}", handle=method, id=job["id"])
            loser.begin(method, id=job["id"])

            def waits() -> object:
                return pair.value(
                    "select count(*) from pg_stat_activity"
                    " where application_name = %s and wait_event_type = 'Lock'",
                    loser.application,  # noqa: B023
                )

            until(waits, f"{loser} waits")
            winner.call("tx_commit", handle=method)
            assert loser.finish() == won, (loser, method)
            assert winner.get(job["id"]) == won


def test_a_client_that_only_polls_notices_a_cancellation(pair: Pair) -> None:
    for worker, controller in pair.directions:
        pair.reset()
        worker.start("polls", fetch_poll_interval_ms=100, max_workers=1, poll_only=True)
        job = worker.reaches(controller.insert("polled")["id"])
        assert (job["state"], job["attempted_by"]) == ("completed", ["polls"])
        job = controller.insert("deaf", "cooperative_cancel")
        worker.reaches(job["id"], "running")
        controller.call("cancel", id=job["id"])
        job = worker.reaches(job["id"], within=6)
        assert job["state"] == "cancelled"
        assert [error["error"] for error in job["errors"]] == [_CANCELLED]
        worker.call("stop")
