"""Where the signals of a task are read: riverui's own tables, or River Pro's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from riverui.features.workflows.domain.workflows import SignalRow, Task, WorkflowRow


class SignalLists(Protocol):
    """Reads signals of a workflow; see WorkflowExecutor.workflow_signal_list."""

    async def __call__(
        self,
        id: str,
        *,
        attempt: int,
        keys: Sequence[str],
        cursor_id: int = 0,
        descending: bool = True,
        limit: int,
    ) -> Sequence[SignalRow]:
        """Return signals with one of these keys by id, after the one with `cursor_id`."""
        ...


class SignalSource(NamedTuple):
    """A task, and the reader of its signals."""

    found: WorkflowRow
    task: Task
    signal_list: SignalLists
