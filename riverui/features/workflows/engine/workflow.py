"""A workflow of a client: built, inserted, loaded, and awaited by a parent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from riverui.engine.sync_methods import run_at_once, sync_method
from riverui.engine.work.worker import JobSnooze
from riverui.features.workflows.engine.builder import WorkflowBuilder
from riverui.features.workflows.engine.loading import MAX_TASKS, LoadedTask, LoadedTasks, load, own
from riverui.features.workflows.store import TaskChoice
from riverui.storage.interface.engine_params import InsertResult

_FIRST_CHECK = timedelta(seconds=10)
"""How long a parent sleeps before it checks whether its child has ended. The end wakes it, unless
it comes at the moment the parent goes to sleep. From then on it sleeps for as long as the child has
been running, so that thousands of parents that wait for hours cost next to nothing, and one that
missed the end waits at most twice as long as necessary …
"""
_LAST_CHECK = timedelta(minutes=10)
"""… and at most ten minutes longer than necessary."""


class Workflow(WorkflowBuilder):
    """A workflow of a Client.

    Methods with `_tx` work in the caller's transaction, which the caller commits.
    """

    async def insert(self) -> Sequence[InsertResult]:
        """Insert the tasks added, all or none; return their jobs in the order of `prepare`."""
        results = await self._client.insert_many(self.prepare())
        self._inserted()
        return results

    async def insert_tx(self, tx: object) -> Sequence[InsertResult]:
        """Insert the tasks added in the caller's transaction."""
        results = await self._client.insert_many_tx(tx, self.prepare())
        self._inserted()
        return results

    async def run(self) -> LoadedTasks:
        """Insert the workflow as a child of the running job, and return its tasks once all have
        ended; for `client.workflows.new(…, parent=job)`.

        Until then the job is snoozed and worked again, so code before this call runs each time. The
        tasks' states say which have failed.
        """
        self._check_parent()
        found = await self.outcome()
        if isinstance(found, LoadedTasks):
            return found
        if found is None:
            await self.insert()
        raise JobSnooze(found or _FIRST_CHECK)

    async def outcome(self) -> LoadedTasks | timedelta | None:
        """Return the tasks once all have ended, until then how long a parent should sleep; None if
        the workflow does not exist yet.
        """
        async with self._client.driver.autocommit() as executor:
            head = await (await own(executor)).workflow_head_get(self.id)
            if head is None:
                return None
            if head.open:
                return until_checked(head.age)
            return await load(executor, self.id, TaskChoice.ALL)

    async def load_all(self, *, after: str = "", limit: int = MAX_TASKS) -> LoadedTasks:
        """Return the tasks by name, up to `limit` after the name `after`."""
        async with self._client.driver.autocommit() as executor:
            return await load(executor, self.id, TaskChoice.ALL, after, limit=limit)

    async def load_all_tx(
        self, tx: object, *, after: str = "", limit: int = MAX_TASKS
    ) -> LoadedTasks:
        """Return the tasks by name, up to `limit` after the name `after`."""
        executor = await self._client.driver.adopt(tx)
        return await load(executor, self.id, TaskChoice.ALL, after, limit=limit)

    async def load(self, name: str) -> LoadedTask:
        """Return one task. Raise NotFound if no task has that name."""
        async with self._client.driver.autocommit() as executor:
            return (await load(executor, self.id, TaskChoice.NAMED, name))[name]

    async def load_tx(self, tx: object, name: str) -> LoadedTask:
        """Return one task. Raise NotFound if no task has that name."""
        executor = await self._client.driver.adopt(tx)
        return (await load(executor, self.id, TaskChoice.NAMED, name))[name]

    async def load_deps(self, name: str, *, recursive: bool = False) -> LoadedTasks:
        """Return the tasks that one waits for; with `recursive` also those that these wait for, and
        so on. Raise NotFound if no task has that name.
        """
        async with self._client.driver.autocommit() as executor:
            return await load(executor, self.id, _deps(recursive), name)

    async def load_deps_tx(self, tx: object, name: str, *, recursive: bool = False) -> LoadedTasks:
        """Return the tasks that one waits for; see load_deps."""
        executor = await self._client.driver.adopt(tx)
        return await load(executor, self.id, _deps(recursive), name)

    async def load_output(self, name: str) -> Any:
        """Return a task's recorded output. Raise NotFound if no task has that name, OutputMissing
        if it recorded nothing.
        """
        return (await self.load(name)).output

    async def load_output_tx(self, tx: object, name: str) -> Any:
        """Return a task's recorded output; see load_output."""
        return (await self.load_tx(tx, name)).output


class SyncWorkflow(WorkflowBuilder):
    """A workflow of a SyncClient: the same as Workflow, without asyncio."""

    def insert(self) -> Sequence[InsertResult]:
        """Insert the tasks added, all or none; return their jobs in the order of `prepare`."""
        results = run_at_once(self._client.insert_many(self.prepare()))
        self._inserted()
        return results

    def insert_tx(self, tx: object) -> Sequence[InsertResult]:
        """Insert the tasks added in the caller's transaction."""
        results = run_at_once(self._client.insert_many_tx(tx, self.prepare()))
        self._inserted()
        return results

    def run(self) -> LoadedTasks:
        """Insert the workflow as a child of the running job, and return its tasks once all have
        ended; see Workflow.run.
        """
        self._check_parent()
        found = run_at_once(self._calls.outcome())
        if isinstance(found, LoadedTasks):
            return found
        if found is None:
            self.insert()
        raise JobSnooze(found or _FIRST_CHECK)

    # Each has the parameters and the docstring of Workflow's method.
    load_all = sync_method(Workflow.load_all)
    load_all_tx = sync_method(Workflow.load_all_tx)
    load = sync_method(Workflow.load)
    load_tx = sync_method(Workflow.load_tx)
    load_deps = sync_method(Workflow.load_deps)
    load_deps_tx = sync_method(Workflow.load_deps_tx)
    load_output = sync_method(Workflow.load_output)
    load_output_tx = sync_method(Workflow.load_output_tx)

    @property
    def _calls(self) -> Workflow:
        return Workflow(self.id, is_new=False).bound(self._client)


def until_checked(age: timedelta) -> timedelta:
    """Return how long a parent sleeps whose child has been running for this time."""
    return min(max(age, _FIRST_CHECK), _LAST_CHECK)


def _deps(recursive: bool) -> TaskChoice:
    return TaskChoice.DEPS_RECURSIVE if recursive else TaskChoice.DEPS
