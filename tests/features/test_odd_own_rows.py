"""Odd rows of riverui's own tables stop no client, and no service of the leader."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from riverui.domain.partitions import PartitionConfig
from riverui.engine.config import QueueConfig
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.notifier import Notifier
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.interface import Driver
from tests.engine.conftest import Playground, Task
from tests.engine.ticking import Ticking
from tests.odd_rows import insert_odd_own_rows

BY_VALUE = PartitionConfig(by_args=["value"])
"""The keys that odd rows have."""
QUEUE = QueueConfig(
    max_workers=10,
    concurrency=ConcurrencyConfig(global_limit=5, partition=BY_VALUE),
    rate_limit=RateLimit(limit=1_000, partition=BY_VALUE),
)


async def test_a_client_works_and_leads_beside_odd_rows(
    own_tables: None, play: Playground, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    rows = await insert_odd_own_rows(play.connection)
    # The jobs that the rows are about: waiting ones and finished ones.
    await play.connection.execute(
        "insert into river_job (id, args, kind, max_attempts, state, finalized_at)"
        " select n, '{}', 'task', 25, s::river_job_state, case s when 'cancelled' then now() end"
        " from (select n, (array['pending', 'cancelled'])[1 + n %% 2] as s"
        " from generate_series(1, %s) n) j",
        [len(rows)],
    )
    await play.connection.execute("select setval('river_job_id_seq', %s)", [len(rows)])
    client = await play.start(
        leader_election_disabled=False,
        heartbeat_interval=timedelta(seconds=1),
        dead_letter=DeadLetterConfig(enabled=True, retention_period=timedelta(days=1)),
        durable_periodic_jobs=DurablePeriodicJobsConfig(enabled=True),
        queues={"default": QUEUE},
    )
    # Jobs of every key that has a row of limits or of rates. An odd one may keep its own waiting.
    for row in rows:
        if row.table in ("riverui_limit", "riverui_rate"):
            await play.insert(Task(f"usual{row.number}"))
    usual = await play.insert(Task("of a key without a row"))
    await play.in_state(usual, "completed")

    async def long_silent_clients_are_dead() -> bool:
        return not await play.rows(
            "select from riverui_client where declared_dead_at is null"
            " and heartbeat_at < now() - interval '10 days'"
        )

    await play.until(long_silent_clients_are_dead)
    clock, failures = Ticking(), []
    context = ServiceContext(
        driver=driver,
        clock=clock.now,
        logger=logging.getLogger("test"),
        notifier=Notifier(driver, logging.getLogger("test")),
        now=clock.steady,
    )
    for service in client.pilot.services(context):
        for _ in range(2):
            try:
                await service.run_once()
            except Exception as error:
                failures.append(f"{service.name}: {error!r}")
            clock.advance(service.interval.total_seconds())
    failures += [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and "is declared dead" not in record.getMessage()
    ]
    assert not failures, "\n".join(failures[:50])
