"""Scenarios of rows and transactions, with River's names: one side writes, the other reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.sides import CANDIDATE, Job, Listening, Pair, Side, SideError, until

pytestmark = [pytest.mark.interop, pytest.mark.short]

_ALL_STATES = [
    "available",
    "cancelled",
    "completed",
    "discarded",
    "pending",
    "retryable",
    "running",
    "scheduled",
]


def _ids(jobs: Sequence[Job]) -> list[int]:
    return [job["id"] for job in jobs]


def test_adapter_handshake_and_capabilities(pair: Pair) -> None:
    told = pair.ours.call("handshake")
    assert told["implementation"] == CANDIDATE["implementation"]
    assert told["implementation_version"] == CANDIDATE["version"]
    assert (told["backend"], told["profile"]) == ("postgres", "postgres-full-v1")
    assert (told["adapter_version"], told["protocol_revision"]) == (18, 1)
    assert told["application_name"] == pair.ours.application
    assert told["methods"] == sorted(told["methods"])
    assert len(told["methods"]) == 65
    pair.ours.refuses("method_not_found", "not_a_contract_method")
    pair.ours.refuses("invalid_params", "handshake", unexpected=True)
    pair.ours.refuses("invalid_params", "insert", message="", opts={"not_an_option": True})
    pair.ours.refuses("invalid_params", "get")


@pytest.mark.long
def test_candidate_migrator_reference_runtime(pair: Pair) -> None:
    _migrate_then_work(pair, pair.ours, pair.go)


@pytest.mark.long
def test_reference_migrator_candidate_runtime(pair: Pair) -> None:
    _migrate_then_work(pair, pair.go, pair.ours)


def _migrate_then_work(pair: Pair, migrator: Side, worker: Side) -> None:
    pair.execute("create schema if not exists migrated")
    done = migrator.call("migrate", schema="migrated", direction="down", target_version=-1)
    assert done["existing"] == []
    assert migrator.call("migrate", schema="migrated")["valid"]
    job = worker.call("insert", message="on the other's tables", schema="migrated")
    client = worker.start(schema="migrated")
    until(
        lambda: pair.value("select state from migrated.river_job") == "completed", "work of the job"
    )
    worker.call("stop")
    assert worker.call("get", id=job["id"], schema="migrated")["attempted_by"] == [client]
    pair.execute("drop schema migrated cascade")


@pytest.mark.long
def test_custom_schema_candidate_migrate_reference_work(pair: Pair) -> None:
    _work_in_schema(pair, pair.ours, pair.go)


@pytest.mark.long
def test_custom_schema_reference_migrate_candidate_work(pair: Pair) -> None:
    _work_in_schema(pair, pair.go, pair.ours)


def _work_in_schema(pair: Pair, migrator: Side, worker: Side) -> None:
    longest = "s" * 46
    for schema in ("of_its_own", longest):
        migrator.call("migrate", schema=schema)
        job = worker.call("insert", message="custom schema", schema=schema)
        assert migrator.call("get", id=job["id"], schema=schema) == job
        worker.start(schema=schema)
        until(
            lambda s=schema: pair.value(f"select state from {s}.river_job") == "completed",  # type: ignore[misc]
            "work of the job",
        )
        worker.call("stop")
        pair.execute(f"drop schema {schema} cascade")
    worker.refuses("rejected", "insert", message="too long", schema="s" * 47)


@pytest.mark.long
def test_historical_migration_down_up(pair: Pair) -> None:
    latest = max(pair.ours.call("handshake")["migration_lines"].values())
    every = [*range(1, latest + 1)]
    for (first, second), version in itertools.product(pair.directions, every):
        schema = f"history_{first.name}_{version}"
        first.call("migrate", schema=schema, direction="down", target_version=-1)
        done = first.call("migrate", schema=schema, target_version=version)
        assert (done["existing"], done["valid"]) == (every[:version], version == latest)
        done = second.call("migrate", schema=schema)
        assert (done["existing"], done["valid"]) == (every, True)
        job = second.call("insert", message="historical", schema=schema)
        assert first.call("get", id=job["id"], schema=schema) == job
        done = first.call("migrate", schema=schema, direction="down", target_version=version)
        assert done["existing"] == every[:version]
        assert second.call("migrate", schema=schema)["existing"] == every
        done = second.call("migrate", schema=schema, direction="down", target_version=-1)
        assert done["existing"] == []
        pair.execute(f"drop schema {schema} cascade")


def test_migration_mixed_case_schema(pair: Pair) -> None:
    for first, second in pair.directions:
        first.call("migrate", schema="MixedCase")
        done = second.call("migrate", schema="MixedCase")
        assert done["applied"] == []
        assert done["valid"]
        pair.execute('drop schema "MixedCase" cascade')


def test_job_row_round_trip_all_fields(pair: Pair) -> None:
    exact = pair.ours.call("raw_insert_exact_json")["id"]
    assert pair.ours.call("raw_job_exact_json", id=exact) == {
        "decimal": "0.12345678901234567890123456789",
        "integer": "9223372036854775807",
        "negative": "-9223372036854775808",
    }
    assert pair.go.get(exact) == pair.ours.get(exact)

    full = pair.ours.call("raw_insert_full_row")
    assert pair.go.get(full["id"]) == full
    assert full == {
        "args": {"nested": {"enabled": True}, "values": [1, "two", None]},
        "attempt": 3,
        "attempted_at": "2026-01-02T03:04:06.123456Z",
        "attempted_by": ["go-client", "candidate-client"],
        "created_at": "2026-01-02T03:04:05.6789Z",
        "errors": [
            {
                "at": "2026-01-02T03:04:06.123456Z",
                "attempt": 3,
                "error": 'worker failed: escaped "detail"',
                "trace": "frame one\nframe two",
            }
        ],
        "finalized_at": "2026-01-02T03:04:07.000001Z",
        "id": full["id"],
        "kind": "conformance_full_row",
        "max_attempts": 4,
        "metadata": {"output": {"ok": True}, "river:rescue_count": 2, "user": "metadata"},
        "priority": 2,
        "queue": "priority_jobs",
        "scheduled_at": "2026-01-02T03:04:05.999999Z",
        "state": "discarded",
        "tags": ["alpha_tag", "beta_tag"],
        "unique_key": "ab" * 32,
        "unique_states": ["available", "completed", "pending", "retryable", "running", "scheduled"],
    }


def test_job_row_keeps_large_numbers(pair: Pair) -> None:
    """The second half of `job_row_round_trip_all_fields`."""
    metadata = (
        '{"negative":-9223372036854775808,"big_integer":123456789012345678901234567890,'
        '"beyond_float":1e400,"long_decimal":0.1000000000000000055511151231257827}'
    )
    for side in pair:
        job_id = pair.ours.call("raw_insert_exact_json", metadata_json=metadata)["id"]
        before = pair.ours.call("raw_job_exact_json", id=job_id)
        assert before["big_integer"] == "123456789012345678901234567890"
        assert before["long_decimal"] == "0.1000000000000000055511151231257827"
        assert before["beyond_float"]
        side.call("update", id=job_id, output="preserved")
        assert pair.ours.call("raw_job_exact_json", id=job_id) == before
        assert pair.go.get(job_id) == pair.ours.get(job_id)


def test_unsafe_int64_job_ids_rpc_list_cursors(pair: Pair) -> None:
    for number, (writer, reader) in enumerate(pair.directions):
        ids = [9_007_199_254_740_993 + number * 10 + after for after in (0, 1)]
        for job_id in ids:
            assert pair.ours.call("raw_insert_exact_json", id=job_id)["id"] == job_id
            assert reader.get(job_id)["id"] == job_id
        wanted = {"direction": "asc", "ids": ids, "limit": 1, "order_by": "id"}
        first = writer.call("list", **wanted)
        assert reader.call("list", **wanted) == first
        assert _ids(first["jobs"]) == ids[:1]
        second = reader.call("list", after=first["cursor"], **wanted)
        assert writer.call("list", after=first["cursor"], **wanted) == second
        assert _ids(second["jobs"]) == ids[1:]
        cancelled = reader.call("cancel", id=ids[0])
        assert writer.get(ids[0]) == cancelled
        assert cancelled["state"] == "cancelled"


def test_differential_job_crud(pair: Pair) -> None:
    for writer, reader in pair.directions:
        tags = ["all_jobs", f"writer_{writer.name}"]
        job = writer.insert("crud", metadata={"writer": writer.name}, priority=3, tags=tags)
        assert reader.get(job["id"]) == job
        for side in pair:
            assert side.list(ids=[job["id"]], tags_all=tags) == [job]
        updated = reader.call("update", id=job["id"], output={"updated_by": reader.name})
        assert updated["metadata"]["output"] == {"updated_by": reader.name}
        assert writer.get(job["id"]) == updated
        cancelled = writer.call("cancel", id=job["id"])
        assert reader.get(job["id"]) == cancelled
        assert cancelled["state"] == "cancelled"
        retried = reader.call("retry", id=job["id"])
        assert writer.get(job["id"]) == retried
        assert (retried["state"], retried["finalized_at"]) == ("available", None)
        assert writer.call("delete", id=job["id"]) == retried
        reader.refuses("not_found", "get", id=job["id"])


def test_bulk_delete_safety(pair: Pair) -> None:
    for writer, reader in pair.directions:
        ids = [writer.insert(f"bulk {number}")["id"] for number in range(2)]
        survivor = writer.insert("survivor")
        deleted = reader.call("delete_many", ids=ids)["jobs"]
        assert sorted(_ids(deleted)) == ids
        for job_id in ids:
            writer.refuses("not_found", "get", id=job_id)
        for side in pair:
            side.refuses("rejected", "delete_many")
        assert writer.get(survivor["id"]) == survivor


def test_differential_job_list_filters_and_cursors(pair: Pair) -> None:
    compare_filters(pair)


def compare_filters(pair: Pair, *, by_metadata: bool = True) -> None:
    """Compare the pages of a list with filters; River's SQLite has none by metadata."""
    for writer, reader in pair.directions:
        pair.reset()
        ids = [
            writer.insert(
                f"page {number}",
                metadata={"of": writer.name},
                priority=number,
                scheduled_at=f"2099-01-01T00:00:0{number}Z",
                tags=["listed"],
            )["id"]
            for number in (1, 2, 3)
        ]
        writer.insert("not listed")
        wanted = {
            "direction": "desc",
            "limit": 2,
            **({"metadata": {"of": writer.name}} if by_metadata else {}),
            "order_by": "scheduled_at",
            "priorities": [1, 2, 3],
            "states": ["scheduled"],
            "tags_all": ["listed"],
        }
        first = writer.call("list", **wanted)
        assert reader.call("list", **wanted) == first
        assert _ids(first["jobs"]) == [ids[2], ids[1]]
        for side in pair:
            assert _ids(side.list(after=first["cursor"], **wanted)) == [ids[0]]


