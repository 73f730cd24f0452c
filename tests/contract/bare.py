"""A driver that has what it must have and nothing besides: each operation is handed on by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

from riverui.domain.jobs import JobState
from riverui.storage.interface import WORKING, Capability, Executor, Transaction, WorkingDriver
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams
from riverui.storage.interface.params import Count, CountKind, JobJsonPage, JobPageParams


class BareExecutor:
    """The operations that every driver has, another driver's; no notifications, no estimates."""

    capabilities: Collection[Capability[Any]] = frozenset()

    def __init__(self, inner: Executor) -> None:
        self._inner = inner
        # Engine
        self.job_get_available = inner.job_get_available
        self.job_first_available = inner.job_first_available
        self.job_begin = inner.job_begin
        self.job_complete_many = inner.job_complete_many
        self.job_delete_completed_many = inner.job_delete_completed_many
        self.job_set_state_many = inner.job_set_state_many
        self.job_running_list = inner.job_running_list
        self.job_cancel_requested = inner.job_cancel_requested
        self.job_update = inner.job_update
        self.job_row_get = inner.job_row_get
        self.job_row_count = inner.job_row_count
        self.job_row_list = inner.job_row_list
        self.job_schedule = inner.job_schedule
        self.job_first_due = inner.job_first_due
        self.job_get_stuck = inner.job_get_stuck
        self.job_first_stuck = inner.job_first_stuck
        self.job_rescue_many = inner.job_rescue_many
        self.job_delete_before = inner.job_delete_before
        self.job_first_old = inner.job_first_old
        self.queue_upsert = inner.queue_upsert
        self.queue_upsert_many = inner.queue_upsert_many
        self.queue_row_get = inner.queue_row_get
        self.queue_row_get_many = inner.queue_row_get_many
        self.queue_with_available_list = inner.queue_with_available_list
        self.queue_delete_expired = inner.queue_delete_expired
        self.leader_get = inner.leader_get
        self.leader_attempt_elect = inner.leader_attempt_elect
        self.leader_attempt_reelect = inner.leader_attempt_reelect
        self.leader_resume = inner.leader_resume
        self.leader_resign = inner.leader_resign
        # Browse
        self.job_count = inner.job_count
        self.job_count_exact = inner.job_count_exact
        self.job_cutoff = inner.job_cutoff
        self.job_get = inner.job_get
        self.job_log_piece = inner.job_log_piece
        self.job_text_piece = inner.job_text_piece
        self.job_text_get = inner.job_text_get
        self.job_list = inner.job_list
        self.job_text_list = inner.job_text_list
        self.job_kind_list = inner.job_kind_list
        self.job_progress = inner.job_progress
        self.queue_get = inner.queue_get
        self.queue_list = inner.queue_list
        self.queue_kind_count = inner.queue_kind_count
        self.queue_failure_list = inner.queue_failure_list
        self.queue_name_list = inner.queue_name_list
        self.queue_row_name_list = inner.queue_row_name_list
        self.queue_count_list = inner.queue_count_list
        self.queue_count_get = inner.queue_count_get
        # Admin
        self.job_cancel_many = inner.job_cancel_many
        self.job_move_many = inner.job_move_many
        self.job_retry_many = inner.job_retry_many
        self.job_outcome_list = inner.job_outcome_list
        self.job_delete_many = inner.job_delete_many
        self.job_row_delete_many = inner.job_row_delete_many
        self.queue_pause = inner.queue_pause
        self.queue_resume = inner.queue_resume
        self.queue_row_list = inner.queue_row_list
        self.queue_set_concurrency = inner.queue_set_concurrency
        self.queue_set_rate_limit = inner.queue_set_rate_limit
        self.queue_touch = inner.queue_touch
        self.queue_update = inner.queue_update

    async def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        return await self._inner.job_insert_many(jobs)

    async def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        return await self._inner.job_insert_many_fast(jobs)

    async def job_json_list(self, params: JobPageParams, *, args: int) -> JobJsonPage | None:
        return None

    async def job_json_get(self, id: int) -> str | None:
        return None

    async def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        counts = await self._inner.job_count_by_state(cap=cap)
        at_least = Count(value=cap, kind=CountKind.AT_LEAST)
        return {
            state: at_least if count.kind is CountKind.ESTIMATED else count
            for state, count in counts.items()
        }


class BareTransaction(BareExecutor):
    """The same, kept or lost as one."""

    def __init__(self, inner: Transaction) -> None:
        super().__init__(inner)
        self.savepoint = inner.savepoint


class BareDriver:
    """A driver that offers to work jobs, and no other capability."""

    capabilities: Collection[Capability[Any]] = frozenset({WORKING})
    library = ("bare", "1.0")
    product = "BareDB"

    def __init__(self, inner: WorkingDriver) -> None:
        self._inner = inner

    @property
    def schema(self) -> str | None:
        return self._inner.schema

    @property
    def database(self) -> str:
        return self._inner.database

    @property
    def read_only(self) -> str:
        return self._inner.read_only

    @property
    def schema_in_use(self) -> str:
        return self._inner.schema_in_use

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        return _bare(self._inner.reading(timeout=timeout))

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        return _bare(self._inner.autocommit(timeout=timeout))

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        return _bare(self._inner.session(timeout=timeout))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        return _bare_transaction(self._inner.transaction(timeout=timeout))

    def apart(self) -> BareDriver:
        return BareDriver(self._inner.apart())

    async def adopt(self, transaction: object) -> BareTransaction:
        if isinstance(transaction, BareTransaction):
            return transaction
        return BareTransaction(await self._inner.adopt(transaction))

    async def ping(self) -> None:
        await self._inner.ping()

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def _bare(opened: AbstractAsyncContextManager[Executor]) -> AsyncIterator[BareExecutor]:
    async with opened as executor:
        yield BareExecutor(executor)


@asynccontextmanager
async def _bare_transaction(
    opened: AbstractAsyncContextManager[Transaction],
) -> AsyncIterator[BareTransaction]:
    async with opened as transaction:
        yield BareTransaction(transaction)
