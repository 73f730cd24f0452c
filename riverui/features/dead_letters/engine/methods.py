"""Looking after dead letters through a client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from riverui.actions import jobs
from riverui.domain.jobs import JobRow
from riverui.engine.job_lists import MOST
from riverui.engine.pilot import Pilot
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.domain import DeadJob
from riverui.features.dead_letters.store import DeadJobListParams, DeadLetterStore
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import JobChanges


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterListParams:
    """Which dead letters a list has, those moved last first."""

    kind: str | None = None
    queue: str | None = None
    first: int = 100
    """At most so many, up to 10,000."""
    after: DeadJob | tuple[datetime, int] | None = None
    """Begins behind that dead letter, or that place: `last_cursor` of the page before."""

    def __post_init__(self) -> None:
        if not 1 <= self.first <= MOST:
            raise ValueError(f"first must be from 1 to {MOST:,}, not {self.first}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterListResult:
    """One page of dead letters."""

    jobs: Sequence[DeadJob]
    last_cursor: tuple[datetime, int] | None
    """Where the next page begins, for `after`; None without dead letters."""


class DeadLetterMethods:
    """The part of a Client that looks after dead letters: jobs that it kept after their retention.

    Methods with `_tx` work in a transaction of the caller's; see AdminMethods. A dead letter that
    is not there is NotFound; NotSupported says which migration is missing.
    """

    driver: Driver
    pilot: Pilot

    async def dead_letter_get(self, id: int) -> DeadJob:
        """Return one dead letter by the id of its job."""
        async with self.driver.autocommit() as executor:
            return await dead_letters.get(executor, id)

    async def dead_letter_get_tx(self, tx: object, id: int) -> DeadJob:
        """Return one dead letter by the id of its job."""
        return await dead_letters.get(await self.driver.adopt(tx), id)

    async def dead_letter_list(
        self, params: DeadLetterListParams | None = None
    ) -> DeadLetterListResult:
        """Return dead letters page by page, those moved last first."""
        async with self.driver.autocommit() as executor:
            return await _list(executor, params or DeadLetterListParams())

    async def dead_letter_list_tx(
        self, tx: object, params: DeadLetterListParams | None = None
    ) -> DeadLetterListResult:
        """Return dead letters page by page, those moved last first."""
        return await _list(await self.driver.adopt(tx), params or DeadLetterListParams())

    async def dead_letter_retry(self, id: int) -> JobRow:
        """Put a dead letter back among the jobs and return that job, under the id it had.

        Kind, args, max_attempts, priority, queue, tags and metadata are kept; attempts and errors
        begin anew. UniqueConflict where an active job has the same unique properties: it stays a
        dead letter.
        """
        async with self.driver.transaction() as transaction:
            return await _retry(transaction, id, self.pilot)

    async def dead_letter_retry_tx(self, tx: object, id: int) -> JobRow:
        """Put a dead letter back among the jobs when the transaction commits."""
        return await _retry(await self.driver.adopt(tx), id, self.pilot)

    async def dead_letter_retry_many(self, ids: Sequence[int]) -> JobChanges:
        """Put up to 1,000 dead letters back among the jobs; those that cannot be are skipped, and
        told with the reason.
        """
        _check_ids(ids)
        return await dead_letters.retry(self.driver, ids, pilot=self.pilot)

    async def dead_letter_retry_many_tx(self, tx: object, ids: Sequence[int]) -> JobChanges:
        """Put up to 1,000 dead letters back among the jobs when the transaction commits."""
        _check_ids(ids)
        executor = await self.driver.adopt(tx)
        return await dead_letters.retry_tx(executor, ids, pilot=self.pilot)

    async def dead_letter_delete(self, id: int) -> DeadJob:
        """Remove a dead letter for good, and return it as it was."""
        async with self.driver.transaction() as transaction:
            return await _delete(transaction, id)

    async def dead_letter_delete_tx(self, tx: object, id: int) -> DeadJob:
        """Remove a dead letter for good when the transaction commits."""
        return await _delete(await self.driver.adopt(tx), id)

    async def dead_letter_delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Remove up to 1,000 dead letters for good; those that are not there are skipped."""
        _check_ids(ids)
        return await dead_letters.delete(self.driver, ids)

    async def dead_letter_delete_many_tx(self, tx: object, ids: Sequence[int]) -> JobChanges:
        """Remove up to 1,000 dead letters for good when the transaction commits."""
        _check_ids(ids)
        return await dead_letters.delete_tx(await self.driver.adopt(tx), ids)


def _check_ids(ids: Sequence[int]) -> None:
    if len(ids) > jobs.MAX_IDS:
        raise ValueError(f"at most {jobs.MAX_IDS:,} ids at a time, not {len(ids):,}")


async def _list(executor: Executor, params: DeadLetterListParams) -> DeadLetterListResult:
    after = params.after
    if isinstance(after, DeadJob):
        after = after.died_at, after.id
    asked = DeadJobListParams(
        kind=params.kind or "", queue=params.queue or "", after=after, limit=params.first
    )
    with dead_letters.table_told():
        rows = await DeadLetterStore(executor).dead_job_whole_list(asked)
    return DeadLetterListResult(
        jobs=rows, last_cursor=(rows[-1].died_at, rows[-1].id) if rows else None
    )


async def _retry(transaction: Transaction, id: int, pilot: Pilot) -> JobRow:
    dead_letters.check(id, await dead_letters.retry_tx(transaction, [id], pilot=pilot))
    return await jobs.get(transaction, id)


async def _delete(executor: Executor, id: int) -> DeadJob:
    row = await dead_letters.get(executor, id)
    dead_letters.check(id, await dead_letters.delete_tx(executor, [id]))
    return row
