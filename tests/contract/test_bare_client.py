"""A client on a driver without anything optional: it inserts, works, retries, leads and cleans."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from riverui.actions.leader import request_resign
from riverui.domain.jobs import JobState
from riverui.domain.schedules import PeriodicInterval
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.periodic import PeriodicJob
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError, NotSupported
from riverui.storage.interface import (
    LISTENING,
    NOTIFYING,
    REINDEXING,
    TRANSACTION_STATUS,
    WORKING,
)
from riverui.storage.migrations import migrate, migration_status
from tests.contract.bare import BareDriver
from tests.contract.seeds import ended, job, row_of
from tests.engine.conftest import until

SECOND = timedelta(seconds=1)


@dataclass
class Greet:
    """The args of the jobs here."""

    kind: ClassVar[str] = "greet"
    name: str = ""


@dataclass
class Tick:
    """A periodic job."""

    kind: ClassVar[str] = "tick"


class Greeter(Worker[Greet]):
    """Fails at the first attempt of whoever is called Twice."""

    async def work(self, job: Job[Greet]) -> None:
        if job.args.name == "Twice" and job.attempt == 1:
            raise ValueError("once more")

    def next_retry(self, job: Job[Greet]) -> Any:
        return job.attempted_at


class Ticker(Worker[Tick]):
    """Does nothing."""

    async def work(self, job: Job[Tick]) -> None:
        return None


def config(**settings: Any) -> ClientConfig:
    """Return a client quick to fetch, that keeps completed jobs for ten days."""
    workers = Workers()
    workers.add(Greeter())
    workers.add(Ticker())
    given: dict[str, Any] = {
        "completed_job_retention_period": timedelta(days=10),
        "fetch_cooldown": timedelta(milliseconds=1),
        "fetch_poll_interval": timedelta(milliseconds=20),
        "periodic_jobs": [
            PeriodicJob(PeriodicInterval(timedelta(hours=1)), Tick, run_on_start=True)
        ],
        "queues": {"default": QueueConfig(max_workers=5)},
        "workers": workers,
    }
    return ClientConfig(**(given | settings))


async def test_a_client_does_all_its_work(
    bare: BareDriver, caplog: pytest.LogCaptureFixture
) -> None:
    (old,) = await ended(
        bare, JobState.COMPLETED, job("old"), at=(await now(bare)) - timedelta(days=11)
    )
    client = Client(bare, config())
    # Before the start, so that the scheduler's first round finds it.
    soon = InsertOpts(scheduled_at=client.clock() + SECOND)
    later = await client.insert(Greet("Later"), soon)
    assert later.job.state is JobState.SCHEDULED
    with caplog.at_level(logging.INFO, "riverui.engine"):
        async with client:
            plain = await client.insert(Greet("Ann"))
            twice = await client.insert(Greet("Twice"))
            ids = [each.job.id for each in (plain, twice, later)]

            async def all_done() -> bool:
                return {(await row_of(bare, each)).state for each in ids} == {JobState.COMPLETED}

            await until(all_done)

            async def cleaned() -> bool:
                async with bare.reading() as executor:
                    return await executor.job_row_get(old) is None

            await until(cleaned)

            async def ticked() -> bool:
                async with bare.reading() as executor:
                    return "tick" in await executor.job_kind_list()

            await until(ticked)
            assert client.is_leader
            assert client.notifier is None
            async with bare.reading() as executor:
                leader = await executor.leader_get()
            assert leader is not None
            assert leader.leader_id == client.id
    assert (await row_of(bare, twice.job.id)).attempt == 2
    for part in (LISTENING, NOTIFYING, REINDEXING, TRANSACTION_STATUS):
        assert f"not supported by BareDB: {part.missing}" in caplog.messages
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    async with bare.reading() as executor:
        assert await executor.leader_get() is None


async def now(driver: BareDriver) -> Any:
    """Return the database's time."""
    async with driver.reading() as executor:
        return (await executor.job_cutoff()).at


async def test_a_client_that_only_inserts(bare: BareDriver) -> None:
    client = Client(bare)
    assert await client.insert_many_fast([Greet("Ann"), Greet("Bob")]) == 2
    assert len(await client.insert_many([Greet("Ann"), Greet("Bob")])) == 2
    async with bare.reading() as executor:
        assert (await executor.job_count_exact(JobState.AVAILABLE)).value == 4


async def test_a_driver_without_sessions_works_no_jobs(bare: BareDriver) -> None:
    bare.capabilities = ()
    with pytest.raises(ConfigError, match="can insert and manage jobs"):
        Client(bare, config())
    assert Client(bare).driver is bare


async def test_each_thing_asked_for_is_refused_in_words(bare: BareDriver) -> None:
    with pytest.raises(NotSupported, match="Migrations cannot be run"):
        await migrate(bare)
    with pytest.raises(NotSupported, match="Migrations cannot be run"):
        await migration_status(bare)
    async with bare.transaction() as transaction:
        with pytest.raises(NotSupported, match="the leader cannot be asked to resign"):
            await request_resign(transaction)
    assert WORKING in bare.capabilities
