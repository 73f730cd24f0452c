"""The methods of a client for dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from riverui.actions import jobs
from riverui.domain.jobs import JobRow
from riverui.engine.job_lists import MAX_FIRST
from riverui.engine.pilot import Pilot
from riverui.engine.sync_methods import sync_method
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.domain import DeadJob
from riverui.features.dead_letters.store import DeadJobListParams, DeadLetterStore
from riverui.storage.interface import Executor, Transaction
from riverui.storage.interface.job_actions import JobChanges

if TYPE_CHECKING:
    from riverui.engine.client import Client
    from riverui.engine.sync_client import Calls


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterListParams:
    """Which dead letters to list; those moved last come first."""

    kind: str | None = None
    queue: str | None = None
    first: int = 100
    """Maximum number of dead letters, up to 10,000."""
    after: DeadJob | tuple[datetime, int] | None = None
    """Start after this dead letter or position: `last_cursor` of the previous page."""

    def __post_init__(self) -> None:
        if not 1 <= self.first <= MAX_FIRST:
            raise ValueError(f"first must be from 1 to {MAX_FIRST:,}, not {self.first}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterListResult:
    """One page of dead letters."""

    jobs: Sequence[DeadJob]
    last_cursor: tuple[datetime, int] | None
    """Where the next page starts, for `after`; None for an empty page."""


class DeadLetterBundle:
    """The dead letters of a client, `client.dead_letters`: finished jobs that it kept.

    Methods with `_tx` work in the caller's transaction, which the caller commits. They raise
    NotFound for a dead letter that does not exist, and NotSupported, which names the missing
    migration, if the table does not exist.
    """

    def __init__(self, client: Client | Calls) -> None:
        self._client = client

    async def get(self, id: int) -> DeadJob:
        """Return one dead letter by the id of its job."""
        async with self._client.driver.autocommit() as executor:
            return await dead_letters.get(executor, id)

    async def get_tx(self, tx: object, id: int) -> DeadJob:
        """Return one dead letter by the id of its job."""
        return await dead_letters.get(await self._client.driver.adopt(tx), id)

    async def list(self, params: DeadLetterListParams | None = None) -> DeadLetterListResult:
        """Return dead letters page by page, those moved last first."""
        async with self._client.driver.autocommit() as executor:
            return await _list(executor, params or DeadLetterListParams())

    async def list_tx(
        self, tx: object, params: DeadLetterListParams | None = None
    ) -> DeadLetterListResult:
        """Return dead letters page by page, those moved last first."""
        return await _list(await self._client.driver.adopt(tx), params or DeadLetterListParams())

    async def retry(self, id: int) -> JobRow:
        """Put a dead letter back among the jobs and return that job, with the id it had.

        Kind, args, max_attempts, priority, queue, tags and metadata are kept; attempts and errors
        start afresh. Raise UniqueConflict if an active job has the same unique properties; the dead
        letter then stays one.
        """
        async with self._client.driver.transaction() as transaction:
            return await _retry(transaction, id, self._client.pilot)

    async def retry_tx(self, tx: object, id: int) -> JobRow:
        """Put a dead letter back among the jobs when the transaction commits."""
        return await _retry(await self._client.driver.adopt(tx), id, self._client.pilot)

    async def retry_many(self, ids: Sequence[int]) -> JobChanges:
        """Put up to 1,000 dead letters back among the jobs. Those that cannot be retried are
        skipped and reported with the reason.
        """
        _check_ids(ids)
        return await dead_letters.retry(self._client.driver, ids, pilot=self._client.pilot)

    async def retry_many_tx(self, tx: object, ids: Sequence[int]) -> JobChanges:
        """Put up to 1,000 dead letters back among the jobs when the transaction commits."""
        _check_ids(ids)
        executor = await self._client.driver.adopt(tx)
        return await dead_letters.retry_tx(executor, ids, pilot=self._client.pilot)

    async def delete(self, id: int) -> DeadJob:
        """Remove a dead letter permanently and return it as it was."""
        async with self._client.driver.transaction() as transaction:
            return await _delete(transaction, id)

    async def delete_tx(self, tx: object, id: int) -> DeadJob:
        """Remove a dead letter permanently when the transaction commits."""
        return await _delete(await self._client.driver.adopt(tx), id)

    async def delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Remove up to 1,000 dead letters permanently; ids without a dead letter are skipped."""
        _check_ids(ids)
        return await dead_letters.delete(self._client.driver, ids)

    async def delete_many_tx(self, tx: object, ids: Sequence[int]) -> JobChanges:
        """Remove up to 1,000 dead letters permanently when the transaction commits."""
        _check_ids(ids)
        return await dead_letters.delete_tx(await self._client.driver.adopt(tx), ids)


class SyncDeadLetterBundle:
    """The dead letters of a SyncClient, `client.dead_letters`.

    Each method has the parameters and the docstring of DeadLetterBundle's.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = DeadLetterBundle(calls)

    get = sync_method(DeadLetterBundle.get)
    get_tx = sync_method(DeadLetterBundle.get_tx)
    list = sync_method(DeadLetterBundle.list)
    list_tx = sync_method(DeadLetterBundle.list_tx)
    retry = sync_method(DeadLetterBundle.retry)
    retry_tx = sync_method(DeadLetterBundle.retry_tx)
    retry_many = sync_method(DeadLetterBundle.retry_many)
    retry_many_tx = sync_method(DeadLetterBundle.retry_many_tx)
    delete = sync_method(DeadLetterBundle.delete)
    delete_tx = sync_method(DeadLetterBundle.delete_tx)
    delete_many = sync_method(DeadLetterBundle.delete_many)
    delete_many_tx = sync_method(DeadLetterBundle.delete_many_tx)


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
    with dead_letters.needing_table():
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
