"""Scenarios on one SQLite file, with River's names. Most are those of Postgres."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance import (
    test_later as later,
    test_storage as storage,
    test_together as together,
    test_values as values,
    test_work as work,
)
from tests.conformance.files import FilePair, Outbox
from tests.conformance.sides import Job, Side, until

pytestmark = pytest.mark.interop

_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")
"""How River stores times."""


def _outboxes(files: FilePair) -> Any:
    return lambda *topics: Outbox(files, *topics)


# Storage


@pytest.mark.short
def test_sqlite_batch_atomicity(files: FilePair) -> None:
    storage.test_typed_batch_insertion(files)
    storage.test_transactional_batch_insertion(files)


@pytest.mark.short
def test_sqlite_deterministic_retry_unique(files: FilePair) -> None:
    values.test_deterministic_retry_clock_rng(files)
    values.test_unique_hash_goldens(files)


@pytest.mark.short
def test_sqlite_insert_get_unique_cross_language(files: FilePair) -> None:
    for writer, observer in files.directions:
        files.reset()
        job = writer.insert("inserted", metadata={"writer": writer.name}, tags=["sqlite"])
        assert observer.get(job["id"]) == job
        assert job["errors"] == []
        for opts in storage.UNIQUE_OPTS:
            assert writer.insert("unique", **opts) == observer.insert("unique", **opts)


@pytest.mark.short
def test_sqlite_job_crud(files: FilePair) -> None:
    storage.test_differential_job_crud(files)
    storage.test_job_row_keeps_large_numbers(files)
    storage.test_bulk_delete_safety(files)
    storage.compare_filters(files, by_metadata=False)


def _stored(files: FilePair, side: Side, job: Job) -> dict[str, Any]:
    """Return a job as it is stored, its times as spans after its creation."""
    row = files.ours.call("raw_job_row", id=job["id"])
    times = ("attempted_at", "created_at", "finalized_at", "scheduled_at")
    for name in times:
        assert row[name] is None or _STAMP.fullmatch(row[name]), (side, name, row[name])
    read = {name: value for name, value in side.get(job["id"]).items() if name not in times}
    for error in read["errors"]:
        assert datetime.fromisoformat(error.pop("at"))
        # Only Go's panics have a trace, all of Python's exceptions.
        error.pop("trace")
    unset = {name: row[name] is None for name in times}
    kinds = {name: row[name] for name in ("unique_key_type", "unique_states_type")}
    return {**read, **kinds, "id": None, "unset": unset}


def _is_jsonb(files: FilePair, job: Job) -> list[str]:
    (row,) = files.execute(
        "select typeof(args) as args, typeof(metadata) as metadata, typeof(tags) as tags"
        " from river_job where id = %s",
        job["id"],
    )
    return [name for name, kind in row.items() if kind != "blob"]


@pytest.mark.short
def test_sqlite_job_row_bytes(files: FilePair) -> None:
    text = "a<b>&c\u2028d\u2029é"
    opts: dict[str, Any] = {
        "max_attempts": 7,
        "metadata": {"nested": {"zeta": text, "alpha": [1, "<&>", None]}, "number": 1.5},
        "priority": 2,
        "scheduled_at": "2031-02-03T04:05:06.789Z",
        "tags": ["job-rows", "tag_2"],
    }
    written = []
    for side in files:
        jobs = [side.insert(text), side.insert(text, **opts), side.insert(text, pending=True)]
        jobs.append(side.insert(text, **opts, unique={"by_args": True}))
        side.call("cancel", id=jobs[1]["id"])
        side.call("retry", id=jobs[1]["id"])
        written.append([_stored(files, side, job) for job in jobs])
        if side.name == "go" or sqlite3.sqlite_version_info >= (3, 45):
            assert [_is_jsonb(files, job) for job in jobs] == [[]] * 4
        files.execute("delete from river_job")
    assert written[0] == written[1]


@pytest.mark.long
def test_sqlite_migration_cross_language(files: FilePair) -> None:
    latest = files.go.call("migrate")["existing"]
    try:
        for first, second in files.directions:
            for version in latest:
                first.call("migrate", direction="down", target_version=-1)
                done = first.call("migrate", target_version=version)
                assert done["applied"] == done["existing"] == latest[:version]
                done = second.call("migrate")
                assert (done["applied"], done["valid"]) == (latest[version:], True)
                job = second.insert("on migrated tables")
                assert first.get(job["id"]) == job
                done = first.call("migrate", direction="down", target_version=version)
                assert done["existing"] == latest[:version]
                assert second.call("migrate")["applied"] == latest[version:]
                assert second.call("migrate", direction="down", target_version=-1)["existing"] == []
    finally:
        assert files.go.call("migrate")["existing"] == latest


@pytest.mark.short
def test_sqlite_timestamp_rounding_ordering(files: FilePair) -> None:
    stored = {
        "2026-01-02T03:04:05.1234Z": "2026-01-02 03:04:05.123",
        "2026-01-02T03:04:05.1238Z": "2026-01-02 03:04:05.124",
        "2026-01-02T03:04:05.0004999Z": "2026-01-02 03:04:05.000",
        "2026-01-02T03:04:05.0005Z": "2026-01-02 03:04:05.001",
        "2026-01-02T03:04:05.9995Z": "2026-01-02 03:04:06.000",
        "1969-12-31T23:59:59.9995Z": "1970-01-01 00:00:00.000",
        "1969-12-31T23:59:59.9975Z": "1969-12-31 23:59:59.998",
    }
    written = []
    for side in files:
        for at, text in stored.items():
            job = side.insert("at", scheduled_at=at, tags=["stamps"])
            assert files.ours.call("raw_job_row", id=job["id"])["scheduled_at"] == text, (side, at)
            for reader in files:
                assert reader.get(job["id"]) == job
            written.append((text, job["id"]))
    ids = [job_id for _, job_id in sorted(written)]
    for side in files:
        listed = side.list(order_by="scheduled_at", states=["scheduled"], tags_all=["stamps"])
        assert [job["id"] for job in listed] == ids


@pytest.mark.short
def test_sqlite_transactions(files: FilePair) -> None:
    storage.test_transaction_commit_visibility(files)
    storage.test_transaction_rollback_visibility(files)
    storage.test_transactional_cross_language_cancel(files)
    for actor, observer in files.directions:
        # Unlike on Postgres, the transaction goes on after a batch that was rejected.
        invalid = [{"message": "1", "opts": {"tags": ["invalid"]}}, {"opts": {"priority": 99}}]
        actor.call("tx_begin", handle="h")
        actor.refuses("rejected", "tx_insert_many", handle="h", jobs=invalid)
        actor.call("tx_commit", handle="h")
        assert observer.list(tags_all=["invalid"]) == []


@pytest.mark.short
def test_sqlite_unique_column_bytes(files: FilePair) -> None:
    storage.test_unique_column_bytes(files)


@pytest.mark.short
def test_sqlite_unsafe_int64_job_ids_rpc_list_cursors(files: FilePair) -> None:
    storage.test_unsafe_int64_job_ids_rpc_list_cursors(files)


# Work


def test_multi_engine_sqlite_candidate_pairs(files: FilePair) -> None:
    """Two processes of ours on the file, beside Go's."""
    third = files.another(files.ours)
    for inserter, worker in ((files.ours, third), (third, files.ours)):
        client = worker.start(f"worker-{worker.application}", fetch_poll_interval_ms=60_000)
        job = worker.reaches(inserter.insert("wakes")["id"])
        assert (job["state"], job["attempted_by"]) == ("completed", [client])
        # The inserter's next notification within the cooldown would be dropped, as in River.
        job = worker.insert("cancelled", "cooperative_cancel")
        worker.reaches(job["id"], "running")
        inserter.call("cancel", id=job["id"])
        assert files.go.reaches(job["id"])["state"] == "cancelled"
        worker.call("stop")


