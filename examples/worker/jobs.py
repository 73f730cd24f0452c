"""The smallest worker there is. Here: `riverui worker jobs:client`, and `python jobs.py` gives it a
job.
"""

from __future__ import annotations

import asyncio
import logging
import os

from riverui import Client, ClientConfig, QueueConfig, Workers

log = logging.getLogger(__name__)
workers = Workers()


@workers.task
async def sort(strings: list[str]) -> None:
    """Log them in order; the dashboard shows the log with the job."""
    log.info("sorted: %s", ", ".join(sorted(strings)))


# Without it, libpq's PGHOST, PGDATABASE, … are used.
DATABASE_URL = os.environ.get("DATABASE_URL")

client = Client(
    DATABASE_URL, ClientConfig(queues={"default": QueueConfig(max_workers=10)}, workers=workers)
)


async def main() -> None:
    """Insert a job, through a client that has no queues and so works none."""
    async with Client(DATABASE_URL) as inserting:
        result = await sort.insert(inserting, strings=["whale", "tiger", "bear"])
        print(result.job.id)


if __name__ == "__main__":
    asyncio.run(main())
