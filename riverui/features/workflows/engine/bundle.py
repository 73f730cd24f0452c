"""The workflow methods of a client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack

from riverui.domain.ulid import ulid, ulid_of
from riverui.engine.sync_methods import run_at_once, sync_method
from riverui.errors import InsertError
from riverui.features.workflows.domain.tasks import workflow_of
from riverui.features.workflows.engine.builder import IgnoredDeps, WorkflowBuilder
from riverui.features.workflows.engine.loading import head_of
from riverui.features.workflows.engine.workflow import SyncWorkflow, Workflow
from riverui.features.workflows.verbs import workflows
from riverui.features.workflows.waits.engine.signals import (
    Signal,
    SignalList,
    signal_of,
    signal_params,
)
from riverui.features.workflows.waits.expressions import Evaluation, Expressions
from riverui.features.workflows.waits.verbs import diagnosis, signals
from riverui.features.workflows.waits.verbs.diagnosis import WaitDiagnosis
from riverui.storage.interface import entered

if TYPE_CHECKING:
    from riverui.domain.jobs import JobRow
    from riverui.engine.client import Client
    from riverui.engine.sync_client import Calls
    from riverui.engine.work.worker import Job
    from riverui.storage.interface import Executor

AnyWorkflow = TypeVar("AnyWorkflow", bound=WorkflowBuilder)
RetryMode = Literal["all", "failed_only", "failed_and_downstream"]


class IgnoreKeywords(TypedDict, total=False):
    """Which failures of dependencies count as success for the tasks that are added."""

    ignore_cancelled_deps: bool
    ignore_discarded_deps: bool
    ignore_deleted_deps: bool


class _WorkflowMaker(Generic[AnyWorkflow]):
    """Creates workflows of the asyncio client or of a SyncClient."""

    _client: Client | Calls
    _workflow_type: type[AnyWorkflow]

    def new(
        self,
        name: str = "",
        *,
        id: str | None = None,
        parent: Job[Any] | JobRow | None = None,
        ignore_cancelled_deps: bool = False,
        ignore_discarded_deps: bool = False,
        ignore_deleted_deps: bool = False,
    ) -> AnyWorkflow:
        """Return a new workflow to add tasks to; nothing is written until it is inserted.

        Its id is a ULID unless given. Ignored failures of dependencies count as success in each
        task without a setting of its own; otherwise the waiting tasks are cancelled. With `parent`,
        the running job, every attempt at that job gets the same workflow, identified by its name;
        it is cancelled with the job, and `run` waits for it.
        """
        ignored = IgnoredDeps(
            cancelled=ignore_cancelled_deps,
            discarded=ignore_discarded_deps,
            deleted=ignore_deleted_deps,
        )
        own = ulid(self._client.clock())
        if parent is not None:
            own = ulid_of(parent.created_at, f"{parent.id} {name}")
        made = self._workflow_type(
            id or own,
            name,
            ignored=ignored,
            parent=None if parent is None else parent.id,
        )
        return made.bound(self._client)

    async def _existing(
        self, executor: Executor, found: str | Job[Any] | JobRow, ignored: IgnoreKeywords
    ) -> AnyWorkflow:
        """Return an existing workflow to add tasks to. Raise NotFound if it does not exist."""
        if unknown := ignored.keys() - IgnoreKeywords.__annotations__.keys():
            raise TypeError(f"load takes no {', '.join(sorted(unknown))}")
        deps = IgnoredDeps(
            cancelled=ignored.get("ignore_cancelled_deps", False),
            discarded=ignored.get("ignore_discarded_deps", False),
            deleted=ignored.get("ignore_deleted_deps", False),
        )
        head = await head_of(executor, _id_of(found))
        made = self._workflow_type(head.id, head.name, ignored=deps, is_new=False)
        return made.bound(self._client)


class WorkflowBundle(_WorkflowMaker[Workflow]):
    """The workflows of a client, `client.workflows`.

    Methods with `_tx` work in the caller's transaction, which the caller commits. Raise NotFound
    for a workflow that does not exist; SchemaMissing, which names the migration, without the
    tables.
    """

    _workflow_type = Workflow

    def __init__(
        self, client: Client | Calls, expressions: type[Expressions] = Expressions
    ) -> None:
        self._client = client
        self._expressions = expressions

    async def load(
        self, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> Workflow:
        """Return an existing workflow, by its id or by one of its jobs, to load its tasks or add
        new ones.

        Ignored failures of dependencies, `ignore_cancelled_deps` and so on, apply to the tasks
        added.
        """
        async with self._client.driver.autocommit() as executor:
            return await self._existing(executor, found, ignored)

    async def load_tx(
        self, tx: object, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> Workflow:
        """Return an existing workflow, as the transaction sees it; see `load`."""
        return await self._existing(await self._client.driver.adopt(tx), found, ignored)

    async def cancel(self, id: str) -> Sequence[int]:
        """Cancel all unfinished tasks, and ask running ones to stop; return the ids of their jobs.

        No tasks can be added to the workflow from then on, until it is retried.
        """
        async with self._client.driver.transaction() as transaction:
            return await workflows.cancel_tx(transaction, id)

    async def cancel_tx(self, tx: object, id: str) -> Sequence[int]:
        """Cancel a workflow when the transaction commits."""
        return await workflows.cancel_tx(await self._client.driver.adopt(tx), id)

    async def retry(
        self, id: str, mode: RetryMode = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Run the tasks of a finished workflow again, as a new attempt at it; return the ids of
        their jobs.

        `all` of them, those that failed (`failed_only`), or these and all that wait for them
        (`failed_and_downstream`). With `reset_history` attempts and errors are removed, else each
        gets one more attempt. Raise WorkflowActive while a task is unfinished, UniqueConflict if an
        active job has the same unique key.
        """
        async with self._client.driver.transaction() as transaction:
            return await workflows.retry_tx(transaction, id, mode, reset_history=reset_history)

    async def retry_tx(
        self, tx: object, id: str, mode: RetryMode = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Retry a workflow when the transaction commits."""
        executor = await self._client.driver.adopt(tx)
        return await workflows.retry_tx(executor, id, mode, reset_history=reset_history)

    async def signal(
        self,
        id: str,
        key: str,
        payload: Any = None,
        *,
        attempt: int | None = None,
        idempotency_key: str | None = None,
        source: Any = None,
    ) -> Signal:
        """Send a signal to a workflow, for the tasks that wait for this key, and return it.

        It belongs to the workflow's current attempt; SignalAttemptMismatch is raised if that is not
        `attempt`. If the idempotency key was used before, the first signal is returned;
        SignalConflict is raised if that has another key or payload. `source` says where it comes
        from. SignalRefused is raised if it is too large.
        """
        params = signal_params(
            id, key, payload, attempt=attempt, idempotency_key=idempotency_key, source=source
        )
        async with self._client.driver.transaction() as transaction:
            return signal_of(id, await signals.send(transaction, params))

    async def signal_tx(
        self,
        tx: object,
        id: str,
        key: str,
        payload: Any = None,
        *,
        attempt: int | None = None,
        idempotency_key: str | None = None,
        source: Any = None,
    ) -> Signal:
        """Send a signal to a workflow when the transaction commits. Until then, other signals to
        the same workflow wait.
        """
        params = signal_params(
            id, key, payload, attempt=attempt, idempotency_key=idempotency_key, source=source
        )
        executor = await self._client.driver.adopt(tx)
        return signal_of(id, await signals.send(executor, params))

    async def signal_latest(
        self, id: str, task: str, key: str, *, attempt: int | None = None
    ) -> Signal | None:
        """Return the latest signal of a key that a task waits for, also after the wait is over;
        None if there is none.

        Raise SignalUndeclared for a key that the task does not wait for.
        """
        found = await self.signal_list(id, task, key=key, attempt=attempt, limit=1, descending=True)
        return found.signals[0] if found.signals else None

    async def signal_list(
        self,
        id: str,
        task: str,
        *,
        key: str | None = None,
        attempt: int | None = None,
        after: int = 0,
        limit: int = 100,
        descending: bool = False,
    ) -> SignalList:
        """Return up to 1,000 signals that a task waits for, after the one with the id `after`; of
        the workflow's current attempt by default.
        """
        async with self._client.driver.autocommit() as executor:
            found = await signals.page(
                executor,
                id,
                task,
                key=key,
                attempt=attempt,
                after=after,
                limit=limit,
                descending=descending,
            )
        return SignalList(
            signals=[signal_of(id, row) for row in found.signals],
            next_cursor_id=found.next_cursor_id,
        )

    async def diagnose_wait(self, id: str, task: str) -> WaitDiagnosis:
        """Return the progress of a task's wait, evaluated now without changing anything.

        Raise NotFound if the task does not exist or has no wait.
        """
        with self._expressions() as expressions:
            async with self._client.driver.autocommit() as executor:
                return await diagnosis.diagnose(executor, expressions, id, task)


class _ExpressionsAtOnce(Expressions):
    """Evaluates the expressions of waits in the caller's thread."""

    async def evaluate(
        self,
        programs: Sequence[str],
        contexts: Sequence[str],
        times: Iterable[Sequence[str]] = (),
    ) -> Evaluation:
        """Return the value of each expression in each context; see Expressions."""
        return self.evaluate_now(programs, contexts, tuple(times))


class SyncWorkflowBundle(_WorkflowMaker[SyncWorkflow]):
    """The workflows of a SyncClient, `client.workflows`.

    Each method has the parameters and the docstring of WorkflowBundle's.
    """

    _workflow_type = SyncWorkflow

    def __init__(self, calls: Calls) -> None:
        self._client = calls
        self._calls = WorkflowBundle(calls, _ExpressionsAtOnce)

    def load(
        self, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> SyncWorkflow:
        """Return an existing workflow to add tasks to; see `WorkflowBundle.load`."""
        with entered(self._client.driver.autocommit()) as executor:
            return run_at_once(self._existing(executor, found, ignored))

    def load_tx(
        self, tx: object, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> SyncWorkflow:
        """Return an existing workflow, as the transaction sees it; see `load`."""
        executor = run_at_once(self._client.driver.adopt(tx))
        return run_at_once(self._existing(executor, found, ignored))

    cancel = sync_method(WorkflowBundle.cancel)
    cancel_tx = sync_method(WorkflowBundle.cancel_tx)
    retry = sync_method(WorkflowBundle.retry)
    retry_tx = sync_method(WorkflowBundle.retry_tx)
    signal = sync_method(WorkflowBundle.signal)
    signal_tx = sync_method(WorkflowBundle.signal_tx)
    signal_latest = sync_method(WorkflowBundle.signal_latest)
    signal_list = sync_method(WorkflowBundle.signal_list)
    diagnose_wait = sync_method(WorkflowBundle.diagnose_wait)


def _id_of(found: str | Job[Any] | JobRow) -> str:
    """Return the id of a job's workflow, or the given id; raise InsertError if the job
    is no task.
    """
    if isinstance(found, str):
        return found
    if (workflow_id := workflow_of(found.metadata)) is None:
        raise InsertError(f"Job {found.id} is not a task of a workflow.")
    return workflow_id
