"""The statements that write how attempts ended, with or without features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import JobEnd, Pilot
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.outcome import Outcome, attempt_error, completed
from riverui.errors import RiveruiError
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobSetStateParams

if TYPE_CHECKING:
    from riverui.features.figures.engine.attempt_tallies import AttemptTallies


class OutcomeWrites:
    """Writes how attempts ended: each method is one statement or one transaction."""

    def __init__(self, connection: DedicatedConnection, pilot: Pilot, limits: EngineLimits) -> None:
        self.tallies: AttemptTallies | None = None
        """Counts what was written, if figures are stored."""
        self._connection = connection
        self._limits = limits
        self._pilot = pilot

    async def complete(
        self, attempts: Sequence[Attempt], connection: DedicatedConnection | None = None
    ) -> Sequence[int]:
        """Write attempts that succeeded; return the ids of those that were still running."""
        ids = [attempt.row.id for attempt in attempts]
        ended_at = self._ended_at(attempts)
        of_attempts = [attempt.row.attempt for attempt in attempts]
        connection = connection or self._connection
        if any(attempt.ephemeral for attempt in attempts):
            written = await _remove(connection, attempts, ended_at)
        else:
            written = await connection.call(
                lambda executor: executor.work.complete_many(ids, ended_at, of_attempts=of_attempts)
            )
        if self.tallies is not None:
            self.tallies.completed(attempts, ended_at, written)
        return written

    async def complete_by_features(
        self, attempts: Sequence[Attempt], connection: DedicatedConnection | None = None
    ) -> Sequence[int]:
        """Do the same through the pilot, in one transaction."""
        ended_at = self._ended_at(attempts)
        ends = [
            JobEnd(
                attempt.row, completed(attempt.row, at, None, ephemeral=attempt.ephemeral).params
            )
            for attempt, at in zip(attempts, ended_at, strict=True)
        ]
        connection = connection or self._connection
        rows = await connection.call_in_transaction(
            lambda executor: self._pilot.set_state_if_running_many(executor, ends)
        )
        # A feature may return rows of other jobs whose states it has changed.
        ids = {attempt.row.id for attempt in attempts}
        written = [row.id for row in rows if row.state is JobState.COMPLETED and row.id in ids]
        if self.tallies is not None:
            self.tallies.completed(attempts, ended_at, written)
        return written

    def _ended_at(self, attempts: Sequence[Attempt]) -> Sequence[datetime]:
        """Return the ends to write, with one time for all if many ended together."""
        first, last = attempts[0].ended_at, attempts[-1].ended_at
        if (
            len(attempts) >= self._limits.outcomes_at_once
            and last - first <= self._limits.same_time
        ):
            return [last] * len(attempts)
        return [attempt.ended_at for attempt in attempts]

    async def set_states(self, changes: Sequence[tuple[Attempt, Outcome]]) -> Sequence[JobRow]:
        """Write other outcomes; return the new rows of jobs that exist."""
        if self._pilot.ends and any(self._pilot.wants_end(attempt.row) for attempt, _ in changes):
            ends = [JobEnd(attempt.row, ended.params) for attempt, ended in changes]
            rows = await self._connection.call_in_transaction(
                lambda executor: self._pilot.set_state_if_running_many(executor, ends)
            )
        else:
            params = [ended.params for _, ended in changes]
            # Deleting some and changing others are two statements.
            removes = any(each.ephemeral for each in params)
            connection = self._connection
            call = connection.call_in_transaction if removes else connection.call
            rows = await call(lambda executor: executor.work.set_state_many(params))
        if self.tallies is not None:
            self.tallies.ended(changes, rows)
        return rows


async def _remove(
    connection: DedicatedConnection, attempts: Sequence[Attempt], ended_at: Sequence[datetime]
) -> Sequence[int]:
    """Delete the ephemeral jobs of attempts that succeeded, and complete the others; return the ids
    of those that were still running.
    """
    removed = [attempt for attempt in attempts if attempt.ephemeral]
    kept = [
        (attempt, at)
        for attempt, at in zip(attempts, ended_at, strict=True)
        if not attempt.ephemeral
    ]
    ids = [attempt.row.id for attempt in removed]
    of_attempts = [attempt.row.attempt for attempt in removed]

    async def remove(executor: Executor) -> Sequence[int]:
        return await executor.work.delete_completed_many(ids, of_attempts=of_attempts)

    if not kept:
        return await connection.call(remove)

    async def both(executor: Executor) -> Sequence[int]:
        written = await executor.work.complete_many(
            [attempt.row.id for attempt, _ in kept],
            [at for _, at in kept],
            of_attempts=[attempt.row.attempt for attempt, _ in kept],
        )
        return [*written, *await remove(executor)]

    return await connection.call_in_transaction(both)


def few_enough(changes: Iterable[tuple[Attempt, Outcome]], limits: EngineLimits) -> int:
    """Return how many of the outcomes to write together: at least one, however large. Plain
    successes hardly count, as they are fast to write.
    """
    count = others = size = 0
    for _, (params, *_) in islice(changes, limits.completions):
        size += len(params.metadata or "") + len(params.error or "")
        others += params.metadata is not None or params.state is not JobState.COMPLETED
        if count and (size > limits.changes_characters or others > limits.changes):
            break
        count += 1
    return count


def without_texts(ending: object) -> object:
    """Return an outcome without the texts that come from the job."""
    if not isinstance(ending, tuple):
        return ending
    attempt, ended = ending
    params: JobSetStateParams = ended.params
    error = params.error and attempt_error(
        attempt.row,
        attempt.started_at,
        RiveruiError("The error of this attempt cannot be stored."),
        ended.why,
    )
    return attempt, ended._replace(params=params._replace(error=error, metadata=None))