_CURSOR_KIND = "conformance_cursor<>&~~~"
"""Go escapes it in JSON, and its cursor has a `-` in Base64."""


@pytest.mark.long
def test_job_list_cursor_interchange(pair: Pair) -> None:
    echo = "conformance_echo"
    for writer, reader in pair.directions:
        pair.reset()
        ids: dict[str, list[int]] = {echo: [], _CURSOR_KIND: []}
        for number in (1, 2, 3):
            at = f"2099-01-01T00:00:0{number}.{number}2Z"
            ids[echo].append(writer.insert("cursor", scheduled_at=at)["id"])
            raw = pair.ours.call("raw_insert_no_notify", kind=_CURSOR_KIND)
            ids[_CURSOR_KIND].append(raw["id"])

        def compare(kind: str, order_by: str, states: Sequence[str] = (), order: str = "") -> None:
            for direction in ("asc", "desc"):
                expected = [ids[kind][int(at)] for at in order or "012"]  # noqa: B023
                if direction == "desc":
                    expected.reverse()
                wanted: dict[str, Any] = {
                    "direction": direction,
                    "kinds": [kind],
                    "limit": 2,
                    "order_by": order_by,
                    **({"states": states} if states else {}),
                }
                page = writer.call("list", **wanted)  # noqa: B023
                assert reader.call("list", **wanted) == page  # noqa: B023
                assert _ids(page["jobs"]) == expected[:2], wanted
                assert kind == echo or "-" in page["cursor"]
                rest = reader.list(after=page["cursor"], **wanted)  # noqa: B023
                assert _ids(rest) == expected[2:], wanted

        compare(echo, "id")
        compare(echo, "scheduled_at", ["scheduled"])
        compare(echo, "time", ["scheduled"])
        compare(_CURSOR_KIND, "id")
        for job_id in itertools.chain.from_iterable(ids.values()):
            writer.call("cancel", id=job_id)
        for kind, order_by in itertools.product(ids, ("finalized_at", "time")):
            compare(kind, order_by, ["cancelled"])
        # One without a finalized_at is last in ascending order.
        writer.call("retry", id=ids[echo][1])
        compare(echo, "time", ["cancelled", "available"], "021")
        compare(echo, "time", ["available", "cancelled"], "102")
        writer.call("retry", id=ids[echo][2])
        compare(echo, "time", ["cancelled", "available"], "012")


