"""Signals that riverui's own workflows are sent, and the waits of their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from riverui.domain.workflows import SignalRow, WorkflowRow
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

SIGNAL_TABLE = OwnTable("riverui_workflow_signal", 9)
"""Where signals are kept; its migration adds the worklist to the table of tasks."""

MISSING = (
    f"Signals and waits of workflows need {SIGNAL_TABLE.missing}: run `{SIGNAL_TABLE.remedy}`."
)
"""What to say where it is not there."""


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
    """None for the workflow's attempt of now."""
    idempotency_key: str | None = None


class SignalInserted(NamedTuple):
    """What became of a signal."""

    attempt: int
    """The workflow's attempt of now."""
    signal: SignalRow | None = None
    """None where the workflow is in another attempt, or another signal has the idempotency key."""
    is_new: bool = False
    """False for a signal that was there already."""


class SignalPageRow(NamedTuple):
    """A signal as pages list it."""

    id: int
    attempt: int
    key: str
    created_at: datetime
    bytes: int
    """Of payload and source together."""
    payload: str | None
    """The beginning of its JSON; None where it is large."""
    source: str | None
    """The same."""


class AwaitedKey(NamedTuple):
    """A key of signals that a task waits for, now or later."""

    key: str
    task: str
    waiting: bool
    """Whether its wait is going on."""


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
    """JSON: what was found of it."""
    changes: int
    """How often that was written."""
    due_at: datetime
    """When it is to be looked at next; far in the past before the first time."""


class WaitFacts(NamedTuple):
    """What a wait can be about, besides signals."""

    workflow_id: str
    name: str
    """The task's."""
    workflow_name: str
    attempt: int
    created_at: datetime
    """The workflow's."""
    started_at: datetime
    """When the last of the task's dependencies ended, or when the task began without any."""
    job_state: str | None
    """Of the task's job; None where that is gone."""
    now: datetime


class WaitDep(NamedTuple):
    """A task that another has waited for."""

    workflow_id: str
    task: str
    """The one with the wait."""
    name: str
    state: str
    """See TaskState."""
    ended_at: datetime | None
    output: str | None
    """JSON; None where there is none, or too much."""
    job_state: str | None
    """None where the job is gone."""


class WaitUpdate(NamedTuple):
    """What was found of a wait."""

    row: WaitRow
    """As it was claimed."""
    progress: str
    """JSON."""
    due_at: datetime
    """When to look again, unless something has happened meanwhile."""
    state: str | None = None
    """JSON for the job's metadata; None where that stays as it is."""


class WaitExecutor(Protocol):
    """Reads and writes signals and waits. Without the tables every call raises SchemaMissing."""

    async def workflow_signal_insert(self, params: SignalInsertParams) -> SignalInserted | None:
        """Keep a signal and make the tasks due that wait for its key; None without the workflow,
        SchemaMissing without the table.

        In a transaction. Until it ends, others who signal the same workflow wait.
        """
        ...

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
        """Return signals with one of these keys by id, behind the one with `cursor_id`; at most
        `size` bytes of them, and one whatever it has.
        """
        ...

    async def workflow_signal_key_list(self, id: str, *, attempt: int, limit: int) -> Sequence[str]:
        """Return the keys of the signals of an attempt of a workflow, in their order."""
        ...

    async def workflow_signal_page_list(
        self, id: str, *, attempt: int, keys: Sequence[str], before: int = 0, limit: int
    ) -> Sequence[SignalPageRow]:
        """Return signals with one of these keys, the newest first, those with lower ids than
        `before` where that is not 0; of each only the beginning.
        """
        ...

    async def workflow_awaited_key_list(self, id: str, *, limit: int) -> Sequence[AwaitedKey]:
        """Return the keys that tasks of a workflow wait for which have not been staged, those of
        waits that are going on first.
        """
        ...

    async def own_workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one of riverui's own workflows, or None."""
        ...

    async def workflow_wait_get(self, id: str, task: str) -> WaitRow | None:
        """Return a task, or None."""
        ...

    async def workflow_wait_claim(self, *, lease: timedelta, limit: int) -> Sequence[WaitRow]:
        """Return waits that are due, and let them be due again after the lease."""
        ...

    async def workflow_wait_next(self) -> float | None:
        """Return in how many seconds the next wait is due, 0 and less at once; None without any."""
        ...

    async def workflow_wait_quiet(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of these workflows that are sent no signal now, and keep them so up to the
        end of the transaction.
        """
        ...

    async def workflow_wait_facts(self, tasks: Sequence[tuple[str, str]]) -> Sequence[WaitFacts]:
        """Return what the waits of tasks, (workflow's id, task's name), can be about."""
        ...

    async def workflow_wait_dep_list(self, tasks: Sequence[tuple[str, str]]) -> Sequence[WaitDep]:
        """Return the tasks that these waited for, with as many of their outputs as an expression
        can bear.
        """
        ...

    async def workflow_wait_update_many(self, updates: Sequence[WaitUpdate]) -> Sequence[int]:
        """Write what was found; return the jobs of those that still wait, and of which nobody else
        has written anything since they were claimed.
        """
        ...

    async def workflow_wait_due(self, rows: Sequence[WaitRow]) -> None:
        """Let waits that were claimed be due at once."""
        ...

    async def workflow_wait_reset(self, id: str) -> None:
        """Let the waits of a workflow's tasks begin anew, as its next attempt needs it."""
        ...

    async def workflow_signal_delete_many(self, ids: Sequence[str], *, limit: int) -> int:
        """Delete signals of these workflows; return how many."""
        ...


WAITS: Capability[WaitExecutor] = Capability(
    "waits", "Tasks of workflows cannot wait for signals and timers on this database."
)