def test_sqlite_runtime_attempted_by_ordering(files: FilePair) -> None:
    later.test_a_job_keeps_the_last_hundred_clients(files)


def test_sqlite_runtime_claim_time_cancellation(files: FilePair) -> None:
    together.test_claim_time_cancellation(files)


def test_sqlite_runtime_competing_workers(files: FilePair) -> None:
    clients = {side.start(max_workers=2) for side in files}
    files.go.call("insert_many", jobs=[{"behavior": "sleep", "duration_ms": 20}] * 40)

    def completed() -> list[Job]:
        return files.ours.list(states=["completed"])

    until(lambda: len(completed()) == 40, "40 completed jobs")
    assert {(job["attempt"], len(job["attempted_by"])) for job in completed()} == {(1, 1)}
    assert {job["attempted_by"][0] for job in completed()} == clients


@pytest.mark.long
def test_sqlite_runtime_completion_under_writer_lock(files: FilePair) -> None:
    for worker in files:
        worker.start()
        worker.call("barrier_create", name="locked")
        job = worker.insert("locked", "barrier_wait")
        worker.reaches(job["id"], "running")
        files.execute("begin immediate")
        worker.call("barrier_release", name="locked")
        time.sleep(6)  # longer than either side waits for the lock
        files.execute("rollback")
        assert worker.reaches(job["id"])["state"] == "completed"
        worker.call("stop")


