"""The demo's first day: every state, in rows that River could have left."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, cast

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.demo.history import encode, history
from riverui.demo.seed import seed
from riverui.domain.jobs import FINALIZED, JobState
from riverui.storage.postgres.driver import PostgresDriver

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def rows(jobs: int = 1_500, **options: Any) -> list[dict[str, Any]]:
    return [cast(dict[str, Any], row) for row in history(NOW, Random(1), jobs=jobs, **options)]


def test_every_state_is_there() -> None:
    states = Counter(row["state"] for row in rows(4_000))
    assert set(states) == set(JobState)
    assert states[JobState.COMPLETED] > 3_500
    assert states[JobState.RUNNING] == 1, (
        "nobody of the past works any more; one job is stuck on purpose"
    )


def test_what_was_slept_through_is_made_up_for() -> None:
    since = NOW - timedelta(hours=2)
    later = rows(4_000, since=since)
    assert 50 < len(later) < 2_000
    assert all(row["created_at"] > since for row in later)
    assert JobState.RUNNING not in {row["state"] for row in later}


def test_the_same_seed_gives_the_same_history() -> None:
    assert rows(200) == rows(200)


def test_rows_agree_with_themselves() -> None:
    for row in rows():
        attempts = row.get("attempt", 0)
        assert (row["state"] in FINALIZED) == (row.get("finalized_at") is not None)
        assert row["state"] is not JobState.RUNNING or row["attempted_at"] <= NOW
        assert len(row.get("errors", [])) <= attempts <= row["max_attempts"]
        assert attempts <= len(row.get("attempted_by", [])), (
            "a snooze gives an attempt back, not its worker"
        )
        assert row["created_at"] <= NOW
        if row["state"] in (JobState.RETRYABLE, JobState.SCHEDULED):
            assert row["scheduled_at"] > NOW


def test_numbers_keep_all_their_digits() -> None:
    text = encode(
        {
            "id": 1840021394850918403,
            "rate": Decimal("1.084217350000000001"),
            "price": Decimal("12.90"),
        }
    )
    assert text == '{"id": 1840021394850918403, "rate": 1.084217350000000001, "price": 12.90}'
    assert json.loads(encode([NOW, "ü", None, True])) == ["2026-11-21T12:00:00Z", "ü", None, True]


async def test_postgres_takes_it(database_url: str, driver: PostgresDriver) -> None:
    await seed(database_url, Random(1), jobs=2_500)
    async with driver.reading() as db:
        counts = await db.job_count_by_state(cap=10_000)
        queues = await db.queue_list(cap=1_000)
    assert all(counts[state].value for state in JobState)
    assert [row.queue.name for row in queues if row.queue.paused_at] == ["imports"]
    assert len(queues) == 7


async def test_a_second_time_only_what_is_missing_is_added(
    database_url: str, driver: PostgresDriver, connection: AsyncConnection[DictRow]
) -> None:
    await seed(database_url, Random(1), jobs=1_000)
    await seed(database_url, Random(2), jobs=1_000)

    async def count() -> int:
        row = await (await connection.execute("select count(*) as n from river_job")).fetchone()
        assert row
        return int(row["n"])

    whole = await count()
    assert whole < 1_050
    await connection.execute("delete from river_job where created_at > now() - interval '5 h'")
    less = await count()
    await seed(database_url, Random(3), jobs=1_000)
    assert less < await count() < whole * 1.2


async def test_it_can_be_searched_by_an_exact_number(
    database_url: str, driver: PostgresDriver
) -> None:
    await seed(database_url, Random(1), jobs=200)
    async with driver.reading() as db:
        paths = await db.job_path_list("args")
    assert "amount.exchange_rate" in paths
