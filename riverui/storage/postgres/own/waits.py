"""Signals in `riverui_workflow_signal`, and the waits in `riverui_workflow_task`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from riverui.domain.workflows import SignalRow, WorkflowRow
from riverui.errors import SchemaMissing
from riverui.storage.interface.waits import (
    MISSING,
    AwaitedKey,
    SignalInserted,
    SignalInsertParams,
    SignalPageRow,
    WaitDep,
    WaitFacts,
    WaitRow,
    WaitUpdate,
)
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.job_list.filters import is_storable
from riverui.storage.postgres.statements import Statements
from riverui.storage.sql import Fragment, word

_COLUMNS = Fragment("wait_columns")
_OUTPUTS = 1_000_000
"""Bytes of outputs that the expressions of a task are given: more would take them a second."""
_DEPS = 10_000
"""Dependencies that the expressions of a batch of tasks are given: a workflow's most tasks."""
_PREVIEW = 2_000
"""Characters of a payload or a source that a page lists."""
_LARGE = 65_536
"""Bytes of payload and source from which nothing of them is read for a list: unpacking a page of
the largest would take a second.
"""


class WaitNotices(Statements):
    """Tells the leader of waits."""

    async def _notify_waits(self) -> None:
        """Have the leader hear, at the end of the transaction, that waits are due."""
        await self._rows("workflow_wait_notify", {"schema": self._schema})


