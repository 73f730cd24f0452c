"""Scenarios of the leader's services, with River's names; each side leads in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conformance.sides import Pair, until

pytestmark = pytest.mark.interop

_ARGS = '{"behavior":"","duration_ms":0,"message":"maintenance"}'
_IDLE: dict[str, Any] = {"queue": "maintenance_idle", "max_workers": 1}


@pytest.fixture
def other(pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection whose transactions hold rows."""
    with psycopg.connect(pair.url) as connection:
        yield connection


def _raw(pair: Pair, kind: str, state: str, *, ago: str, attempted: bool = False) -> int:
    """Insert a job that ended, or began, so long ago."""
    columns = "attempt, attempted_at, attempted_by" if attempted else "finalized_at"
    values = (
        "1, now() - %(ago)s::interval, array['dead-client']"
        if attempted
        else ("now() - %(ago)s::interval")
    )
    with pair.database.cursor() as cursor:
        cursor.execute(
            f"insert into river_job (args, kind, max_attempts, state, {columns}) values"
            f" (%(args)s, %(kind)s, 25, %(state)s, {values}) returning id",
            {"ago": ago, "args": _ARGS, "kind": kind, "state": state},
        )
        ((job_id,),) = cursor.fetchall()
        return int(job_id)


def _ids(pair: Pair, where: str = "true") -> set[int]:
    return {row["id"] for row in pair.execute(f"select id from river_job where {where}")}


def test_maintenance_job_cleaner_retention(pair: Pair) -> None:
    for side in pair:
        pair.reset()
        gone = {
            _raw(pair, "conformance_echo", "cancelled", ago="2 hours"),
            _raw(pair, "conformance_echo", "discarded", ago="2 hours"),
        }
        kept = {
            _raw(pair, "conformance_echo", "completed", ago="2 hours"),
            _raw(pair, "conformance_echo", "cancelled", ago="1 minute"),
            _raw(pair, "conformance_echo", "running", ago="1 second", attempted=True),
        }
        side.start(
            cancelled_job_retention_ms=3_600_000,
            completed_job_retention_ms=-1,
            discarded_job_retention_ms=3_600_000,
            **_IDLE,
        )
        until(lambda: not gone & _ids(pair), "the cleaner's round")  # noqa: B023
        side.call("stop")
        assert _ids(pair) == kept


def test_maintenance_queue_cleaner_keeps_active_queues(pair: Pair) -> None:
    def names() -> set[str]:
        return {row["name"] for row in pair.execute("select name from river_queue")}

    for side in pair:
        pair.reset()
        for name, ago in (("stale", "25 hours"), ("recent", "1 hour")):
            pair.execute(
                "insert into river_queue (name, created_at, metadata, updated_at)"
                " values (%s, now(), '{}', now() - %s::interval)",
                name,
                ago,
            )
        side.start(queue="active")
        until(lambda: names() == {"recent", "active"}, "the queue cleaner's round")
        side.call("stop")


def test_maintenance_reindexer_skips_artifacts(pair: Pair) -> None:
    def file_of(index: str) -> int:
        return int(pair.value("select pg_relation_filenode(%s::regclass)", index))

    names = ("artifact_idx", "artifact_idx_ccnew1", "rebuilt_idx")
    for side in pair:
        for name in names:
            pair.execute(f"create index {name} on river_job (kind)")
        artifact, rebuilt = file_of("artifact_idx"), file_of("rebuilt_idx")
        side.start(
            reindexer_index_names=["missing_idx", "artifact_idx", "rebuilt_idx"],
            reindexer_interval_ms=200,
            **_IDLE,
        )
        until(lambda: file_of("rebuilt_idx") != rebuilt, "the reindexer's round")  # noqa: B023
        side.call("stop")
        assert file_of("artifact_idx") == artifact
        for name in names:
            pair.execute(f"drop index {name}")


def test_maintenance_rescuer_full_batch_of_unexpired_jobs(pair: Pair) -> None:
    for side in pair:
        pair.reset()
        pair.execute(
            "insert into river_job (args, attempt, attempted_at, attempted_by, kind, max_attempts,"
            " state) select %s, 1, now() - interval '2 hours', array['dead-client'],"
            " 'conformance_echo', 25, 'running' from generate_series(1, 10000)",
            _ARGS,
        )
        job_id = _raw(pair, "unregistered_kind", "running", ago="2 hours", attempted=True)
        side.start(job_timeout_disabled=True, rescue_after_ms=60_000, **_IDLE)
        side.reaches(job_id, "discarded")
        side.call("stop")
        left = "state = 'running' and kind = 'conformance_echo' and errors is null"
        assert len(_ids(pair, left)) == 10_000


