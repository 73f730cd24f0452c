"""What the worker processes of the benchmark work: `tests.bench.engine.process_client:client`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from riverui import Client, ClientConfig, Job, QueueConfig, Workers

_TURNS = 150_000
"""Of a loop, which take some 5 ms."""
workers = Workers()


@dataclass(frozen=True, slots=True)
class Noop:
    """Args of jobs that do nothing."""

    kind: ClassVar[str] = "noop"


@dataclass(frozen=True, slots=True)
class Compute:
    """Args of jobs that need a processor."""

    kind: ClassVar[str] = "compute"


def loop() -> int:
    """Keep a processor busy for some 5 ms."""
    total = 0
    for number in range(_TURNS):
        total += number & 3
    return total


@workers.work(Noop)
async def noop(job: Job[Noop]) -> None:
    """Do nothing."""


@workers.work(Compute)
def compute(job: Job[Compute]) -> None:
    """Compute for some 5 ms, in Python alone."""
    loop()


client = Client(
    os.environ.get("DATABASE_URL"),
    ClientConfig(
        # As `riverui bench` does: few slots would wait for the cooldown.
        fetch_cooldown=timedelta(milliseconds=2),
        queues={"default": QueueConfig(max_workers=1_000)},
        workers=workers,
    ),
)