class Waits(WaitNotices):
    """Operations on signals and waits."""

    async def workflow_signal_insert(self, params: SignalInsertParams) -> SignalInserted | None:
        """Keep a signal and make the tasks due that wait for its key; None without the workflow."""
        if not is_storable(params.workflow_id):
            return None
        values: dict[str, Any] = {
            "id": params.workflow_id,
            "key": params.key,
            "payload": params.payload,
            "idempotency_key": params.idempotency_key,
        }
        turn = {"schema": self._schema, "id": params.workflow_id}
        there: Any = await self._row("workflow_signal_turn", turn)
        if not there.there:
            raise SchemaMissing(MISSING)
        found: Any = await self._row("workflow_signal_begin", values)
        if found is None:
            return None
        attempt = int(found.attempt)
        if params.attempt not in (None, attempt):
            return SignalInserted(attempt)
        if found.id is not None:
            return SignalInserted(attempt, _signal(found) if found.same else None)
        values |= {"attempt": attempt, "source": params.source}
        row: Any = await self._row("workflow_signal_insert", values)
        await self._notify_waits()
        return SignalInserted(attempt, _signal(row), is_new=True)

    async def own_workflow_signal_list(
        self,
        id: str,
        *,
        attempt: int,
        keys: Sequence[str],
        cursor_id: int = 0,
        descending: bool = True,
        limit: int,
        size: int | None = None,
    ) -> Sequence[SignalRow]:
        """Return signals with one of these keys by id, behind the one with `cursor_id`."""
        storable = [key for key in dict.fromkeys(keys) if is_storable(key)]
        if not storable or not is_storable(id):
            return []
        slots = (
            {"desc": word("desc"), "beyond": Fragment("own_workflow_signal_before")}
            if descending
            else {}
        )
        values = {"id": id, "attempt": attempt, "cursor_id": cursor_id, "limit": limit}
        rows = await self._rows(
            "own_workflow_signal_list",
            {**values, "keys": array_literals.texts(storable), "size": size},
            **slots,
        )
        return [_signal(row) for row in rows.records()]

    async def workflow_signal_key_list(self, id: str, *, attempt: int, limit: int) -> Sequence[str]:
        """Return the keys of the signals of an attempt of a workflow, in their order."""
        if not is_storable(id):
            return []
        values = {"id": id, "attempt": attempt, "limit": limit}
        found: Sequence[str] = (await self._rows("workflow_signal_key_list", values)).values()
        return found

    async def workflow_signal_page_list(
        self, id: str, *, attempt: int, keys: Sequence[str], before: int = 0, limit: int
    ) -> Sequence[SignalPageRow]:
        """Return signals with one of these keys, the newest first; of each the beginning."""
        storable = [key for key in dict.fromkeys(keys) if is_storable(key)]
        if not storable or not is_storable(id):
            return []
        values = {
            "id": id,
            "attempt": attempt,
            "keys": array_literals.texts(storable),
            "before": before,
            "limit": limit,
            "large": _LARGE,
            "length": _PREVIEW,
        }
        rows = await self._rows("workflow_signal_page_list", values)
        return [SignalPageRow(**row._asdict()) for row in rows.records()]

    async def workflow_awaited_key_list(self, id: str, *, limit: int) -> Sequence[AwaitedKey]:
        """Return the keys that tasks of a workflow wait for, or will wait for."""
        if not is_storable(id):
            return []
        rows = await self._rows("workflow_awaited_key_list", {"id": id, "limit": limit})
        return [AwaitedKey(**row._asdict()) for row in rows.records()]

    async def own_workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one of riverui's own workflows, or None."""
        row = await self._row("own_workflow_get", {"id": id}) if is_storable(id) else None
        return None if row is None else WorkflowRow(**row._asdict())

    async def workflow_wait_get(self, id: str, task: str) -> WaitRow | None:
        """Return a task, or None."""
        if not is_storable(id) or not is_storable(task):
            return None
        row = await self._row("workflow_wait_get", {"id": id, "task": task}, columns=_COLUMNS)
        return None if row is None else WaitRow(**row._asdict())

    async def workflow_wait_claim(self, *, lease: timedelta, limit: int) -> Sequence[WaitRow]:
        """Return waits that are due, and let them be due again after the lease."""
        values = {"lease": lease.total_seconds(), "limit": limit}
        rows = await self._rows("workflow_wait_claim", values, columns=_COLUMNS)
        return [WaitRow(**row._asdict()) for row in rows.records()]

    async def workflow_wait_next(self) -> float | None:
        """Return in how many seconds the next wait is due; None without any."""
        row = await self._row("workflow_wait_next")
        return None if row is None else row.seconds

    async def workflow_wait_quiet(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of these workflows that are sent no signal now, and keep them so."""
        values = {"ids": array_literals.texts(sorted(set(ids))), "schema": self._schema}
        found: Sequence[str] = (await self._rows("workflow_wait_quiet", values)).values()
        return found

    async def workflow_wait_facts(self, tasks: Sequence[tuple[str, str]]) -> Sequence[WaitFacts]:
        """Return what the waits of tasks can be about."""
        rows = await self._rows("workflow_wait_facts", _names(tasks))
        return [WaitFacts(**row._asdict()) for row in rows.records()]

    async def workflow_wait_dep_list(self, tasks: Sequence[tuple[str, str]]) -> Sequence[WaitDep]:
        """Return the tasks that these waited for."""
        if not tasks:
            return []
        values = {**_names(tasks), "size": _OUTPUTS, "limit": _DEPS}
        rows = await self._rows("workflow_wait_dep_list", values)
        return [WaitDep(**row._asdict()) for row in rows.records()]

    async def workflow_wait_update_many(self, updates: Sequence[WaitUpdate]) -> Sequence[int]:
        """Write what was found; return the jobs of those that it could be written of."""
        values = {
            **_leases([update.row for update in updates]),
            "changes": array_literals.numbers([update.row.changes for update in updates]),
            "progress": array_literals.texts([update.progress for update in updates]),
            "due_ats": array_literals.instants([update.due_at for update in updates]),
            "states": array_literals.optional_texts([update.state for update in updates]),
        }
        found: Sequence[int] = (await self._rows("workflow_wait_update_many", values)).values()
        return found

    async def workflow_wait_due(self, rows: Sequence[WaitRow]) -> None:
        """Let waits that were claimed be due at once."""
        await self._rows("workflow_wait_due", _leases(rows))

    async def workflow_wait_reset(self, id: str) -> None:
        """Let the waits of a workflow's tasks begin anew."""
        await self._rows("workflow_wait_reset", {"id": id})
        await self._notify_waits()

    async def workflow_signal_delete_many(self, ids: Sequence[str], *, limit: int) -> int:
        """Delete signals of these workflows; return how many."""
        values = {"ids": array_literals.texts(list(ids)), "limit": limit}
        return len(await self._rows("workflow_signal_delete_many", values))


def _names(tasks: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {
        "ids": array_literals.texts([each for each, _ in tasks]),
        "names": array_literals.texts([name for _, name in tasks]),
    }


def _leases(rows: Sequence[WaitRow]) -> dict[str, str]:
    names = _names([(row.workflow_id, row.name) for row in rows])
    return {**names, "leases": array_literals.instants([row.due_at for row in rows])}


def _signal(row: Any) -> SignalRow:
    return SignalRow(
        attempt=row.attempt,
        created_at=row.created_at,
        id=row.id,
        key=row.key,
        payload=row.payload,
        source=row.source,
    )