def test_sqlite_runtime_cross_language_work(files: FilePair) -> None:
    work.test_reference_insert_candidate_work(files)
    files.go.recover()
    files.ours.recover()
    work.test_candidate_insert_reference_work(files)


def test_sqlite_runtime_extensions_resumable_subscriptions(files: FilePair) -> None:
    work.test_extension_hook_middleware_order(files)
    work.test_resumable_retry(files)


def test_sqlite_runtime_external_terminal_completion_race(files: FilePair) -> None:
    work.test_external_terminal_completion_race(files)


def test_sqlite_runtime_go_integer_ranges(files: FilePair) -> None:
    for worker, inserter in files.directions:
        files.reset()
        job = inserter.insert("wide", max_attempts=40_000)
        assert job["max_attempts"] == worker.get(job["id"])["max_attempts"] == 40_000
        failing = inserter.insert("wide", "error", max_attempts=40_001)
        for job_id in (job["id"], failing["id"]):
            files.execute("update river_job set attempt = 40000 where id = %s", job_id)
        worker.start(retry_delay_ms=60_000)
        job = inserter.reaches(job["id"])
        assert (job["state"], job["attempt"], job["max_attempts"]) == ("completed", 40_001, 40_000)
        job = inserter.reaches(failing["id"])
        assert (job["state"], job["attempt"]) == ("discarded", 40_001)
        assert [error["attempt"] for error in job["errors"]] == [40_001]
        job = inserter.call("retry", id=failing["id"])
        assert (job["attempt"], job["max_attempts"]) == (40_001, 40_002)
        worker.call("stop")


def test_sqlite_runtime_job_list_cursor_interchange(files: FilePair) -> None:
    storage.test_job_list_cursor_interchange(files)


def test_sqlite_runtime_job_row_bytes(files: FilePair) -> None:
    written = []
    for side in files:
        side.start("row-bytes", max_workers=1, retry_delay_ms=60_000)
        jobs = [
            side.insert("worked", behavior, max_attempts=1, metadata={"note": "<&>"})
            for behavior in ("", "error", "output", "cancel")
        ]
        ended = [side.reaches(job["id"]) for job in jobs]
        snoozed = side.call("insert", behavior="snooze_once", duration_ms=60_000)
        ended.append(side.reaches(snoozed["id"], "scheduled"))
        written.append([_stored(files, side, job) for job in ended])
        side.call("stop")
    expected, ours = written
    for job in (expected[3], ours[3]):
        # The message is that of the language's exception.
        job["errors"] = len(job["errors"])
    assert ours == expected


def test_sqlite_runtime_leader_election_disabled(files: FilePair) -> None:
    together.test_leader_election_disabled_both_directions(files)


def test_sqlite_runtime_leadership_failover(files: FilePair) -> None:
    together.test_mixed_leader_failover_both_directions(files)
    together.test_mixed_request_resign_terms(files, _outboxes(files))


def test_sqlite_runtime_lifecycle_shutdown(files: FilePair) -> None:
    for side in files:
        side.start(max_workers=1)
        job = side.call("insert", behavior="sleep", duration_ms=150)
        side.reaches(job["id"], "running")
        side.call("stop")
        assert side.get(job["id"])["state"] == "completed"


