"""Signals in `riverui_workflow_signal`, and the waits in `riverui_workflow_task`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from riverui.features.workflows.domain.workflows import SignalRow, WorkflowRow
from riverui.storage.interface.sql_blocks import Fragment, word
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.filters import is_storable
from riverui.storage.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalInsertParams:
    """A signal to a workflow."""

    workflow_id: str
    key: str
    payload: str
    """JSON."""
    source: str = "null"
    """JSON."""
    attempt: int | None = None
    """None for the workflow's current attempt."""
    idempotency_key: str | None = None


class SignalInserted(NamedTuple):
    """The result of sending a signal."""

    attempt: int
    """The workflow's current attempt."""
    signal: SignalRow | None = None
    """None if the workflow is in another attempt, or another signal has the idempotency key."""
    is_new: bool = False
    """False for a signal that was sent before."""


class SignalPageRow(NamedTuple):
    """A signal as pages list it."""

    id: int
    attempt: int
    key: str
    created_at: datetime
    bytes: int
    """Size of payload and source together."""
    payload: str | None
    """The beginning of its JSON; None if it is large."""
    source: str | None
    """The same."""


class AwaitedKey(NamedTuple):
    """A key of signals that a task waits for, now or later."""

    key: str
    task: str
    waiting: bool
    """Whether its wait has begun."""


class WaitRow(NamedTuple):
    """A task with a wait."""

    workflow_id: str
    name: str
    job_id: int
    state: str
    """See TaskState."""
    wait: str
    """JSON; null for a task without one."""
    progress: str
    """JSON of Progress."""
    changes: int
    """How often the progress was written."""
    due_at: datetime
    """When to evaluate it next; far in the past before the first time."""


class WaitFacts(NamedTuple):
    """The inputs of a wait, besides signals."""

    workflow_id: str
    name: str
    """The task's."""
    workflow_name: str
    attempt: int
    created_at: datetime
    """The workflow's."""
    started_at: datetime
    """When the last of the task's dependencies ended; without any, when the task began."""
    job_state: str | None
    """The state of the task's job; None if it was deleted."""
    now: datetime


class WaitDep(NamedTuple):
    """A dependency of a task with a wait."""

    workflow_id: str
    task: str
    """The name of the task with the wait."""
    name: str
    state: str
    """See TaskState."""
    ended_at: datetime | None
    output: str | None
    """JSON; None if there is none, or it is too large."""
    job_state: str | None
    """None if the job was deleted."""


class WaitUpdate(NamedTuple):
    """The result of a wait's evaluation."""

    row: WaitRow
    """As it was claimed."""
    progress: str
    """JSON."""
    due_at: datetime
    """When to evaluate it next, unless a signal made it due meanwhile."""
    job_metadata: str | None = None
    """JSON object to merge into the job's metadata; None to keep the metadata."""


_COLUMNS = Fragment("wait_columns")
_OUTPUTS = 1_000_000
"""Bytes of outputs passed to the expressions of a task: more would take a second."""
_DEPS = 10_000
"""Dependencies passed to the expressions of a batch of tasks: a workflow's most tasks."""
_PREVIEW = 2_000
"""Characters of a payload or a source shown in a list."""
_LARGE = 65_536
"""Bytes of payload and source above which a list omits them: decompressing a page of the largest
would take a second.
"""


class WaitNotices(Store):
    """Notifies the leader of waits."""

    async def _notify_waits(self) -> None:
        """Notify the leader, on commit, that waits are due."""
        await self._sql.rows("workflow_wait_notify", {"schema": self._sql.schema})


