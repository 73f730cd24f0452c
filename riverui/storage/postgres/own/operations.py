"""Actions on all matching jobs in `riverui_operation`."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from riverui.domain.pace import Pace, Watch
from riverui.domain.stored_json import ODD_VALUE, read_json
from riverui.storage.interface.operations import (
    OperationLease,
    OperationParams,
    OperationProgress,
    OperationRow,
)
from riverui.storage.interface.own_tables import OwnTableSize
from riverui.storage.interface.params import Count, CountKind, JobCursor, JobCutoff, JobOrder
from riverui.storage.postgres.statements import Statements, instant
from riverui.storage.sql import Fragment

T = TypeVar("T")

_COLUMNS = Fragment("operation_columns")


class Operations(Statements):
    """Operations on riverui's own tables."""

    async def own_table_list(self) -> frozenset[str]:
        """Return the names of the tables that begin with `riverui_`."""
        return frozenset((await self.rows("own_table_list", {"schema": self.schema})).values())

    async def own_table_size_list(self) -> Sequence[OwnTableSize]:
        """Return how large each of those tables is, by name."""
        rows = await self.rows("own_table_size_list", {"schema": self.schema})
        return [OwnTableSize(**row._asdict()) for row in rows.records()]

    async def operation_insert(
        self, params: OperationParams, *, holder: str, term: timedelta, most: int
    ) -> OperationRow | None:
        """Keep a new operation, unless `most` others have not ended; return the one of that id."""
        await self.rows("operation_turn", {"schema": self.schema})
        if known := await self.operation_get(params.id):
            return known
        if (await self.rows("operation_unfinished_count")).value() >= most:
            return None
        await self.rows(
            "operation_insert",
            {
                "id": params.id,
                "verb": params.verb,
                "parameters": json.dumps(dict(params.parameters)),
                "features": params.features,
                "username": params.username,
                "allowed": params.allowed,
                "query": params.query,
                "sort": params.order.value,
                "cutoff_id": params.cutoff.id,
                "cutoff_at": instant(params.cutoff.at),
                "total": params.total.value,
                "total_kind": params.total.kind.value,
                "holder": holder,
                "term": term.total_seconds(),
            },
        )
        if params.pace.stored:
            watch = _watched(Watch() if params.pace.watches else None)
            values = {"id": params.id, "pace": json.dumps(params.pace.stored), "watch": watch}
            await self.rows("operation_set_pace", values)
        return await self.operation_get(params.id)

    async def operation_keeps_pace(self) -> bool:
        """Return whether the table can keep how fast an operation goes."""
        return bool((await self.rows("operation_keeps_pace")).value())

    async def operation_get(self, id: str) -> OperationRow | None:
        """Return one operation; None where it is unknown or forgotten."""
        return _operation(await self.row("operation_get", {"id": id}, columns=_COLUMNS))

    async def operation_list(
        self, *, limit: int, before: str | None = None
    ) -> Sequence[OperationRow]:
        """Return operations, newest first; see OperationExecutor."""
        slots = {}
        if before is not None:
            slots["terms"] = Fragment("operation_before", {"before": before})
        rows = await self.rows("operation_list", {"limit": limit}, columns=_COLUMNS, **slots)
        return [found for row in rows.records() if (found := _operation(row))]

    async def operation_claim(
        self, *, holder: str, verbs: Collection[str], features: Collection[str], term: timedelta
    ) -> OperationRow | None:
        """Take over the oldest operation that nobody holds; None where there is none."""
        values = {
            "holder": holder,
            "verbs": list(verbs),
            "features": list(features),
            "term": term.total_seconds(),
        }
        return _operation(await self.row("operation_claim", values, columns=_COLUMNS))

    async def operation_hold(self, lease: OperationLease) -> OperationRow | None:
        """Lock the operation until the end of the transaction; None where it is not ours."""
        values = {"id": lease.id, "fence": lease.fence}
        return _operation(await self.row("operation_hold", values, columns=_COLUMNS))

    async def operation_save(self, lease: OperationLease, progress: OperationProgress) -> bool:
        """Write how far it has come and hold it for another term; whether it is still ours."""
        cursor = progress.cursor
        values = {
            "changed": progress.changed,
            "requested": progress.requested,
            "skipped": json.dumps(
                {reason: [number, list(ids)] for reason, (number, ids) in progress.skipped.items()}
            ),
            "cursor_at": instant(cursor.at) if cursor else None,
            "cursor_id": cursor.id if cursor else None,
        }
        slots = {}
        if progress.watch is not None:
            slots["watch"] = Fragment("operation_watch", {"watch": _watched(progress.watch)})
        return await self.row("operation_save", _of(lease) | values, **slots) is not None

    async def operation_renew(self, lease: OperationLease) -> str | None:
        """Hold it for another term and return its status; None where it is not ours."""
        row = await self.row("operation_renew", _of(lease))
        return None if row is None else str(row.status)

    async def operation_release(self, lease: OperationLease) -> None:
        """Let it go, so that another dashboard may go on at once."""
        await self.rows("operation_release", {"id": lease.id, "fence": lease.fence})

    async def operation_stop(self, id: str, *, username: str) -> OperationRow | None:
        """Ask whoever holds it to stop; return it as it stands then."""
        await self.rows("operation_stop", {"id": id, "username": username})
        return await self.operation_get(id)

    async def operation_end(self, lease: OperationLease, *, status: str, error: str) -> bool:
        """Write how it ended; whether it was still ours."""
        values = {"id": lease.id, "fence": lease.fence, "status": status, "error": error}
        return await self.row("operation_end", values) is not None

    async def operation_delete_before(self, before: datetime, *, limit: int) -> int:
        """Forget operations that ended before then; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self.rows("operation_delete_before", values))


def _of(lease: OperationLease) -> dict[str, Any]:
    return {"id": lease.id, "fence": lease.fence, "term": lease.term.total_seconds()}


def _operation(row: Any) -> OperationRow | None:
    if row is None:
        return None
    unread: list[str] = []

    def read(column: str, of: Callable[[Mapping[str, Any]], T], otherwise: T) -> T:
        try:
            return of(read_json(getattr(row, column) or "{}"))
        except ODD_VALUE:
            unread.append(column)
            return otherwise

    cursor = None
    if row.cursor_id is not None:
        cursor = JobCursor(at=row.cursor_at, id=row.cursor_id)
    return OperationRow(
        params=OperationParams(
            id=row.id,
            verb=row.verb,
            parameters=read("parameters", _parameters, {}),
            features=row.features,
            username=row.username,
            allowed=row.allowed,
            query=row.query,
            order=JobOrder(row.sort),
            cutoff=JobCutoff(id=row.cutoff_id, at=row.cutoff_at),
            total=Count(value=row.total, kind=CountKind(row.total_kind)),
            pace=read("pace", Pace.of, Pace()),
        ),
        progress=OperationProgress(
            changed=row.changed,
            requested=row.requested,
            skipped=read("skipped", _skipped, {}),
            cursor=cursor,
            watch=read("watch", Watch.of, Watch()) if row.watch else None,
        ),
        status=row.status,
        created_at=row.created_at,
        ended_at=row.ended_at,
        stopped_by=row.stopped_by,
        error=row.error,
        holder=row.holder,
        fence=row.fence,
        held=row.held,
        unread=unread,
    )


def _parameters(stored: Mapping[str, Any]) -> Mapping[str, str | int]:
    """Return what the verb was given; ValueError for what `operation_insert` has not written."""
    if any(type(value) not in (str, int) for value in stored.values()):
        raise ValueError("a parameter is neither text nor a whole number")
    return stored


def _skipped(stored: Mapping[str, Any]) -> Mapping[str, tuple[int, tuple[int, ...]]]:
    """Return how many jobs were skipped by reason, and the ids of some; one of ODD_VALUE is raised
    for what `operation_save` has not written.
    """
    return {
        reason: (operator.index(number), tuple(map(operator.index, ids)))
        for reason, (number, ids) in stored.items()
    }


def _watched(watch: Watch | None) -> str | None:
    return None if watch is None else json.dumps(watch.stored)
