"""Many queues of a client, and many clients of a process that share a small pool."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from psycopg_pool import AsyncConnectionPool

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.storage.migrations import migrate
from tests.drivers import connect
from tests.engine.conftest import Playground, Task, until

CONNECTIONS = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and backend_type = 'client backend' and pid <> pg_backend_pid()"
)


async def test_idle_queues_share_their_polls(play: Playground) -> None:
    asked: list[str] = []

    def watch(block: str, sql: str, values: object) -> None:
        asked.append(block)

    async def work(job: Job[Task]) -> None: ...

    play.worker(work)
    client = await play.start(
        queues={f"queue_{number}": QueueConfig(max_workers=1) for number in range(300)},
        fetch_poll_interval=timedelta(milliseconds=50),
        database=connect(play.database_url, watch=watch),
    )
    assert client.runtime is not None
    producers = client.runtime.producers.values()
    await play.until(lambda: all(producer.fetcher.waits for producer in producers))
    before = len(asked)
    polled = "queue_with_available_list"
    await play.until(lambda: asked[before:].count(polled) >= 5)
    # Reports of the queues and the like may come between.
    assert len(asked) - before < 5 + 20
    await play.event(await play.insert(queue="queue_299"))


async def test_clients_without_connections_of_their_own_share_a_small_pool(
    play: Playground,
) -> None:
    worked: set[str] = set()
    workers = Workers()

    @workers.work(Task)
    async def work(job: Job[Task]) -> None:
        worked.add(job.queue)

    names = [f"tenant_{number}" for number in range(20)]
    for schema in names[:2]:
        await play.connection.execute(f"create schema {schema}")
        driver = connect(play.database_url, schema=schema)
        await migrate(driver, "up")
        await driver.close()
    async with AsyncConnectionPool(play.database_url, min_size=1, max_size=3, open=False) as pool:
        clients = [
            Client(
                pool,
                ClientConfig(
                    dedicated_connections=False,
                    # Jobs are found by their notifications.
                    fetch_poll_interval=timedelta(hours=1),
                    id=name,
                    queues={name: QueueConfig(max_workers=2)},
                    schema=name if name in names[:2] else None,
                    workers=workers,
                ),
            )
            for name in names
        ]
        await asyncio.gather(*(client.start() for client in clients))
        try:
            await until(lambda: all(producer_waits(client) for client in clients))
            for client, name in zip(clients, names, strict=True):
                await client.insert(Task(), queue=name)
            await until(lambda: worked == set(names))
            [row] = await play.rows(CONNECTIONS)
            assert row["count"] <= 3 + 1

            worked.clear()
            await play.cut_connections()
            listening = [client.notifier for client in clients if client.notifier is not None]
            await until(lambda: not any(notifier.listening for notifier in listening))
            await until(lambda: all(notifier.listening for notifier in listening))
            for client, name in zip(clients, names, strict=True):
                await client.insert(Task(), queue=name)
            await until(lambda: worked == set(names))
            await until(lambda: any(client.is_leader for client in clients[2:]))
            assert clients[0].is_leader, "its schema has no other"
        finally:
            await asyncio.gather(*(client.stop() for client in clients))


def producer_waits(client: Client) -> bool:
    assert client.runtime is not None
    return all(producer.fetcher.waits for producer in client.runtime.producers.values())