def test_sqlite_runtime_notification_payload_bytes(files: FilePair) -> None:
    def read(side: Side) -> dict[str, list[tuple[str, Any]]]:
        # Go's spaces and escapes differ from operation to operation.
        done = together.published(files, side, _outboxes(files))
        return {
            operation: [(topic, json.loads(payload)) for topic, payload in sent]
            for operation, sent in done.items()
        }

    expected, done = read(files.go), read(files.ours)
    assert expected["stop"] == []
    for operation in ("request_resign", "stop"):
        # riverui's own, as on Postgres: the next leader is elected at once.
        assert done[operation].pop()[1]["action"] == "resigned"
    assert done == expected


def test_sqlite_runtime_notification_wakeups(files: FilePair) -> None:
    together.test_notification_only_wakeups(files)
    together.test_pause_resume_notification(files)


def test_sqlite_runtime_periodic_scheduler(files: FilePair) -> None:
    for side in files:
        files.reset()
        side.start(instrumented=True, max_workers=1)
        at = datetime.now(UTC) + timedelta(milliseconds=150)
        job = side.reaches(side.insert("scheduled", scheduled_at=at.isoformat())["id"])
        assert job["state"] == "completed"
        assert job["attempted_at"] >= job["scheduled_at"]
        side.call("stop")
    together.test_periodic_run_on_start(files)


def test_sqlite_runtime_periodic_unique(files: FilePair) -> None:
    together.test_periodic_unique_cross_engine(files)


def test_sqlite_runtime_poll_only_recovery(files: FilePair) -> None:
    later.test_a_client_that_only_polls_notices_a_cancellation(files)
    files.reset()
    together.test_lost_notification_poll_recovery(files)


def test_sqlite_runtime_queue_crud_reconfigure_pause(files: FilePair) -> None:
    storage.test_differential_queue_crud(files, _outboxes(files))
    storage.test_transactional_crud_commit_rollback(files)
    storage.test_transactional_queue_operations(files)
    files.reset()
    work.test_dynamic_queue_add_reconfigure_remove(files)


def test_sqlite_runtime_remote_cancellation(files: FilePair) -> None:
    together.test_remote_cancel_notification(files)
    together.test_cooperative_remote_cancellation(files)


def test_sqlite_runtime_remote_queue_subscription_events(files: FilePair) -> None:
    together.test_remote_queue_subscription_events(files)


def test_sqlite_runtime_resumable_cross_engine_cursor(files: FilePair) -> None:
    work.test_resumable_cross_engine_cursor(files)


def test_sqlite_runtime_resumable_validation(files: FilePair) -> None:
    work.test_resumable_validation(files)


def test_sqlite_runtime_transactional_notification(files: FilePair) -> None:
    together.test_transactional_insert_notification_commit_only(files, _outboxes(files))


def test_sqlite_runtime_unknown_kind_error(files: FilePair) -> None:
    work.test_mixed_unknown_kind_error(files)


@pytest.mark.short
def test_a_broken_row_does_not_stall_its_queue(files: FilePair) -> None:
    """Most of `DecodeIsolation` of the newer suite. Go fails such rows; riverui works those whose
    args can be read.
    """
    columns = ("args", "attempted_by", "errors", "metadata", "tags")
    broken = {column: files.go.insert(column)["id"] for column in columns}
    for column, job_id in broken.items():
        files.execute(f"update river_job set {column} = 'not json' where id = %s", job_id)
    behind = files.go.insert("behind them")
    files.ours.start(max_workers=1, retry_delay_ms=60_000)
    assert files.ours.reaches(behind["id"])["state"] == "completed"
    state = "select state from river_job where id = %s"
    for column, job_id in broken.items():
        # The adapter itself cannot read these jobs.
        wanted = "retryable" if column == "args" else "completed"
        until(lambda: files.value(state, job_id) == wanted, f"{wanted}: {column}")  # noqa: B023
        sql = f"select cast({column} as text) from river_job where id = %s"
        assert files.value(sql, job_id) == "not json"