def test_differential_queue_crud(pair: Pair, listen: Callable[..., Listening]) -> None:
    for writer, reader in pair.directions:
        writer.start()
        writer.call("stop")
        queue = writer.call("queue_get", name="default")
        assert reader.call("queue_get", name="default") == queue
        assert (queue["name"], queue["paused_at"]) == ("default", None)
        control = listen("river_control")
        updated = reader.call("queue_update", name="default", metadata={"by": reader.name})
        assert updated["metadata"] == {"by": reader.name}
        expected = (
            f'{{"action":"metadata_changed","metadata":{{"by":"{reader.name}"}},"queue":"default"}}'
        )
        assert control.heard() == [("river_control", expected)]
        assert writer.call("queue_get", name="default") == updated
        for side in pair:
            assert side.call("queue_list")["queues"] == [updated]


@pytest.mark.long
def test_queue_names_and_unknown_queue_control(pair: Pair) -> None:
    for side in pair:
        for name in ("missing_queue", "missing queue", "q" * 129):
            side.refuses("not_found", "queue_pause", name=name)
            side.refuses("not_found", "queue_resume", name=name)
            side.refuses("not_found", "queue_update", name=name, metadata={"owner": "nobody"})
        side.call("queue_pause", name="*")
        side.call("queue_resume", name="*")
        assert side.insert("pipe", queue="tenant|emails")["queue"] == "tenant|emails"


