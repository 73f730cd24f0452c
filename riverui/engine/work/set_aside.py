"""Excludes jobs that a statement cannot process for a while, so that all others are processed.

A trigger, a foreign key or a unique key may prevent the change of one row, or its pages may be
damaged: then the whole statement fails, each time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from riverui.errors import BadRequest, DatabaseError, UniqueConflict

_MAX_JOBS = 1_000
"""Most jobs set aside at a time: with more, something else is wrong."""
_MAX_LOGGED = 10_000
"""Ids that are remembered as logged: 1 MB."""
_ROWS_FAULT = ("22", "23", "38", "39", "44", "54", "P0", "XX")
"""Classes of SQLSTATE that one row can cause: invalid values, constraints, triggers, limits,
damaged pages.
"""


class SetAside:
    """The excluded jobs; each is logged once."""

    def __init__(
        self,
        name: str,
        logger: logging.Logger,
        *,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._name = name
        self._now = now
        self._seconds = seconds
        """How long a job is excluded before it is tried again."""
        self._logged: set[int] = set()
        self._until: dict[int, float] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """The currently excluded jobs."""
        if not self._until:
            return ()
        now = self._now()
        self._until = {job_id: until for job_id, until in self._until.items() if until > now}
        return tuple(self._until)

    @property
    def full(self) -> bool:
        """Whether no more jobs can be set aside."""
        return len(self._until) >= _MAX_JOBS

    def add(self, job_id: int, error: Exception) -> None:
        """Exclude a job for a while, and log why unless it was logged before."""
        self._until[job_id] = self._now() + self._seconds
        self.log(job_id, error)

    def log(self, job_id: int, error: Exception) -> None:
        """Log that a job cannot be processed, unless it was logged before."""
        if job_id in self._logged:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged.add(job_id)
        self._logger.error(
            "%s: job %d cannot be processed and is skipped for now: %s",
            self._name,
            job_id,
            error,
        )


def is_rows_fault(error: Exception) -> bool:
    """Return whether a single row may be the cause of a failed statement."""
    if isinstance(error, BadRequest | UniqueConflict):
        return True
    return isinstance(error, DatabaseError) and (error.sqlstate or "")[:2] in _ROWS_FAULT


async def passing_over(
    limit: int,
    once: Callable[[int], Awaitable[int]],
    first: Callable[[], Awaitable[int | None]],
    aside: SetAside,
) -> int:
    """Process up to `limit` rows with `once`, which takes a limit and returns how many rows it has
    processed; return the sum.

    If a row makes it fail, the limit is halved, down to the one row that `first` returns; if that
    fails twice, it is set aside. Other errors, and errors of more rows than can be set aside, are
    raised.
    """
    done, most, doubtful = 0, limit, False
    while done < limit:
        part = min(most, limit - done)
        try:
            found = await once(part)
        except Exception as error:
            if not is_rows_fault(error) or aside.full:
                raise
            if part > 1:
                most = part // 2
            elif not doubtful:
                doubtful = True
            else:
                job_id = await first()
                if job_id is None:
                    raise
                aside.add(job_id, error)
                most, doubtful = limit, False
            continue
        done, doubtful = done + found, False
        if found < part:
            break
    return done
