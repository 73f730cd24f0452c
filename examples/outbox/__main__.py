"""`python -m examples.outbox`: the same three changes through either relay, the index failing
meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import ExitStack

from psycopg_pool import ConnectionPool

from examples.outbox import plain_relay, river_relay
from examples.outbox.knowledge import KnowledgeInMemory
from examples.outbox.observations import Observations, Publish, create_tables
from examples.outbox.plain_relay import OutboxRelay, Pool
from riverui import SyncClient
from riverui.demo.postgres import EmbeddedPostgres
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate

WITHIN = 30
"""Seconds within which all must have arrived: each failure costs two, four, … of them."""


def main() -> None:
    """Use DATABASE_URL, or a temporary Postgres."""
    with ExitStack() as stack:
        url = os.environ.get("DATABASE_URL")
        if url is None:
            url = stack.enter_context(EmbeddedPostgres(None, durable=False)).url
        asyncio.run(_migrate(url))
        pool: Pool = stack.enter_context(ConnectionPool(url, open=True))
        with pool.connection() as connection:
            create_tables(connection)

        knowledge = KnowledgeInMemory(failures={"garden": 1})
        with OutboxRelay(pool, knowledge) as relay:
            change(pool, plain_relay.publish)
            relay.start()
            report("the plain relay", arrived(knowledge))

        knowledge = KnowledgeInMemory(failures={"garden": 1})
        change(pool, river_relay.publish)
        asyncio.run(by_river(url, pool, knowledge))
        with SyncClient(url) as river:
            for job in river.job_list().jobs:
                print(f"  job {job.id}, {job.args}: {job.state} at attempt {job.attempt}")


def change(pool: Pool, publish: Publish) -> None:
    """Save two observations, and one in a transaction that is rolled back."""
    observations = Observations(publish)
    with pool.connection() as connection:
        observations.save(connection, "garden", "the pond is frozen")
        observations.save(connection, "house", "the door is open")
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        observations.save(connection, "attic", "nobody will ever know")


async def by_river(url: str, pool: Pool, knowledge: KnowledgeInMemory) -> None:
    """Deliver what was published as jobs."""
    async with river_relay.new_client(url, pool, knowledge):
        report("River", await asyncio.to_thread(arrived, knowledge))


def arrived(knowledge: KnowledgeInMemory) -> dict[str, int]:
    """Wait until both scopes are known, and return how often each was delivered; SystemExit after
    half a minute.
    """
    until = time.monotonic() + WITHIN
    while len(knowledge.documents) < 2:
        if time.monotonic() > until:
            sys.exit("not all was delivered")
        time.sleep(0.1)
    return {scope: knowledge.calls[scope] for scope in sorted(knowledge.documents)}


def report(relay: str, calls: dict[str, int]) -> None:
    """Print how often each scope was delivered, tries that failed included."""
    print(f"{relay}: " + ", ".join(f"{scope} at try {n}" for scope, n in calls.items()))


async def _migrate(url: str) -> None:
    driver = connect(url)
    await migrate(driver, "up")
    await driver.close()


if __name__ == "__main__":
    main()
