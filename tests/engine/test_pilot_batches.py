"""Many jobs at once through a feature: 5,000 at a time, and all or none of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import psycopg
import pytest

from riverui.engine.config import ClientConfig
from riverui.engine.pilot import Feature, Inner, InsertBatch
from riverui.engine.sync_client import SyncClient
from riverui.errors import DatabaseError
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import InsertResult
from tests.engine.conftest import Playground, Task


class Sizes(Feature):
    """Notes how many jobs are inserted at a time, and how many were then in the table."""

    def __init__(self) -> None:
        self.noted: list[int] = []

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        self.noted.append(len(batch.jobs))
        inserted = await do_inner(batch)
        assert len(inserted) == (0 if batch.fast else len(batch.jobs))
        return inserted


@pytest.mark.parametrize("method", ["insert_many", "insert_many_fast"])
async def test_a_feature_is_shown_5000_jobs_at_most(play: Playground, method: str) -> None:
    sizes, jobs = Sizes(), [Task(number=at) for at in range(5_001)]
    config = ClientConfig(features=[sizes])
    client = play.make(features=[sizes], skip_unknown_job_check=True)
    given = await getattr(client, method)(jobs)
    async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
        given_tx = await getattr(client, f"{method}_tx")(tx, jobs)
    with SyncClient(play.database_url, config) as sync_client:
        given_sync = getattr(sync_client, method)(jobs)
        with psycopg.connect(play.database_url) as sync_tx:
            given_sync_tx = getattr(sync_client, f"{method}_tx")(sync_tx, jobs)
    assert sizes.noted == [5_000, 1] * 4
    assert await play.rows("select from river_job") == [{}] * 4 * 5_001
    for one in (given, given_tx, given_sync, given_sync_tx):
        if method == "insert_many":
            assert [json.loads(result.job.args)["number"] for result in one] == list(range(5_001))
        else:
            assert one == 5_001


@pytest.mark.parametrize("fast", [False, True])
async def test_many_jobs_are_inserted_all_or_none(play: Playground, fast: bool) -> None:
    async with await psycopg.AsyncConnection.connect(play.database_url) as connection:
        await connection.execute("alter table river_job add check (args ->> 'number' <> '5000')")
    jobs = [Task(number=at) for at in range(5_001)]
    client = play.make(features=[Sizes()], skip_unknown_job_check=True)
    with SyncClient(play.database_url, ClientConfig(features=[Sizes()])) as sync_client:
        with pytest.raises(DatabaseError):
            await (client.insert_many_fast if fast else client.insert_many)(jobs)
        with pytest.raises(DatabaseError):
            (sync_client.insert_many_fast if fast else sync_client.insert_many)(jobs)
    assert await play.rows("select from river_job") == []
