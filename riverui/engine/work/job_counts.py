"""Logs now and then what a client has been doing: River's producer job counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from riverui.domain.numbers import counted
from riverui.engine.waiting import pass_on_cancellation

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

INTERVAL = 60.0
"""Seconds between two lines of one queue: River's five let a single periodic job fill the log."""


class JobCounts(NamedTuple):
    """What a queue's producer has done and does."""

    worked: int
    """Attempts that have ended since its start, however they ended."""
    running: int
    stuck: int


async def tell_job_counts(
    queues: Mapping[str, Producer], logger: logging.Logger, *, interval: float = INTERVAL
) -> None:
    """Log the counts of each queue whose counts have changed, until cancelled."""
    told: dict[str, JobCounts] = {}
    while True:
        pass_on_cancellation()
        await asyncio.sleep(interval)
        told = tell_changed(queues, told, logger)


def tell_changed(
    queues: Mapping[str, Producer], told: Mapping[str, JobCounts], logger: logging.Logger
) -> dict[str, JobCounts]:
    """Log the counts that differ from those told last; return all the counts as they are now."""
    now = {name: queue.slots.counts for name, queue in queues.items()}
    for name, counts in now.items():
        if counts != told.get(name, JobCounts(0, 0, 0)):
            logger.info(
                "queue %s: %s worked, %d running, %d stuck",
                name,
                counted(counts.worked, "job"),
                counts.running,
                counts.stuck,
                extra={
                    "queue": name,
                    "num_completed_jobs": counts.worked,
                    "num_jobs_running": counts.running,
                    "num_jobs_stuck": counts.stuck,
                },
            )
    return now