def test_typed_batch_insertion(pair: Pair) -> None:
    for actor, observer in pair.directions:
        pair.reset()
        actor.refuses("rejected", "insert_many", jobs=[])
        duplicate = {"message": "duplicate", "opts": {"unique": {"by_args": True}}}
        existing = actor.call("insert", **duplicate)
        jobs = [
            {"message": "1", "opts": {"metadata": {"at": 0}, "priority": 2, "tags": ["batch"]}},
            duplicate,
            {"message": "3", "opts": {"pending": True, "tags": ["batch"]}},
        ]
        results = actor.call("insert_many", jobs=jobs)["results"]
        assert [result["unique_skipped_as_duplicate"] for result in results] == [0, 1, 0]
        assert results[0]["job"]["metadata"] == {"at": 0}
        assert results[0]["job"]["priority"] == 2
        assert results[1]["job"] == existing
        assert results[2]["job"]["state"] == "pending"
        for result in results:
            assert observer.get(result["job"]["id"]) == result["job"]
        actor.refuses(
            "rejected",
            "insert_many",
            jobs=[
                {"message": "rolled back", "opts": {"tags": ["invalid"]}},
                {"message": "invalid", "opts": {"priority": 99}},
            ],
        )
        assert observer.list(tags_all=["invalid"]) == []
        repeated = {"message": "twice", "opts": {"tags": ["twice"], "unique": {"by_args": True}}}
        if actor is pair.go:
            # On Postgres it is the database that rejects it, on SQLite the driver.
            with pytest.raises(SideError):
                actor.call("insert_many", jobs=[repeated, repeated])
            assert observer.list(tags_all=["twice"]) == []
        else:
            # riverui's own: the second is a duplicate of the first.
            first, second = actor.call("insert_many", jobs=[repeated, repeated])["results"]
            assert second == {"job": first["job"], "unique_skipped_as_duplicate": True}
        actor.refuses(
            "rejected", "insert", message="no kind", opts={"unique": {"exclude_kind": True}}
        )


