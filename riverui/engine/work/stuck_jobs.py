"""Counts and logs the jobs of a client that run long past their time limit."""

from __future__ import annotations

import logging

from riverui.domain.jobs import JobRow
from riverui.engine.work.failure_log import job_fields
from riverui.engine.work.worker import StuckHandler, StuckJob


class StuckJobs:
    """The stuck jobs of all queues of one client."""

    def __init__(self, handler: StuckHandler | None, logger: logging.Logger) -> None:
        self.count = 0
        """How many are currently stuck."""
        self._handler = handler
        self._logger = logger

    def add(self, row: JobRow) -> bool:
        """Log a stuck job, and return whether the program's handler wants another job to run in its
        place.
        """
        self.count += 1
        self._logger.warning(
            "job %s (%s) seems to be stuck: it does not end when cancelled",
            row.id,
            row.kind,
            extra=job_fields(row),
        )
        if self._handler is None:
            return False
        stuck = StuckJob(id=row.id, kind=row.kind, queue=row.queue, total_stuck_jobs=self.count)
        try:
            result = self._handler(stuck)
        except Exception:
            self._logger.exception("the stuck handler failed on job %s", row.id)
            return False
        return result is not None and result.add_worker_slot

    def remove(self, row: JobRow) -> None:
        """Log that a stuck job has ended."""
        self.count -= 1
        self._logger.info("job %s (%s) is no longer stuck", row.id, row.kind, extra=job_fields(row))
