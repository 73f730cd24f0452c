"""What a client offers for workflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack

from riverui.domain.ulid import ulid, ulid_of
from riverui.errors import InsertError
from riverui.features.workflows.domain.tasks import workflow_of
from riverui.features.workflows.engine.builder import IgnoredDeps, WorkflowBuilder
from riverui.features.workflows.engine.loading import head_of
from riverui.features.workflows.engine.workflow import Workflow
from riverui.features.workflows.verbs import workflows

if TYPE_CHECKING:
    from riverui.domain.jobs import JobRow
    from riverui.engine.pilot import Pilot
    from riverui.engine.work.worker import Job
    from riverui.storage.interface import Driver, Executor

B = TypeVar("B", bound=WorkflowBuilder)
RetryMode = Literal["all", "failed_only", "failed_and_downstream"]


class IgnoreKeywords(TypedDict, total=False):
    """Which failures of dependencies count as success for the tasks that are added."""

    ignore_cancelled_deps: bool
    ignore_discarded_deps: bool
    ignore_deleted_deps: bool


class WorkflowMaker(Generic[B]):
    """What both clients make workflows with, each of its own type."""

    clock: Callable[[], datetime]
    _workflow_type: type[B]

    def workflow(
        self,
        name: str = "",
        *,
        id: str | None = None,
        parent: Job[Any] | JobRow | None = None,
        ignore_cancelled_deps: bool = False,
        ignore_discarded_deps: bool = False,
        ignore_deleted_deps: bool = False,
    ) -> B:
        """Return a new workflow to add tasks to; nothing is written before it is inserted.

        Its id is a ULID unless given. What is ignored of dependencies that fail counts as success
        in each task that does not say otherwise; other tasks are cancelled. With `parent`, the job
        at work, it is the same for each attempt at that job, by its name, and is cancelled with it;
        `run` waits for it.
        """
        ignored = IgnoredDeps(
            cancelled=ignore_cancelled_deps,
            discarded=ignore_discarded_deps,
            deleted=ignore_deleted_deps,
        )
        own = ulid(self.clock())
        if parent is not None:
            own = ulid_of(parent.created_at, f"{parent.id} {name}")
        made = self._workflow_type(
            id or own,
            name,
            ignored=ignored,
            parent=None if parent is None else parent.id,
        )
        return made.bound(self)


class WorkflowMethods(WorkflowMaker[Workflow]):
    """The methods of a Client that are about workflows."""

    driver: Driver
    pilot: Pilot
    insert_many: Any
    insert_many_tx: Any
    _workflow_type = Workflow

    async def workflow_from(
        self, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> Workflow:
        """Return a workflow that is there, by its id or by a job of it: to load its tasks, and to
        add some. NotFound where there is none.

        What is ignored of dependencies, `ignore_cancelled_deps` and so on, counts for the tasks
        that are added.
        """
        async with self.driver.autocommit() as executor:
            return (await existing(Workflow, executor, found, ignored)).bound(self)

    async def workflow_from_tx(
        self, tx: object, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> Workflow:
        """Return a workflow that is there, as a transaction sees it; see workflow_from."""
        executor = await self.driver.adopt(tx)
        return (await existing(Workflow, executor, found, ignored)).bound(self)

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
        self, id: str, mode: RetryMode = "all", *, reset_history: bool = False
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
        self, tx: object, id: str, mode: RetryMode = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Retry a workflow when the transaction commits."""
        executor = await self.driver.adopt(tx)
        return await workflows.retry_tx(executor, id, mode, reset_history=reset_history)


async def existing(
    cls: type[B], executor: Executor, found: str | Job[Any] | JobRow, ignored: IgnoreKeywords
) -> B:
    """Return a workflow that is there, to add tasks to. NotFound where there is none."""
    if unknown := ignored.keys() - IgnoreKeywords.__annotations__.keys():
        raise TypeError(f"workflow_from takes no {', '.join(sorted(unknown))}")
    deps = IgnoredDeps(
        cancelled=ignored.get("ignore_cancelled_deps", False),
        discarded=ignored.get("ignore_discarded_deps", False),
        deleted=ignored.get("ignore_deleted_deps", False),
    )
    head = await head_of(executor, _id_of(found))
    return cls(head.id, head.name, ignored=deps, is_new=False)


def _id_of(found: str | Job[Any] | JobRow) -> str:
    """Return the id of a job's workflow, or the one that is given; InsertError for a job that is no
    task.
    """
    if isinstance(found, str):
        return found
    if (workflow_id := workflow_of(found.metadata)) is None:
        raise InsertError(f"Job {found.id} is no task of a workflow.")
    return workflow_id
