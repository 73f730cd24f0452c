"""Operations: actions on all matching jobs, kept in `riverui_operation` or in this process.

In the table, one dashboard at a time holds an operation and works on it, while its lease lasts.
Each time the holder changes, `fence` grows by one, and a dashboard with an older fence can write
nothing.
"""

from __future__ import annotations

import json
import operator
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from riverui.domain.json import ODD_VALUE, read_json
from riverui.errors import OperationLost
from riverui.features.operations.domain import Pace, Watch
from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.params import Count, CountKind, JobCursor, JobCutoff, JobOrder
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

T = TypeVar("T")

SAMPLES = 10
"""Ids of skipped jobs that an operation stores for each reason, as examples."""
TERM = timedelta(seconds=8)
"""How long a dashboard holds an operation without renewing its lease: three renewals."""
_COLUMNS = Fragment("operation_columns")


class OperationStatus(StrEnum):
    """The state of an operation."""

    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class Operation(Struct, kw_only=True):
    """One verb applied to all jobs that match a query and are not newer than the cutoff."""

    id: str
    verb: str
    """The name of one of OPERATION_VERBS."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The verb's parameters."""
    query: str
    """The filter as text, from which it can be parsed again."""
    order: JobOrder
    cutoff: JobCutoff
    total: Count
    """How many jobs matched when it was started."""
    user: str = ""
    allowed: str
    """The right of the user who started it. It continues with that right, even if the user loses
    it.
    """
    features: str = ""
    """Names of the client features that take part; another dashboard needs the same to continue."""
    pace: Pace = field(default_factory=Pace)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    status: OperationStatus = OperationStatus.RUNNING
    stopped_by: str | None = None
    """Who asked it to stop; None if it was not asked."""
    error: str = ""
    changed: int = 0
    requested: int = 0
    """Running jobs that were asked to stop."""
    skipped: Mapping[SkipReason, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Reason → how many jobs, and the ids of the first SAMPLES."""
    cursor: JobCursor | None = None
    """Every job up to here was processed; None at the start."""
    watch: Watch | None = None
    """The outcomes of the jobs; None if they are not watched."""
    holder: str = ""
    """The dashboard that works on it, or did last; empty if it is kept in this process."""
    held: bool = True
    """Whether the holder's lease is still valid."""
    fence: int = 0
    unread: Sequence[str] = ()
    """Columns of its row with values that riverui cannot have written; then it is not
    carried out.
    """

    @property
    def processed(self) -> int:
        """How many jobs were processed so far, including skipped ones."""
        return self.changed + self.requested + sum(number for number, _ in self.skipped.values())

    @property
    def expected(self) -> Count:
        """How many jobs it processes in all, as far as is known now."""
        if self.status is OperationStatus.DONE:
            return Count(value=self.processed)
        return replace(self.total, value=max(self.total.value, self.processed))

    @property
    def waiting(self) -> bool:
        """Whether no dashboard works on it at the moment."""
        return self.ended_at is None and not self.held

    @property
    def trying(self) -> bool:
        """Whether the trial has not ended successfully yet."""
        return bool(self.pace.canary) and self.watch is not None and not self.watch.passed

    def after(
        self, changes: JobChanges, *, cursor: JobCursor | None, watch: Watch | None
    ) -> Operation:
        """Return a copy with these changes added, at this position."""
        skipped = dict(self.skipped)
        for job_id, reason in changes.skipped:
            number, ids = skipped.get(reason, (0, ()))
            skipped[reason] = number + 1, (*ids, job_id)[:SAMPLES]
        return replace(
            self,
            changed=self.changed + len(changes.changed),
            requested=self.requested + len(changes.requested),
            skipped=skipped,
            cursor=cursor,
            watch=watch,
        )

    def take_progress(self, other: Operation) -> None:
        """Copy the progress of another copy of this operation."""
        self.changed, self.requested, self.skipped = other.changed, other.requested, other.skipped
        self.cursor, self.watch = other.cursor, other.watch


class OperationStore(Store):
    """Statements on operations. All raise SchemaMissing without their table."""

    def __init__(self, executor: Executor, *, term: timedelta = TERM) -> None:
        super().__init__(executor)
        self._term = {"term": term.total_seconds()}

    async def operation_turn(self) -> None:
        """Wait until no other transaction adds an operation, and block others until the end of this
        one.
        """
        await self._sql.rows("operation_turn", {"schema": self._sql.schema})

    async def operation_unfinished_count(self) -> int:
        """Return how many operations have not ended."""
        return int((await self._sql.row("operation_unfinished_count")).number)

    async def operation_insert(self, operation: Operation) -> Operation:
        """Add an operation, held by its holder, and return it as stored."""
        values: dict[str, Any] = {
            "id": operation.id,
            "verb": operation.verb,
            "parameters": json.dumps(dict(operation.parameters)),
            "features": operation.features,
            "username": operation.user,
            "allowed": operation.allowed,
            "query": operation.query,
            "sort": operation.order.value,
            "cutoff_id": operation.cutoff.id,
            "cutoff_at": instant(operation.cutoff.at),
            "total": operation.total.value,
            "total_kind": operation.total.kind.value,
            "pace": json.dumps(operation.pace.stored),
            "watch": _stored(operation.watch),
            "holder": operation.holder,
        }
        values |= self._term
        return _operation(await self._sql.row("operation_insert", values, columns=_COLUMNS))

    async def operation_get(self, id: str) -> Operation | None:
        """Return one operation; None if it is unknown or was deleted."""
        row = await self._sql.row("operation_get", {"id": id}, columns=_COLUMNS)
        return _operation(row) if row else None

    async def operation_list(
        self, *, verbs: Collection[str], limit: int, before: str | None = None
    ) -> Sequence[Operation]:
        """Return operations with these verbs, newest first; only those started before the one with
        the id `before` if given, and none if that is unknown.
        """
        values = {"verbs": list(verbs), "limit": limit}
        slots = {}
        if before is not None:
            slots["terms"] = Fragment("operation_before", {"before": before})
        rows = await self._sql.rows("operation_list", values, columns=_COLUMNS, **slots)
        return [_operation(row) for row in rows.records()]

    async def operation_claim(
        self, *, holder: str, verbs: Collection[str], features: str
    ) -> Operation | None:
        """Take over the oldest unfinished operation that no dashboard holds, with one of these
        verbs and exactly these features; None if there is none.
        """
        values = {"holder": holder, "verbs": list(verbs), "features": features} | self._term
        row = await self._sql.row("operation_claim", values, columns=_COLUMNS)
        return _operation(row) if row else None

    async def operation_hold(self, operation: Operation) -> Operation:
        """Lock the operation until the end of the transaction, and return it as stored.

        Raise OperationLost if another dashboard holds it, or if it has ended. The server ends the
        transaction after it has waited 5 seconds for its client, so that a vanished dashboard does
        not block the others.
        """
        row = await self._sql.row("operation_hold", _lease(operation), columns=_COLUMNS)
        return _operation(_found(row))

    async def operation_save(self, operation: Operation) -> OperationStatus:
        """Store the progress, extend the lease and return the status; raise OperationLost
        as above.
        """
        cursor, skipped = operation.cursor, operation.skipped
        values = {
            "changed": operation.changed,
            "requested": operation.requested,
            "skipped": json.dumps({reason.value: found for reason, found in skipped.items()}),
            "cursor_at": instant(cursor.at) if cursor else None,
            "cursor_id": cursor.id if cursor else None,
            "watch": _stored(operation.watch),
        }
        values |= _lease(operation) | self._term
        return OperationStatus(_found(await self._sql.row("operation_save", values)).status)

    async def operation_renew(self, operation: Operation) -> OperationStatus:
        """Extend the lease and return the status; raise OperationLost as above."""
        row = await self._sql.row("operation_renew", _lease(operation) | self._term)
        return OperationStatus(_found(row).status)

    async def operation_release(self, operation: Operation) -> None:
        """End the lease, so that another dashboard can continue at once."""
        await self._sql.rows("operation_release", _lease(operation))

    async def operation_stop(self, id: str, *, user: str) -> Operation | None:
        """Ask the holder to stop, unless it has ended or was asked before; return the operation,
        None if it is unknown.
        """
        await self._sql.rows("operation_stop", {"id": id, "username": user})
        return await self.operation_get(id)

    async def operation_end(self, operation: Operation) -> None:
        """Store the final status and error; raise OperationLost as above. The error is cut at 1,000
        characters.
        """
        values = {"status": operation.status.value, "error": operation.error}
        _found(await self._sql.row("operation_end", _lease(operation) | values))

    async def operation_delete_before(self, before: datetime, *, limit: int) -> int:
        """Delete operations that ended before `before`, at most `limit`; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self._sql.rows("operation_delete_before", values))


class OperationsInProcess:
    """Operations of this process alone, with the methods of OperationStore that carry one out.

    Each record is the one that its run works on, so nothing has to be stored or held.
    """

    def __init__(self, *, remembered: int) -> None:
        self._operations: dict[str, Operation] = {}
        self._remembered = remembered
        """Maximum number of ended operations."""

    async def operation_turn(self) -> None:
        """Do nothing: no other process adds operations."""

    async def operation_unfinished_count(self) -> int:
        """Return how many operations have not ended."""
        return sum(each.ended_at is None for each in self._operations.values())

    async def operation_insert(self, operation: Operation) -> Operation:
        """Keep the operation, and drop the oldest of those that have ended."""
        self._operations[operation.id] = operation
        ended = [each.id for each in self._operations.values() if each.ended_at is not None]
        for old in ended[: max(0, len(ended) - self._remembered)]:
            del self._operations[old]
        return operation

    async def operation_get(self, id: str) -> Operation | None:
        """Return one operation; None if it is unknown or was dropped."""
        return self._operations.get(id)

    async def operation_list(
        self, *, verbs: Collection[str], limit: int, before: str | None = None
    ) -> Sequence[Operation]:
        """Return operations, newest first; see OperationStore."""
        newest = [each for each in reversed(self._operations.values()) if each.verb in verbs]
        if before is not None:
            ids = [each.id for each in newest]
            newest = newest[ids.index(before) + 1 :] if before in ids else []
        return newest[:limit]

    async def operation_hold(self, operation: Operation) -> Operation:
        """Return the operation itself."""
        return operation

    async def operation_save(self, operation: Operation) -> OperationStatus:
        """Return its status."""
        return operation.status

    async def operation_release(self, operation: Operation) -> None:
        """End it as failed, as no other process can continue it."""
        if operation.ended_at is None:
            operation.status = OperationStatus.FAILED
            operation.error = "The dashboard was shut down."
            await self.operation_end(operation)

    async def operation_stop(self, id: str, *, user: str) -> Operation | None:
        """Ask it to stop; see OperationStore."""
        operation = self._operations.get(id)
        if operation and operation.status is OperationStatus.RUNNING:
            operation.status, operation.stopped_by = OperationStatus.STOPPING, user
        return operation

    async def operation_end(self, operation: Operation) -> None:
        """Record when it ended."""
        operation.ended_at = datetime.now(UTC)


@asynccontextmanager
async def open_store(
    begin: Callable[[], AbstractAsyncContextManager[Executor]],
    in_process: OperationsInProcess | None,
    *,
    term: timedelta,
) -> AsyncIterator[OperationStore | OperationsInProcess]:
    """Yield the operations of this process if given, and otherwise those of the table, on the
    executor from `begin`.
    """
    if in_process is not None:
        yield in_process
    else:
        async with begin() as executor:
            yield OperationStore(executor, term=term)


def _lease(operation: Operation) -> dict[str, Any]:
    return {"id": operation.id, "fence": operation.fence}


def _found(row: Any) -> Any:
    if row is None:
        raise OperationLost
    return row


def _operation(row: Any) -> Operation:
    unread: list[str] = []

    def read(column: str, make: Callable[[Mapping[str, Any]], T], otherwise: T) -> T:
        try:
            return make(read_json(getattr(row, column) or "{}"))
        except ODD_VALUE:
            unread.append(column)
            return otherwise

    return Operation(
        id=row.id,
        verb=row.verb,
        parameters=read("parameters", _parameters, {}),
        query=row.query,
        order=JobOrder(row.sort),
        cutoff=JobCutoff(id=row.cutoff_id, at=row.cutoff_at),
        total=Count(value=row.total, kind=CountKind(row.total_kind)),
        user=row.username,
        allowed=row.allowed,
        features=row.features,
        pace=read("pace", Pace.read, Pace()),
        started_at=row.created_at,
        ended_at=row.ended_at,
        status=OperationStatus(row.status),
        stopped_by=row.stopped_by,
        error=row.error,
        changed=row.changed,
        requested=row.requested,
        skipped=read("skipped", _skipped, {}),
        cursor=None if row.cursor_id is None else JobCursor(at=row.cursor_at, id=row.cursor_id),
        watch=read("watch", Watch.read, Watch()) if row.watch else None,
        holder=row.holder or "",
        held=row.held,
        fence=row.fence,
        unread=tuple(unread),
    )


def _parameters(stored: Mapping[str, Any]) -> Mapping[str, str | int]:
    """Return the verb's parameters; raise ValueError for values that `operation_insert` has not
    written.
    """
    if any(type(value) not in (str, int) for value in stored.values()):
        raise ValueError("a parameter is neither text nor a whole number")
    return stored


def _skipped(stored: Mapping[str, Any]) -> Mapping[SkipReason, tuple[int, tuple[int, ...]]]:
    """Return how many jobs were skipped by reason, and some of their ids; raise one of ODD_VALUE
    for values that `operation_save` has not written. Reasons of another version are left out.
    """
    known = {reason.value: reason for reason in SkipReason}
    found = {
        reason: (operator.index(number), tuple(map(operator.index, ids)))
        for reason, (number, ids) in stored.items()
    }
    return {known[name]: skipped for name, skipped in found.items() if name in known}


def _stored(watch: Watch | None) -> str | None:
    return None if watch is None else json.dumps(watch.stored)