class WaitStore(WaitNotices):
    """Operations on signals and waits."""

    async def workflow_signal_insert(self, params: SignalInsertParams) -> SignalInserted | None:
        """Store a signal and make the tasks due that wait for its key; return None without the
        workflow.

        Needs a transaction. Until it ends, other signals to the same workflow wait.
        """
        if not is_storable(params.workflow_id):
            return None
        values: dict[str, Any] = {
            "id": params.workflow_id,
            "key": params.key,
            "payload": params.payload,
            "idempotency_key": params.idempotency_key,
        }
        turn = {"schema": self._sql.schema, "id": params.workflow_id}
        await self._sql.rows("workflow_signal_turn", turn)
        found: Any = await self._sql.row("workflow_signal_begin", values)
        if found is None:
            return None
        attempt = int(found.attempt)
        if params.attempt not in (None, attempt):
            return SignalInserted(attempt)
        if found.id is not None:
            return SignalInserted(attempt, _signal(found) if found.same else None)
        values |= {"attempt": attempt, "source": params.source}
        row: Any = await self._sql.row("workflow_signal_insert", values)
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
        """Return signals with one of these keys by id, after the one with `cursor_id`: at least
        one, at most `size` bytes of further ones.
        """
        storable = [key for key in dict.fromkeys(keys) if is_storable(key)]
        if not storable or not is_storable(id):
            return []
        slots = (
            {"desc": word("desc"), "beyond": Fragment("own_workflow_signal_before")}
            if descending
            else {}
        )
        values = {"id": id, "attempt": attempt, "cursor_id": cursor_id, "limit": limit}
        rows = await self._sql.rows(
            "own_workflow_signal_list",
            {**values, "keys": array_literals.texts(storable), "size": size},
            **slots,
        )
        return [_signal(row) for row in rows.records()]

    async def workflow_signal_key_list(self, id: str, *, attempt: int, limit: int) -> Sequence[str]:
        """Return the keys of the signals of a workflow's attempt, in order."""
        if not is_storable(id):
            return []
        values = {"id": id, "attempt": attempt, "limit": limit}
        found: Sequence[str] = (await self._sql.rows("workflow_signal_key_list", values)).values()
        return found

    async def workflow_signal_page_list(
        self, id: str, *, attempt: int, keys: Sequence[str], before: int = 0, limit: int
    ) -> Sequence[SignalPageRow]:
        """Return signals with one of these keys, the newest first, those with lower ids than
        `before` unless that is 0; of each only the beginning.
        """
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
        rows = await self._sql.rows("workflow_signal_page_list", values)
        return [SignalPageRow(**row._asdict()) for row in rows.records()]

    async def workflow_awaited_key_list(self, id: str, *, limit: int) -> Sequence[AwaitedKey]:
        """Return the keys that a workflow's unstaged tasks wait for, those of begun waits first."""
        if not is_storable(id):
            return []
        rows = await self._sql.rows("workflow_awaited_key_list", {"id": id, "limit": limit})
        return [AwaitedKey(**row._asdict()) for row in rows.records()]

    async def own_workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one of riverui's own workflows, or None."""
        row = await self._sql.row("own_workflow_get", {"id": id}) if is_storable(id) else None
        return None if row is None else WorkflowRow(**row._asdict())

    async def workflow_wait_get(self, id: str, task: str) -> WaitRow | None:
        """Return a task, or None."""
        if not is_storable(id) or not is_storable(task):
            return None
        row = await self._sql.row("workflow_wait_get", {"id": id, "task": task}, columns=_COLUMNS)
        return None if row is None else WaitRow(**row._asdict())

    async def workflow_wait_claim(self, *, lease: timedelta, limit: int) -> Sequence[WaitRow]:
        """Return due waits, and make them due again after the lease."""
        values = {"lease": lease.total_seconds(), "limit": limit}
        rows = await self._sql.rows("workflow_wait_claim", values, columns=_COLUMNS)
        return [WaitRow(**row._asdict()) for row in rows.records()]

    async def workflow_wait_next(self) -> float | None:
        """Return the seconds until the next wait is due, 0 or less if now; None without any."""
        row = await self._sql.row("workflow_wait_next")
        return None if row is None else row.seconds

    async def workflow_wait_quiet(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of these workflows to which no transaction is sending a signal, and block
        new signals until the end of this transaction.
        """
        values = {"ids": array_literals.texts(sorted(set(ids))), "schema": self._sql.schema}
        found: Sequence[str] = (await self._sql.rows("workflow_wait_quiet", values)).values()
        return found

    async def workflow_wait_facts(self, tasks: Sequence[tuple[str, str]]) -> Sequence[WaitFacts]:
        """Return the inputs of the waits of tasks, each (workflow's id, task's name)."""
        rows = await self._sql.rows("workflow_wait_facts", _names(tasks))
        return [WaitFacts(**row._asdict()) for row in rows.records()]

    async def workflow_wait_dep_list(self, tasks: Sequence[tuple[str, str]]) -> Sequence[WaitDep]:
        """Return the dependencies of these tasks, with their outputs up to a total size."""
        if not tasks:
            return []
        values = {**_names(tasks), "size": _OUTPUTS, "limit": _DEPS}
        rows = await self._sql.rows("workflow_wait_dep_list", values)
        return [WaitDep(**row._asdict()) for row in rows.records()]

    async def workflow_wait_update_many(self, updates: Sequence[WaitUpdate]) -> Sequence[int]:
        """Write the results; return the jobs of those waits that are not over yet and unchanged
        since they were claimed.
        """
        values = {
            **_leases([update.row for update in updates]),
            "changes": array_literals.numbers([update.row.changes for update in updates]),
            "progress": array_literals.texts([update.progress for update in updates]),
            "due_ats": array_literals.instants([update.due_at for update in updates]),
            "states": array_literals.optional_texts([update.job_metadata for update in updates]),
        }
        found: Sequence[int] = (await self._sql.rows("workflow_wait_update_many", values)).values()
        return found

    async def workflow_wait_due(self, rows: Sequence[WaitRow]) -> None:
        """Make claimed waits due at once."""
        await self._sql.rows("workflow_wait_due", _leases(rows))

    async def workflow_wait_reset(self, id: str) -> None:
        """Reset the waits of a workflow's tasks for its next attempt."""
        await self._sql.rows("workflow_wait_reset", {"id": id})
        await self._notify_waits()

    async def workflow_signal_delete_many(self, ids: Sequence[str], *, limit: int) -> int:
        """Delete signals of these workflows; return how many."""
        values = {"ids": array_literals.texts(list(ids)), "limit": limit}
        return len(await self._sql.rows("workflow_signal_delete_many", values))


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