@pytest.mark.long
def test_typed_batch_insertion_of_6000(pair: Pair) -> None:
    """The second half of `typed_batch_insertion`."""
    for side in pair:
        jobs = [
            {"message": str(number), "opts": {"metadata": {"at": number}}}
            for number in range(6_000)
        ]
        results = side.call("insert_many", jobs=jobs)["results"]
        assert [result["job"]["metadata"]["at"] for result in results] == [*range(6_000)]


@pytest.mark.long
def test_cross_language_unique_conflict(pair: Pair) -> None:
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    for opts in (
        {"unique": {"by_args": True}},
        {"scheduled_at": past, "unique": {"by_period_ms": 60_000}},
        {"queue": "unique_queue", "unique": {"by_queue": True}},
        {"unique": {"by_state": _ALL_STATES}},
    ):
        for winner, loser in pair.directions:
            pair.reset()
            job = {"message": "concurrent", "opts": opts}
            winner.call("tx_begin", handle="winner")
            loser.call("tx_begin", handle="loser")
            won = winner.call("tx_insert", handle="winner", job=job)
            loser.begin("tx_insert", handle="loser", job=job)
            until(lambda side=loser: pair.waits_for_lock(side), "the loser's wait")  # type: ignore[misc]
            winner.call("tx_commit", handle="winner")
            assert loser.finish() == won
            loser.call("tx_commit", handle="loser")
            for side in pair:
                assert side.list() == [won]
    pair.reset()
    unique: dict[str, Any] = {"unique": {"by_args": True}}
    assert pair.go.insert("same", **unique) == pair.ours.insert("same", **unique)


_AT = "2031-02-03T04:05:06.789Z"
UNIQUE_OPTS: Sequence[dict[str, Any]] = (
    {"unique": {"by_args": True}},
    {"unique": {"by_args": True, "exclude_kind": True}},
    {"scheduled_at": _AT, "unique": {"by_period_ms": 3_600_000}},
    {"queue": "unique_queue", "unique": {"by_queue": True}},
    {"unique": {"by_state": ["available", "pending", "running", "scheduled"]}},
    {
        "queue": "unique_queue",
        "scheduled_at": _AT,
        "unique": {
            "by_args": True,
            "by_period_ms": 86_400_000,
            "by_queue": True,
            "by_state": _ALL_STATES,
        },
    },
)
"""Options of a job that is unique, each in another way."""


def test_unique_column_bytes(pair: Pair) -> None:
    for opts in (*UNIQUE_OPTS, {}):
        written = []
        for side in pair:
            pair.reset()
            job = side.insert("unique columns", **opts)
            row = pair.ours.call("raw_job_row", id=job["id"])
            written.append((row["unique_key"], row["unique_states"]))
        assert written[0] == written[1], opts
        assert (written[0] != (None, None)) is bool(opts)


def test_transaction_commit_visibility(pair: Pair) -> None:
    for actor, observer in pair.directions:
        actor.call("tx_begin", handle="h")
        job = actor.call("tx_insert", handle="h", job={"message": "commit"})
        assert actor.call("tx_get", handle="h", id=job["id"]) == job
        observer.refuses("not_found", "get", id=job["id"])
        actor.call("tx_commit", handle="h")
        assert observer.get(job["id"]) == job


def test_transaction_rollback_visibility(pair: Pair) -> None:
    for actor, observer in pair.directions:
        actor.call("tx_begin", handle="h")
        job = actor.call("tx_insert", handle="h", job={"message": "rollback"})
        actor.call("tx_rollback", handle="h")
        for side in (actor, observer):
            side.refuses("not_found", "get", id=job["id"])


def test_transaction_abort_rollback_visibility(pair: Pair) -> None:
    for side in pair:
        side.call("tx_begin", handle="h")
        job = side.call("tx_insert", handle="h", job={"message": "aborted"})
        side.refuses("database_error", "tx_fail", handle="h")
        # Whether the commit of an aborted transaction is an error depends on the driver.
        with suppress(SideError):
            side.call("tx_commit", handle="h")
        for observer in pair:
            observer.refuses("not_found", "get", id=job["id"])


