"""Jobs that a statement cannot process are left out of it for a while, so that all others are
processed.

Somebody's trigger or foreign key may refuse to have one row changed, a unique key may be in its
way, its pages may be broken: the statement fails as a whole then, and would fail again and again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from riverui.errors import BadRequest, DatabaseError, UniqueConflict

_MOST_JOBS = 1_000
"""Jobs set aside at a time: with more of them, something else is wrong."""
_MOST_TOLD = 10_000
"""Ids that are remembered as logged: 1 MB."""
_ROWS_FAULT = ("22", "23", "38", "39", "44", "54", "P0", "XX")
"""Classes of SQLSTATE that one row can cause: odd values, constraints, triggers, limits, broken
pages.
"""


class SetAside:
    """The jobs that are left out, each told once."""

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
        """How long a job is left out before it is tried again."""
        self._told: set[int] = set()
        self._until: dict[int, float] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """The jobs that are left out now."""
        if not self._until:
            return ()
        now = self._now()
        self._until = {job_id: until for job_id, until in self._until.items() if until > now}
        return tuple(self._until)

    @property
    def full(self) -> bool:
        """Whether no more jobs can be set aside."""
        return len(self._until) >= _MOST_JOBS

    def add(self, job_id: int, error: Exception) -> None:
        """Leave a job out for a while, and tell why unless that was told before."""
        self._until[job_id] = self._now() + self._seconds
        self.tell(job_id, error)

    def tell(self, job_id: int, error: Exception) -> None:
        """Tell that a job cannot be processed, unless that was told before."""
        if job_id in self._told:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(job_id)
        self._logger.error(
            "%s: job %d cannot be processed and is skipped for now: %s",
            self._name,
            job_id,
            error,
        )


def is_rows_fault(error: Exception) -> bool:
    """Return whether a single row may be why a statement failed."""
    if isinstance(error, BadRequest | UniqueConflict):
        return True
    return isinstance(error, DatabaseError) and (error.sqlstate or "")[:2] in _ROWS_FAULT


async def passing_over(
    limit: int,
    once: Callable[[int], Awaitable[int]],
    first: Callable[[], Awaitable[int | None]],
    aside: SetAside,
) -> int:
    """Process up to `limit` rows with `once`, which takes how many and tells how many there were;
    the sum.

    Where a row makes it fail, fewer rows are taken, and in the end only the one that `first` names:
    if that fails twice, it is set aside. Other errors, and those of more rows than can be set
    aside, are raised.
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