def test_maintenance_rescuer_stale_selection(pair: Pair, other: psycopg.Connection[Any]) -> None:
    for side in pair:
        pair.reset()
        completed, reclaimed, stuck = (
            _raw(pair, "unregistered_kind", "running", ago="2 hours", attempted=True)
            for _ in range(3)
        )
        other.execute(
            "select from river_job where id = any(%s) for update", [[completed, reclaimed]]
        )
        side.start(rescue_after_ms=60_000, **_IDLE)

        def reached() -> bool:
            return pair.waits_for_lock(side) or pair.go.get(stuck)["state"] == "discarded"  # noqa: B023

        until(reached, "the rescuer's round")
        other.execute(
            "update river_job set state = 'completed', finalized_at = now() where id = %s",
            [completed],
        )
        other.execute(
            "update river_job set attempt = 2, attempted_at = now() where id = %s", [reclaimed]
        )
        other.commit()
        side.reaches(stuck, "discarded")
        side.call("stop")
        left = [pair.go.get(job_id) for job_id in (completed, reclaimed)]
        assert [(job["state"], job["errors"], job["metadata"]) for job in left] == [
            ("completed", [], {}),
            ("running", [], {}),
        ]


def test_leadership_same_client_id_term_replacement(pair: Pair) -> None:
    def periodic() -> int:
        return int(
            pair.value(
                "select count(*) from river_job"
                " where metadata ->> 'river:periodic_job_id' = 'conformance-periodic'"
            )
        )

    for side in pair:
        pair.reset()
        client = side.start("shared", periodic_run_on_start=True, **_IDLE)
        first = pair.leader_but()["elected_at"]
        until(lambda: periodic() == 1, "the first term's job")
        # Another process of this id takes over, and dies.
        replaced = pair.value(
            "with old as (delete from river_leader returning leader_id, elected_at)"
            " insert into river_leader (leader_id, elected_at, expires_at)"
            " select leader_id, elected_at + interval '1 second', now() + interval '3 seconds'"
            " from old returning elected_at"
        )
        assert pair.leader_but(first, replaced)["leader_id"] == client
        until(lambda: periodic() == 2, "the next term's job")
        side.call("stop")


def test_leadership_renewal_under_slow_maintenance(
    pair: Pair, other: psycopg.Connection[Any]
) -> None:
    for side in pair:
        pair.reset()
        job_id = _raw(pair, "conformance_echo", "completed", ago="48 hours")
        other.execute("select from river_job where id = %s for update", [job_id])
        side.start(**_IDLE)
        until(lambda: pair.waits_for_lock(side), "the cleaner's wait")  # noqa: B023
        term = pair.leader_but()
        expires_at = term["expires_at"]
        for renewal in range(2):
            until(lambda: pair.leader_but()["expires_at"] > expires_at, "a renewal")  # noqa: B023
            row = pair.leader_but()
            assert row["elected_at"] == term["elected_at"]
            expires_at = row["expires_at"]
            if renewal == 0:
                until(lambda: pair.waits_for_lock(side), "the cleaner's wait after a renewal")  # noqa: B023
        other.rollback()
        side.call("stop")


def test_periodic_due_job_available(pair: Pair) -> None:
    pair.execute("create table inserted_state (id bigint primary key, state text not null)")
    pair.execute(
        "create function note_inserted_state() returns trigger language plpgsql as $$ begin"
        " insert into inserted_state values (new.id, new.state::text); return new; end $$"
    )
    pair.execute(
        "create trigger note_inserted_state after insert on river_job"
        " for each row execute function note_inserted_state()"
    )
    try:
        for side in pair:
            pair.reset()
            pair.execute("truncate inserted_state")
            side.start(periodic_run_on_start=True)
            until(lambda: _ids(pair), "the periodic job")
            side.call("stop")
            assert pair.value("select state from inserted_state") == "available"
    finally:
        pair.execute("drop table inserted_state")
        pair.execute("drop function note_inserted_state cascade")
