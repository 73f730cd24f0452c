"""Logs at intervals how many jobs a client has worked: River's producer job counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from riverui.domain.text import counted
from riverui.engine.waiting import pass_on_cancellation

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

INTERVAL = 60.0
"""Seconds between two lines of one queue: with River's five, a single periodic job would fill the
log.
"""


class JobCounts(NamedTuple):
    """The counts of one queue."""

    worked: int
    """Attempts that have ended since the client's start, with any outcome."""
    running: int
    stuck: int


async def log_job_counts(
    queues: Mapping[str, Producer], logger: logging.Logger, *, interval: float = INTERVAL
) -> None:
    """Log the counts of each queue that have changed, until cancelled."""
    logged: dict[str, JobCounts] = {}
    while True:
        pass_on_cancellation()
        await asyncio.sleep(interval)
        logged = log_changed(queues, logged, logger)


def log_changed(
    queues: Mapping[str, Producer], logged: Mapping[str, JobCounts], logger: logging.Logger
) -> dict[str, JobCounts]:
    """Log the counts that differ from those logged last; return all current counts."""
    now = {name: queue.slots.counts for name, queue in queues.items()}
    for name, counts in now.items():
        if counts != logged.get(name, JobCounts(0, 0, 0)):
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
