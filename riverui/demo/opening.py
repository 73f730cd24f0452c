"""Opens the demo shop: two clients that work its jobs, and customers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from random import Random

from riverui.demo.customers import Customers, periodic_jobs
from riverui.demo.fulfilment import Orders, fulfilment_client, leading
from riverui.demo.incidents.incident import Incident
from riverui.demo.shop import LANGUAGE, QUEUES, client_ids
from riverui.demo.workers import shop_workers
from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSelectParams, JobSetStateParams

_RESCUED_AFTER = timedelta(minutes=10)
"""When a running job counts as lost: longer than any of the shop's, and soon enough to be seen."""


@contextmanager
def _logging_for_the_dashboard() -> Iterator[None]:
    """Keep what jobs log in the database, and off the terminal."""
    silence, shop = logging.NullHandler(), logging.getLogger("shop")
    loggers = (shop, logging.getLogger("riverui.engine"))
    for logger in loggers:
        logger.addHandler(silence)
    shop.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        shop.setLevel(logging.NOTSET)
        for logger in loggers:
            logger.removeHandler(silence)


@asynccontextmanager
async def working(driver: Driver, incident: Incident | None = None) -> AsyncIterator[list[Client]]:
    """Work the shop's jobs as long as the block lasts, and give back what is under way at
    its end. With an incident they are worked as it goes on, by no client where nobody works.
    """
    now, rng = datetime.now(UTC), Random()
    with _logging_for_the_dashboard():
        clients = [
            _client(driver, language, now, rng, incident)
            for language in sorted(set(LANGUAGE.values()))
            if incident is None or incident.works
        ]
        if incident is not None and clients and not incident.loses:
            await give_back(driver)
        ordering: list[Customers | Orders] = [_customers(driver, clients, rng, incident)]
        if incident is None:
            fulfilment = fulfilment_client(driver, rng)
            clients.append(fulfilment)
            ordering.append(Orders(fulfilment, rng))
        for client in clients:
            await client.start()
        tasks = [asyncio.create_task(each.run()) for each in ordering]
        try:
            yield clients
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.gather(*(client.stop_and_cancel() for client in clients))


def _customers(
    driver: Driver, clients: list[Client], rng: Random, incident: Incident | None
) -> Customers:
    if incident is None:
        return Customers(clients[0], rng)
    return Customers(Client(driver), rng, per_second=incident.per_second, also=incident.orders)


async def give_back(driver: Driver) -> None:
    """Make jobs available that a killed demo has left running, without waiting for their rescue."""
    now = datetime.now(UTC)
    async with driver.transaction() as db:
        running = await db.job_row_list(JobSelectParams(states=(JobState.RUNNING,), limit=1_000))
        # One of them is stuck on purpose, for hours.
        left = [
            row
            for row in running
            if row.attempted_at and now - row.attempted_at < timedelta(hours=1)
        ]
        await db.job_set_state_many(
            [
                JobSetStateParams(
                    id=row.id,
                    state=JobState.AVAILABLE,
                    attempt=max(row.attempt - 1, 0),
                    scheduled_at=now,
                )
                for row in left
            ]
        )


def _client(
    driver: Driver, language: str, now: datetime, rng: Random, incident: Incident | None
) -> Client:
    leads = incident is None or incident.leads
    config = ClientConfig(
        id=client_ids(language, now)[0],
        job_timeout=timedelta(minutes=2),
        leader_election_disabled=not leads,
        queues={
            queue.name: QueueConfig(max_workers=queue.workers)
            for queue in QUEUES
            if queue.language == language
        },
        # An incident lasts: who was killed is found by the report, not by the rescuer.
        rescue_stuck_jobs_after=_RESCUED_AFTER if incident is None else None,
        workers=shop_workers(incident.troubles if incident else None),
        **(leading(*periodic_jobs(rng)) if incident is None else {}),
    )
    return Client(driver, config)
