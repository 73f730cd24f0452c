"""The demo shop's workers, customers and periodic jobs, on the real engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.demo.attempts import Plan, plan
from riverui.demo.mishaps import MISHAPS, happen
from riverui.demo.opening import give_back, working
from riverui.demo.shop import BY_NAME, KINDS, Kind
from riverui.demo.workers import (
    ImportWorker,
    ShopArgs,
    ShopWorker,
    ThreadWorker,
    TranscodeWorker,
    args_type,
)
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.work.workers import Workers
from riverui.storage.interface import Driver
from tests import factory
from tests.own_tables import OWN_TABLES

Connection = AsyncConnection[DictRow]
ARGS: dict[str, Any] = {
    "data_import": {"file": "s3://x", "rows": 100},
    "video_transcode": {"renditions": [{"name": "1080p"}, {"name": "720p"}, {"name": "480p"}]},
}


async def until(happened: Callable[[], Awaitable[Any]], *, seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := await happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)
    return found


async def one(connection: Connection, statement: str) -> DictRow | None:
    return await (await connection.execute(statement.encode())).fetchone()


def fate(kind: Kind, wanted: Callable[[Plan], bool], *, number: int = 1, then: str = "") -> str:
    """Return a trace id with which that attempt ends so; and, with `then`, the next one well."""
    for each in range(10_000):
        found = plan(kind, ARGS.get(kind.name, {}), str(each), number, 0)
        if wanted(found) and (not then or plan(kind, {}, str(each), number + 1, 0).failure is None):
            return str(each)
    raise AssertionError("no such fate")


@asynccontextmanager
async def worked(driver: Driver, worker: ShopWorker) -> AsyncIterator[Client]:
    """Yield a client that works one kind."""
    workers = Workers()
    workers.add(worker, args_type=args_type(worker.kind))
    client = Client(
        driver,
        ClientConfig(
            queues={"default": QueueConfig(max_workers=5)},
            workers=workers,
            leader_election_disabled=True,
        ),
    )
    async with client:
        yield client


async def end_of(
    client: Client, kind: Kind, trace_id: str, connection: Connection, condition: str
) -> dict[str, Any]:
    """Return a new job's row once the condition is true of it."""
    opts = InsertOpts(max_attempts=kind.max_attempts, metadata={"trace_id": trace_id})
    result = await client.insert(args_type(kind)(ARGS.get(kind.name, {})), opts)
    return await row_of(connection, result.job.id, condition)


async def row_of(connection: Connection, id: int, condition: str) -> dict[str, Any]:
    found = await until(
        lambda: one(connection, f"select * from river_job where id = {id} and {condition}")
    )
    assert isinstance(found, dict)
    return found


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "shop")


