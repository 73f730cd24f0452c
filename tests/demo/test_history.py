"""The demo's first day: every state, in rows that River could have left."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, cast

from riverui.demo.history import encode, history
from riverui.demo.mover import Mover
from riverui.domain.jobs import FINALIZED, JobState
from riverui.storage.connect import connect
from riverui.storage.interface import Driver

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def rows(jobs: int = 1_500) -> list[dict[str, Any]]:
    return [cast(dict[str, Any], row) for row in history(NOW, Random(1), jobs=jobs)]


def test_every_state_is_there() -> None:
    states = Counter(row["state"] for row in rows(4_000))
    assert set(states) == set(JobState)
    assert states[JobState.COMPLETED] > 3_500


def test_the_same_seed_gives_the_same_history() -> None:
    assert rows(200) == rows(200)


def test_rows_agree_with_themselves() -> None:
    for row in rows():
        attempts = row.get("attempt", 0)
        assert (row["state"] in FINALIZED) == (row.get("finalized_at") is not None)
        assert row["state"] is not JobState.RUNNING or row["attempted_at"] <= NOW
        assert len(row.get("errors", [])) <= attempts <= row["max_attempts"]
        assert attempts <= len(row.get("attempted_by", [])), "a snooze gives an attempt back, not its worker"
        assert row["created_at"] <= NOW
        if row["state"] in (JobState.RETRYABLE, JobState.SCHEDULED):
            assert row["scheduled_at"] > NOW


def test_numbers_keep_all_their_digits() -> None:
    text = encode(
        {"id": 1840021394850918403, "rate": Decimal("1.084217350000000001"), "price": Decimal("12.90")}
    )
    assert text == '{"id": 1840021394850918403, "rate": 1.084217350000000001, "price": 12.90}'
    assert json.loads(encode([NOW, "ü", None, True])) == ["2026-11-21T12:00:00Z", "ü", None, True]


async def test_postgres_takes_it(database_url: str, driver: Driver) -> None:
    mover = Mover(database_url, Random(1))
    assert await mover.is_empty()
    await mover.seed(jobs=2_500)
    assert not await mover.is_empty()
    async with driver.reading() as db:
        counts = await db.job_count_by_state(cap=10_000)
        queues = await db.queue_list(cap=1_000)
    assert all(counts[state].value for state in JobState if state is not JobState.RUNNING)
    assert [row.queue.name for row in queues if row.queue.paused_at] == ["imports"]
    assert len(queues) == 7


async def test_it_can_be_searched_by_an_exact_number(database_url: str) -> None:
    await Mover(database_url, Random(1)).seed(jobs=200)
    driver = connect(database_url)
    async with driver.reading() as db:
        paths = await db.job_path_list("args")
    await driver.close()
    assert "amount.exchange_rate" in paths
