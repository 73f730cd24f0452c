"""The demo shop's workers, on the real engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.demo.attempts import Plan, plan
from riverui.demo.run import release_jobs
from riverui.demo.shop import BY_NAME, Kind
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

Connection = AsyncConnection[DictRow]
ARGS: dict[str, Any] = {
    "data_import": {"file": "s3://x", "rows": 100},
    "video_transcode": {"renditions": [{"name": "1080p"}, {"name": "720p"}, {"name": "480p"}]},
}
WORKERS = {
    "data_import": ImportWorker,
    "image_resize": ThreadWorker,
    "payment_capture": ShopWorker,
    "video_transcode": TranscodeWorker,
    "webhook_delivery": ShopWorker,
}


async def until(happened: Callable[[], Awaitable[Any]], *, seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := await happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)
    return found


async def one(connection: Connection, statement: str) -> DictRow | None:
    return await (await connection.execute(statement.encode())).fetchone()


def fate(kind: Kind, wanted: Callable[[Plan, Plan], bool]) -> str:
    """Return a trace id with which the first two attempts end so."""
    for each in map(str, range(10_000)):
        first, second = (plan(kind, ARGS.get(kind.name, {}), each, n, 0) for n in (1, 2))
        if wanted(first, second):
            return each
    raise AssertionError("no such fate")


async def worked(
    driver: Driver,
    connection: Connection,
    kind: Kind,
    wanted: Callable[[Plan, Plan], bool],
    *conditions: str,
) -> dict[str, Any]:
    """Work a job of that fate until each condition has been true of it, and return its row then. It
    is cancelled between the conditions.
    """
    workers = Workers()
    workers.add(WORKERS[kind.name](kind, {}), args_type=args_type(kind))
    queues = {"default": QueueConfig(max_workers=5)}
    config = ClientConfig(queues=queues, workers=workers, leader_election_disabled=True)
    metadata = {"trace_id": fate(kind, wanted)}
    async with Client(driver, config) as client:
        opts = InsertOpts(max_attempts=kind.max_attempts, metadata=metadata)
        job = (await client.insert(args_type(kind)(ARGS.get(kind.name, {})), opts)).job
        for number, condition in enumerate(conditions):
            if number:
                await client.job_cancel(job.id)
            statement = f"select * from river_job where id = {job.id} and {condition}"
            row = await until(partial(one, connection, statement))
    return dict(row)


@pytest.fixture(autouse=True)
def _debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "shop")


def quick(name: str, **changes: Any) -> Kind:
    return replace(BY_NAME[name], seconds=(0.05, 0.1), **changes)


def test_args_keep_all_their_digits() -> None:
    data = {"id": 1840021394850918403, "rate": Decimal("1.084217350000000001")}
    text = ShopArgs(data).to_json()
    assert text == '{"id": 1840021394850918403, "rate": 1.084217350000000001}'
    assert ShopArgs.from_json(text).data == data


async def test_attempts_end_as_planned(driver: Driver, connection: Connection) -> None:
    work = partial(worked, driver, connection)
    kind = quick("payment_capture")
    row = await work(kind, lambda plan, _: plan.output is not None, "state = 'completed'")
    assert row["metadata"]["output"].keys() == {"captured", "provider_reference", "fee"}
    assert "shop.payment_capture: capturing payment" in row["metadata"]["river:log"][0]["log"]

    kind = quick("webhook_delivery")
    row = await work(kind, lambda plan, _: "503" in plan.error, "cardinality(errors) = 1")
    assert row["errors"][0]["error"].startswith("UpstreamError: webhook endpoint answered 503")
    assert "in work\n" in row["errors"][0]["trace"]
    assert "attempt failed: webhook endpoint" in row["metadata"]["river:log"][0]["log"]

    row = await work(kind, lambda plan, _: plan.snooze is not None, "state = 'scheduled'")
    assert (row["metadata"]["snoozes"], row["attempt"]) == (1, 0)
    row = await work(kind, lambda plan, _: plan.cancels, "state = 'cancelled'")
    assert row["errors"][0]["error"].startswith("JobCancelError: ")

    kind = replace(BY_NAME["image_resize"], seconds=(30, 31))
    row = await work(
        kind, lambda plan, _: not plan.error, "state = 'running'", "state = 'cancelled'"
    )
    assert row["errors"][0]["error"] == "JobCancelError: job cancelled remotely", "in a thread"


async def test_work_goes_on_where_it_failed(driver: Driver, connection: Connection) -> None:
    def fails_once(first: Plan, second: Plan) -> bool:
        return first.failure is not None and not second.error

    work = partial(worked, driver, connection)
    row = await work(quick("video_transcode", flaky=0.5), fails_once, "state = 'completed'")
    logs = [entry["log"] for entry in row["metadata"]["river:log"]]
    for name in ("1080p", "720p", "480p"):
        assert sum(f"{name} 100 %" in log for log in logs) == 1, "none is made twice"
    assert "ffmpeg" in row["errors"][0]["error"]
    assert "wrote playlist" in logs[1]

    row = await work(quick("data_import", flaky=0.5), fails_once, "state = 'completed'")
    logs = [entry["log"] for entry in row["metadata"]["river:log"]]
    assert "reading s3://x from row 1\n" in logs[0]
    assert "from row 66\n" in logs[1]
    assert row["metadata"]["output"] == {"rows": 100}


async def test_what_a_killed_demo_left_running_is_given_back(
    driver: Driver, connection: Connection
) -> None:
    await factory.job(connection, "running")
    await release_jobs(driver)
    found = await one(connection, "select state, attempt from river_job")
    assert found == {"state": "available", "attempt": 0}