def quick(name: str, **changes: Any) -> Kind:
    return replace(BY_NAME[name], seconds=(0.05, 0.1), **changes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_whatever_went_wrong_in_the_past_can_still_go_wrong(kind: Kind) -> None:
    assert len(MISHAPS[kind.name]) == len(kind.failures)
    for mishap in range(len(kind.failures)):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any of them
            happen(kind.name, mishap, {})
        assert len(raised.traceback) >= 3, "a traceback that shows something"


def test_args_keep_all_their_digits() -> None:
    data = {"id": 1840021394850918403, "rate": Decimal("1.084217350000000001")}
    text = ShopArgs(data).to_json()
    assert text == '{"id": 1840021394850918403, "rate": 1.084217350000000001}'
    assert ShopArgs.from_json(text).data == data


async def test_a_job_ends_well_with_output_and_log(driver: Driver, connection: Connection) -> None:
    kind = quick("payment_capture")
    well = fate(kind, lambda plan: plan.output is not None)
    async with worked(driver, ShopWorker(kind)) as client:
        row = await end_of(client, kind, well, connection, "state = 'completed'")
    assert row["metadata"]["output"].keys() == {"captured", "provider_reference", "fee"}
    assert "shop.payment_capture: capturing payment" in row["metadata"]["river:log"][0]["log"]


async def test_a_job_fails_with_a_traceback(driver: Driver, connection: Connection) -> None:
    kind = quick("webhook_delivery")
    failing = fate(
        kind, lambda plan: plan.failure is not None and not plan.gives_up and plan.mishap == 1
    )
    async with worked(driver, ShopWorker(kind)) as client:
        row = await end_of(client, kind, failing, connection, "cardinality(errors) = 1")
    (error,) = row["errors"]
    assert "503 Service Unavailable" in error["error"]
    assert "in _check_status" in error["trace"]
    assert "attempt failed: POST" in row["metadata"]["river:log"][0]["log"]


async def test_a_job_is_put_off_and_another_given_up(
    driver: Driver, connection: Connection
) -> None:
    kind = quick("webhook_delivery")
    async with worked(driver, ShopWorker(kind)) as client:
        snoozed = fate(kind, lambda plan: plan.snooze is not None)
        row = await end_of(client, kind, snoozed, connection, "state = 'scheduled'")
        assert row["metadata"]["snoozes"] == 1
        assert row["attempt"] == 0
        given_up = fate(kind, lambda plan: plan.gives_up)
        row = await end_of(client, kind, given_up, connection, "state = 'cancelled'")
        assert row["errors"][0]["error"].startswith("JobCancelError: ")


async def test_a_thread_notices_that_its_job_was_cancelled(
    driver: Driver, connection: Connection
) -> None:
    kind = replace(BY_NAME["image_resize"], seconds=(30, 31), flaky=0, doomed=0)
    async with worked(driver, ThreadWorker(kind)) as client:
        row = await end_of(client, kind, "1", connection, "state = 'running'")
        await client.job_cancel(row["id"])
        ended = await row_of(connection, row["id"], "state = 'cancelled'")
    assert ended["errors"][0]["error"] == "JobCancelError: job cancelled remotely"


async def test_a_transcoding_goes_on_with_the_rendition_that_failed(
    driver: Driver, connection: Connection
) -> None:
    kind = quick("video_transcode", flaky=0.5)
    failing = fate(kind, lambda plan: plan.failure is not None and not plan.gives_up, then="well")
    async with worked(driver, TranscodeWorker(kind)) as client:
        row = await end_of(client, kind, failing, connection, "state = 'completed'")
    assert row["attempt"] == 2
    logs = [entry["log"] for entry in row["metadata"]["river:log"]]
    assert "ffmpeg" in row["errors"][0]["error"]
    for name in ("1080p", "720p", "480p"):
        assert sum(f"{name} 100 %" in log for log in logs) == 1, "none is made twice"
    assert "480p 100 %" in logs[1]
    assert "wrote playlist" in logs[1]


async def test_an_import_goes_on_behind_its_last_batch(
    driver: Driver, connection: Connection
) -> None:
    kind = quick("data_import", flaky=0.5)
    failing = fate(kind, lambda plan: plan.failure is not None and not plan.gives_up, then="well")
    async with worked(driver, ImportWorker(kind)) as client:
        row = await end_of(client, kind, failing, connection, "state = 'completed'")
    logs = [entry["log"] for entry in row["metadata"]["river:log"]]
    assert "reading s3://x from row 1\n" in logs[0]
    assert "from row 66\n" in logs[1]
    assert row["metadata"]["output"] == {"rows": 100}


async def test_the_shop_is_open(driver: Driver, connection: Connection) -> None:
    """Three clients, one of which leads; customers; periodic jobs; and nothing is left when it
    closes.
    """
    await connection.execute(OWN_TABLES)
    async with working(driver) as clients:
        assert len({client.id for client in clients}) == 3
        await until(lambda: one(connection, "select true from river_job having count(*) > 45"))
        await until(
            lambda: one(connection, "select true from river_job where state = 'completed' limit 1")
        )
        await until(
            lambda: one(connection, "select true from river_job where state = 'pending' limit 1")
        )
        periodic = "select kind from river_job where metadata ? 'river:periodic_job_id'"
        periodic = f"select true from ({periodic}) as found having count(distinct kind) = 2"
        await until(lambda: one(connection, periodic))
        assert await one(connection, "select true from river_leader where expires_at > now()")
        for name, queue in (("shop", "mailers"), ("media", "media")):
            (client,) = [client for client in clients if queue in client.config.queues]
            assert name in client.id
    assert await one(connection, "select count(*) as n from river_job where state = 'running'") == {
        "n": 0
    }
    assert await one(connection, "select count(*) as n from river_leader") == {"n": 0}


async def test_what_a_killed_demo_left_running_is_given_back(
    driver: Driver, connection: Connection
) -> None:
    left = await factory.job(connection, "running")
    stuck = await factory.job(connection, "running")
    await connection.execute(
        "update river_job set attempted_at = now() - interval '3 h' where id = %s", [stuck]
    )
    await give_back(driver)
    assert await one(connection, f"select state, attempt from river_job where id = {left}") == {
        "state": "available",
        "attempt": 0,
    }
    assert await one(connection, f"select state from river_job where id = {stuck}") == {
        "state": "running"
    }
