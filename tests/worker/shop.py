"""What the tests' worker processes work: run in this folder as `riverui worker shop:client`."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any, ClassVar

from riverui import Client, ClientConfig, Job, QueueConfig, Workers

log = logging.getLogger("shop")
workers = Workers()


class Args:
    """Anything."""

    kind: ClassVar[str]

    @classmethod
    def from_json(cls, text: str) -> Args:
        return cls()


class Quick(Args):
    kind = "quick"


class Slow(Args):
    kind = "slow"


class Steady(Args):
    kind = "steady"


class Broken(Args):
    kind = "broken"


class Deaf(Args):
    kind = "deaf"


class DeafThread(Args):
    kind = "deaf_thread"


@workers.work(Quick)
async def quick(job: Job[Any]) -> None:
    log.info("quick %s", job.id)


@workers.work(Steady)
async def steady(job: Job[Any]) -> None:
    """End well within a second."""
    await asyncio.sleep(0.8)


@workers.work(Slow)
async def slow(job: Job[Any]) -> None:
    """End when it is cancelled."""
    await asyncio.sleep(50)


@workers.work(Broken)
def broken(job: Job[Any]) -> None:
    """Fails, in a thread."""
    log.info("looking at %s", job.id)
    raise ValueError("nothing there")


@workers.work(Deaf)
async def deaf(job: Job[Any]) -> None:
    """Go on when it is cancelled."""
    while True:
        try:
            await asyncio.sleep(50)
        except asyncio.CancelledError:
            log.info("did you say something?")


@workers.work(DeafThread)
def deaf_thread(job: Job[Any]) -> None:
    time.sleep(50)


config = ClientConfig(
    id=os.environ.get("CLIENT_ID"),
    queues={"default": QueueConfig(max_workers=10), "other": QueueConfig(max_workers=2)},
    workers=workers,
)
client = Client(
    os.environ.get("DATABASE_URL", "postgresql://nobody:hunter2@127.0.0.1:1/none"), config
)
without_queues = Client(client.driver, ClientConfig(workers=workers))
number = 7
"""What is no client, whatever its size."""


def make() -> Client:
    return client


async def make_slowly() -> Client:
    await asyncio.sleep(0)
    return client


def make_for(tenant: str) -> Client:
    return client
