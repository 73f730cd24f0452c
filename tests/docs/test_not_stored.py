"""docs/understand/not-stored.md: what it says of rows is what rows have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import Retry
from tests.docs.test_states import Stage, fails, returns, snoozes
from tests.engine.conftest import Playground
from tests.factory import WORKER


@pytest.fixture
async def stage(connection: AsyncConnection[DictRow], database_url: str) -> AsyncIterator[Stage]:
    """Yield an empty stage."""
    play = Playground(connection, database_url)
    yield Stage(play)
    await play.close()


async def test_an_error_tells_when_its_attempt_began_and_no_more(stage: Stage) -> None:
    await stage.works(fails, retry=Retry(wait=timedelta(hours=1)), patient=True)
    at_work = datetime.now(UTC)
    stage.go_on.set()
    await stage.until("retryable")
    (error,) = (await stage.play.row(stage.job))["errors"]
    assert error.keys() == {"at", "attempt", "error", "trace"}
    assert datetime.fromisoformat(error["at"]) < at_work


async def test_of_earlier_attempts_only_their_errors_remain(stage: Stage) -> None:
    began = datetime.now(UTC) - timedelta(hours=3)
    await stage.works(returns, attempt=2, attempted_at=began, attempted_by=[WORKER, WORKER])
    await stage.until("completed")
    row = await stage.play.row(stage.job)
    assert row["attempt"] == 3
    assert row["attempted_at"] > began + timedelta(hours=2)
    assert len(row["attempted_by"]) == 3


async def test_a_snooze_leaves_a_count_and_a_name(stage: Stage) -> None:
    await stage.works(snoozes)
    row = await stage.play.row(stage.job)
    assert (row["attempt"], row["errors"]) == (0, None)
    assert row["metadata"]["snoozes"] == 1
    assert row["attempted_by"] == [stage.play.client.id]


async def test_an_interruption_leaves_a_name(stage: Stage) -> None:
    await stage.works(returns, patient=True)
    await stage.play.client.stop_and_cancel()
    row = await stage.play.row(stage.job)
    assert (row["attempt"], row["errors"], row["metadata"]) == (0, None, {})
    assert row["attempted_by"] == [stage.play.client.id]


async def test_a_hundred_names_are_kept(stage: Stage) -> None:
    await stage.works(returns, attempt=100, max_attempts=200, attempted_by=[WORKER] * 100)
    await stage.until("completed")
    names = (await stage.play.row(stage.job))["attempted_by"]
    assert names == [WORKER] * 99 + [stage.play.client.id]


async def test_cancelling_is_forgotten_by_a_retry(stage: Stage) -> None:
    await stage.begins("scheduled")
    client = stage.inserts()
    asked = (await client.job_cancel(stage.job)).metadata_dict
    assert asked.keys() == {"cancel_attempted_at"}
    row = await client.job_retry(stage.job)
    assert (row.state, row.metadata_dict, row.attempt, row.max_attempts) == ("available", {}, 0, 25)


async def test_a_retry_by_hand_may_leave_one_attempt_more(stage: Stage) -> None:
    await stage.begins("discarded", attempt=25)
    row = await stage.inserts().job_retry(stage.job)
    assert (row.attempt, row.max_attempts, len(row.errors)) == (25, 26, 25)
