"""The demo's first day: every state, in rows that River could have left."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.demo.attempts import plan
from riverui.demo.history import encode, history, seed
from riverui.demo.shop import KINDS
from riverui.domain.jobs import FINALIZED, JobState
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.suggestions import SuggestionStore

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def rows(jobs: int = 1_500, **options: Any) -> list[dict[str, Any]]:
    return list(history(NOW, Random(1), jobs=jobs, **options))


def test_every_state_is_there() -> None:
    states = Counter(row["state"] for row in rows(4_000))
    assert set(states) == set(JobState) - {JobState.RUNNING}, "no client of the past goes on"
    assert states[JobState.COMPLETED] > 3_500


def test_the_time_since_the_demo_was_stopped_is_filled() -> None:
    since = NOW - timedelta(hours=2)
    later = rows(4_000, since=since)
    assert 50 < len(later) < 3_000
    assert all(row["created_at"] > since for row in later)
    assert JobState.RUNNING not in {row["state"] for row in later}


def test_the_rate_of_jobs_reaches_that_of_customers() -> None:
    ages = [NOW - row["created_at"] for row in rows(12_000)]
    hour, day = timedelta(hours=1), timedelta(days=1)
    newest, before = (sum(n * hour <= age < (n + 1) * hour for age in ages) for n in (0, 1))
    assert 3_800 < newest < 4_800, "as many as come in an hour of a running demo"
    assert newest * 0.5 < before < newest * 0.8
    assert max(ages) < day


def test_the_same_seed_gives_the_same_history() -> None:
    assert rows(200) == rows(200)


def test_rows_agree_with_themselves() -> None:
    for row in rows():
        attempts, errors = row.get("attempt", 0), row.get("errors", [])
        assert (row["state"] in FINALIZED) == (row.get("finalized_at") is not None)
        assert row["state"] is not JobState.RUNNING or row["attempted_at"] <= NOW
        assert len(errors) <= attempts <= row["max_attempts"]
        # A snooze gives an attempt back, and keeps its client.
        snoozes = row["metadata"].get("snoozes", 0)
        assert attempts + snoozes == len(row.get("attempted_by", []))
        assert row["created_at"] <= NOW
        if row["state"] in (JobState.RETRYABLE, JobState.SCHEDULED):
            assert row["scheduled_at"] > NOW
        if row["state"] is JobState.RETRYABLE:
            wait = (row["scheduled_at"] - row["attempted_at"]).total_seconds()
            assert 0.9 * len(errors) ** 4 < wait < 1.1 * len(errors) ** 4 + 160
        if row["state"] is JobState.DISCARDED:
            assert len(errors) == row["max_attempts"]


def test_logs_look_like_those_of_both_languages() -> None:
    logs = {
        row["kind"]: row["metadata"]["river:log"][0]["log"]
        for row in rows(300)
        if row["state"] is JobState.COMPLETED
    }
    assert ' level=INFO msg="posting url=https://' in logs["webhook_delivery"]
    assert "Z INFO shop.image_resize: opened s3://" in logs["image_resize"]


def test_each_kind_can_be_worked_whatever_its_args() -> None:
    for kind in KINDS:
        for number in range(1, 30):
            made = plan(kind, {}, str(number), 1, 0)
            assert made == plan(kind, {}, str(number), 1, 0), "the same fate"
            assert made.seconds > 0


def test_numbers_keep_all_their_digits() -> None:
    numbers = {"id": 1840021394850918403, "rate": Decimal("1.084217350000000001")}
    assert encode(numbers) == '{"id": 1840021394850918403, "rate": 1.084217350000000001}'
    assert json.loads(encode([NOW, "ü", None, True])) == ["2026-11-21T12:00:00Z", "ü", None, True]


async def test_a_second_time_only_what_is_missing_is_added(
    database_url: str, driver: PostgresDriver, connection: AsyncConnection[DictRow]
) -> None:
    async def count() -> int:
        row = await (await connection.execute("select count(*) as n from river_job")).fetchone()
        assert row
        return int(row["n"])

    await seed(database_url, Random(1), jobs=1_000)
    async with driver.reading() as db:
        queues = await db.queues.list(cap=1_000)
        paths = await SuggestionStore(db).job_path_list("args")
    assert len(queues) == 7
    assert "amount.exchange_rate" in paths, "they can be searched by an exact number"

    await seed(database_url, Random(2), jobs=1_000)
    whole = await count()
    assert whole < 1_050
    await connection.execute("delete from river_job where created_at > now() - interval '5 h'")
    less = await count()
    await seed(database_url, Random(3), jobs=1_000)
    assert less < await count() < whole * 1.2
