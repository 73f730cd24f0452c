"""The work of `isolation_runs`, where child processes find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riverui.engine.work.worker import Isolation, Job
from riverui.engine.work.workers import Workers


@dataclass(frozen=True, slots=True)
class Loops:
    """How often a job goes through its loop."""

    kind: ClassVar[str] = "benchmark"
    number: int


def loop(number: int) -> None:
    """Keep one core busy: 100,000 loops are some 5 ms."""
    total = 0
    for each in range(number):
        total += each * each


def compute(job: Job[Loops]) -> None:
    """Run the loop of a job."""
    loop(job.args.number)


def workers(isolation: Isolation | None) -> Workers:
    """Return the workers, in threads or in processes."""
    made = Workers()
    made.work(Loops, isolation=isolation)(compute)
    return made
