"""A program that works isolated jobs until it is killed."""

from __future__ import annotations

import asyncio
import sys

from riverui import Client, ClientConfig, QueueConfig, Workers
from tests.engine.processes import jobs
from tests.engine.processes.jobs import Act


async def main(url: str) -> None:
    """Work the jobs of the queue `default` in two processes."""
    workers = Workers()
    workers.work(Act, isolation="process")(jobs.act)
    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=10)}, workers=workers, isolation_processes=2
    )
    async with Client(url, config) as client:
        await client.stopped()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