def test_transactional_batch_insertion(pair: Pair) -> None:
    for actor, observer in pair.directions:
        actor.call("tx_begin", handle="empty")
        actor.refuses("rejected", "tx_insert_many", handle="empty", jobs=[])
        actor.call("tx_rollback", handle="empty")
        for end in ("rollback", "commit"):
            tag = f"{actor.name}_{end}"
            jobs = [{"message": str(at), "opts": {"priority": at, "tags": [tag]}} for at in (2, 3)]
            actor.call("tx_begin", handle=tag)
            results = actor.call("tx_insert_many", handle=tag, jobs=jobs)["results"]
            assert [result["job"]["priority"] for result in results] == [2, 3]
            assert observer.list(tags_all=[tag]) == []
            actor.call(f"tx_{end}", handle=tag)
            found = [job["priority"] for job in observer.list(tags_all=[tag])]
            assert found == ([2, 3] if end == "commit" else [])


def test_transactional_crud_commit_rollback(pair: Pair) -> None:
    for actor, observer in pair.directions:
        actor.call("tx_begin", handle="h")
        job = actor.call("tx_insert", handle="h", job={"message": "crud"})
        job_id = job["id"]
        observer.refuses("not_found", "get", id=job_id)
        assert actor.call("tx_get", handle="h", id=job_id) == job
        updated = actor.call("tx_update", handle="h", id=job_id, output={"by": actor.name})
        assert updated["metadata"] == {"output": {"by": actor.name}}
        assert actor.call("tx_list", handle="h", ids=[job_id])["jobs"] == [updated]
        assert actor.call("tx_cancel", handle="h", id=job_id)["state"] == "cancelled"
        job = actor.call("tx_retry", handle="h", id=job_id)
        assert job["state"] == "available"
        observer.refuses("not_found", "get", id=job_id)
        actor.call("tx_commit", handle="h")
        assert observer.get(job_id) == job

        actor.call("tx_begin", handle="h")
        assert actor.call("tx_delete", handle="h", id=job_id) == job
        assert observer.get(job_id) == job
        actor.call("tx_rollback", handle="h")
        assert observer.get(job_id) == job

        ids = [actor.insert(str(number))["id"] for number in range(2)]
        actor.call("tx_begin", handle="h")
        deleted = actor.call("tx_delete_many", handle="h", ids=ids)["jobs"]
        assert sorted(_ids(deleted)) == ids
        assert _ids(observer.list(ids=ids)) == ids
        actor.call("tx_commit", handle="h")
        assert observer.list(ids=ids) == []


def test_transactional_cross_language_cancel(pair: Pair) -> None:
    for inserter, canceller in pair.directions:
        job = inserter.insert("transactional cancellation")
        canceller.call("tx_begin", handle="h")
        cancelled = canceller.call("tx_cancel", handle="h", id=job["id"])
        assert cancelled["state"] == "cancelled"
        assert cancelled["finalized_at"]
        assert inserter.get(job["id"]) == job
        canceller.call("tx_commit", handle="h")
        assert inserter.get(job["id"]) == cancelled


def test_transactional_queue_operations(pair: Pair) -> None:
    for actor, observer in pair.directions:
        pair.reset()
        actor.start()
        actor.call("stop")
        default = {"name": "default"}
        before = observer.call("queue_get", **default)
        inside = {"handle": "h", **default}
        actor.call("tx_begin", handle="h")
        updated = actor.call("tx_queue_update", metadata={"by": actor.name}, **inside)
        assert updated["metadata"] == {"by": actor.name}
        actor.call("tx_queue_pause", **inside)
        paused = actor.call("tx_queue_get", **inside)
        assert paused["paused_at"]
        assert actor.call("tx_queue_list", handle="h")["queues"] == [paused]
        assert observer.call("queue_get", **default) == before
        actor.call("tx_commit", handle="h")
        assert observer.call("queue_get", **default) == paused
        actor.call("tx_begin", handle="h")
        actor.call("tx_queue_resume", **inside)
        assert actor.call("tx_queue_get", **inside)["paused_at"] is None
        assert observer.call("queue_get", **default) == paused
        actor.call("tx_rollback", handle="h")
        assert observer.call("queue_get", **default) == paused
