"""What a client offers for workflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from riverui.actions import workflows
from riverui.domain.ulid import ulid
from riverui.engine.features.workflows.builder import IgnoredDeps, Workflow

if TYPE_CHECKING:
    from riverui.engine.pilot import Pilot
    from riverui.storage.interface import Driver


class WorkflowMethods:
    """The methods of a Client that are about workflows."""

    clock: Callable[[], datetime]
    driver: Driver
    pilot: Pilot
    insert_many: Any
    insert_many_tx: Any

    def workflow(
        self,
        name: str = "",
        *,
        id: str | None = None,
        ignore_cancelled_deps: bool = False,
        ignore_discarded_deps: bool = False,
        ignore_deleted_deps: bool = False,
    ) -> Workflow:
        """Return a new workflow to add tasks to; nothing is written before it is inserted.

        Its id is a ULID unless given. What is ignored of dependencies that fail counts as success
        in each task that does not say otherwise; other tasks are cancelled.
        """
        ignored = IgnoredDeps(
            cancelled=ignore_cancelled_deps,
            discarded=ignore_discarded_deps,
            deleted=ignore_deleted_deps,
        )
        return Workflow(id or ulid(self.clock()), name, ignored=ignored).bound(self)

    async def workflow_cancel(self, id: str) -> Sequence[int]:
        """Cancel all tasks that have not ended, and ask running ones to stop; return the ids of
        their jobs. NotFound where there is no such workflow.

        Nothing can be added to it from then on, until it is retried.
        """
        async with self.driver.transaction() as transaction:
            return await workflows.cancel_tx(transaction, id)

    async def workflow_cancel_tx(self, tx: object, id: str) -> Sequence[int]:
        """Cancel a workflow when the transaction commits."""
        return await workflows.cancel_tx(await self.driver.adopt(tx), id)

    async def workflow_retry(
        self, id: str, mode: str = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Let the tasks of a workflow that has ended run again, as another attempt at it; return
        the ids of their jobs.

        `all` of them, those that failed (`failed_only`), or these and all that wait for them
        (`failed_and_downstream`). With `reset_history` attempts and errors are forgotten, else
        each gets one more attempt. WorkflowActive while a task has not ended, NotFound where there
        is no such workflow, UniqueConflict where an active job has the same unique key.
        """
        async with self.driver.transaction() as transaction:
            return await workflows.retry_tx(transaction, id, mode, reset_history=reset_history)

    async def workflow_retry_tx(
        self, tx: object, id: str, mode: str = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Retry a workflow when the transaction commits."""
        executor = await self.driver.adopt(tx)
        return await workflows.retry_tx(executor, id, mode, reset_history=reset_history)
