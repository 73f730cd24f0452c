"""Scenarios of the profile `insert-only-v1`, with River's names: we insert, Go works."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.sides import Job, Listening, Pair, Side
from tests.conformance.test_storage import UNIQUE_OPTS

pytestmark = pytest.mark.interop

_METHODS = [
    "handshake",
    "insert",
    "insert_many",
    "tx_begin",
    "tx_commit",
    "tx_insert",
    "tx_insert_many",
    "tx_rollback",
    "unique_key",
]


def test_insert_only_profile_handshake(pair: Pair, inserter: Side) -> None:
    told = inserter.call("handshake")
    assert told["profile"] == "insert-only-v1"
    assert told["capabilities"] == ["insert", "lifecycle", "transactions", "unique_jobs"]
    assert told["methods"] == _METHODS
    for method in set(pair.ours.call("handshake")["methods"]) - set(_METHODS):
        inserter.refuses("method_not_found", method)
    inserter.refuses("invalid_params", "insert", message="unknown", unexpected=True)


def _comparable(job: Job) -> Job:
    left = {name: value for name, value in job.items() if name not in ("id", "created_at")}
    if job["state"] in ("available", "pending"):
        del left["scheduled_at"]
    return left


def test_insert_only_insert_reference_work(pair: Pair, inserter: Side) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0).isoformat()
    all_options: dict[str, Any] = {
        "max_attempts": 3,
        "metadata": {"source": "insert-only"},
        "priority": 2,
        "queue": "insert_only",
        "tags": ["insert_only"],
    }
    for opts in ({}, all_options, {"scheduled_at": later}, {"pending": True}):
        job = inserter.insert("compared", **opts)
        assert pair.go.get(job["id"]) == job
        assert _comparable(job) == _comparable(pair.go.insert("compared", **opts))
    job = inserter.insert("worked by Go")
    client = pair.go.start()
    assert pair.go.reaches(job["id"])["attempted_by"] == [client]


def test_insert_only_typed_batch(pair: Pair, inserter: Side) -> None:
    duplicate = {"message": "duplicate", "opts": {"unique": {"by_args": True}}}
    existing = pair.go.call("insert", **duplicate)
    jobs = [
        {"message": "first", "opts": {"metadata": {"at": 0}}},
        duplicate,
        {"message": "pending", "opts": {"pending": True}},
    ]
    first, second, third = inserter.call("insert_many", jobs=jobs)["results"]
    assert first["job"]["metadata"] == {"at": 0}
    assert second == {"job": existing, "unique_skipped_as_duplicate": True}
    assert third["job"]["state"] == "pending"
    for result in (first, second, third):
        assert pair.go.get(result["job"]["id"]) == result["job"]
    inserter.refuses("rejected", "insert_many", jobs=[])


def test_insert_only_unique_insert(pair: Pair, inserter: Side) -> None:
    """A scenario of a later commit."""
    for opts in UNIQUE_OPTS:
        pair.reset()
        job = inserter.insert("unique", **opts)
        assert pair.go.insert("unique", **opts) == job
        assert inserter.insert("unique", **opts) == job
        assert [found["id"] for found in pair.go.list()] == [job["id"]]


def test_insert_only_transactional_insert(
    pair: Pair, inserter: Side, listen: Callable[..., Listening]
) -> None:
    for end in ("rollback", "commit"):
        inserts = listen("river_insert")
        # A queue each: of several inserts within the cooldown only the first notifies.
        job = {"message": end, "opts": {"queue": end, "tags": [end]}}
        inserter.call("tx_begin", handle=end)
        one = inserter.call("tx_insert", handle=end, job=job)
        (two,) = inserter.call("tx_insert_many", handle=end, jobs=[job])["results"]
        assert pair.go.list(tags_all=[end]) == []
        inserter.call(f"tx_{end}", handle=end)
        committed = end == "commit"
        assert bool(inserts.heard()) is committed
        expected = [one["id"], two["job"]["id"]] if committed else []
        assert [found["id"] for found in pair.go.list(tags_all=[end])] == expected


def test_insert_only_insert_notification(pair: Pair, inserter: Side) -> None:
    pair.go.start(fetch_poll_interval_ms=60_000)
    job = inserter.insert("wakes")
    pair.go.reaches(job["id"], "completed", within=5)
