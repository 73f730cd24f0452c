"""A workflow of a client: put together, inserted, loaded, and waited for by a parent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from riverui.engine.sync_methods import run_at_once, sync_method
from riverui.engine.work.worker import JobSnooze
from riverui.features.workflows.engine.builder import WorkflowBuilder
from riverui.features.workflows.engine.loading import MOST, LoadedTask, LoadedTasks, load, own
from riverui.features.workflows.store import TaskChoice
from riverui.storage.interface.engine_params import InsertResult

_FIRST_CHECK = timedelta(seconds=10)
"""How long a parent sleeps before it looks by itself whether its child has ended: the end wakes it,
unless it came in the moment in which the parent went to sleep. From then on it sleeps for as long
as the child has been going on, so that thousands of parents that wait for hours cost next to
nothing, and none that was missed waits for more than twice as long as it had to …
"""
_LAST_CHECK = timedelta(minutes=10)
"""… nor for ten minutes more than it had to."""


class Workflow(WorkflowBuilder):
    """A workflow of a Client.

    Methods with `_tx` work in a transaction of the caller's, who commits it.
    """

    async def insert(self) -> Sequence[InsertResult]:
        """Insert the tasks added, all or none; return their jobs as `prepare` has them."""
        results = await self._client.insert_many(self.prepare())
        self._inserted()
        return results

    async def insert_tx(self, tx: object) -> Sequence[InsertResult]:
        """Insert the tasks added in a transaction of the caller's."""
        results = await self._client.insert_many_tx(tx, self.prepare())
        self._inserted()
        return results

    async def run(self) -> LoadedTasks:
        """Insert the workflow, as the child of the job at work, and return its tasks once all of
        them have ended; for `client.workflows.new(…, parent=job)`.

        Until then the job is snoozed, so it comes here again and again: what stands before this
        call is done each time. Whether tasks have failed, their states tell.
        """
        self._check_parent()
        found = await self.outcome()
        if isinstance(found, LoadedTasks):
            return found
        if found is None:
            await self.insert()
        raise JobSnooze(found or _FIRST_CHECK)

    async def outcome(self) -> LoadedTasks | timedelta | None:
        """Return the tasks once all have ended, until then how long a parent shall sleep; None
        where the workflow is not there yet.
        """
        async with self._client.driver.autocommit() as executor:
            head = await (await own(executor)).workflow_head_get(self.id)
            if head is None:
                return None
            if head.open:
                return until_checked(head.age)
            return await load(executor, self.id, TaskChoice.ALL)

    async def load_all(self, *, after: str = "", limit: int = MOST) -> LoadedTasks:
        """Return the tasks that are there by name, up to `limit` behind the name `after`."""
        async with self._client.driver.autocommit() as executor:
            return await load(executor, self.id, TaskChoice.ALL, after, limit=limit)

    async def load_all_tx(self, tx: object, *, after: str = "", limit: int = MOST) -> LoadedTasks:
        """Return the tasks that are there by name, up to `limit` behind the name `after`."""
        executor = await self._client.driver.adopt(tx)
        return await load(executor, self.id, TaskChoice.ALL, after, limit=limit)

    async def load(self, name: str) -> LoadedTask:
        """Return one task. NotFound where there is none of that name."""
        async with self._client.driver.autocommit() as executor:
            return (await load(executor, self.id, TaskChoice.NAMED, name))[name]

    async def load_tx(self, tx: object, name: str) -> LoadedTask:
        """Return one task. NotFound where there is none of that name."""
        executor = await self._client.driver.adopt(tx)
        return (await load(executor, self.id, TaskChoice.NAMED, name))[name]

    async def load_deps(self, name: str, *, recursive: bool = False) -> LoadedTasks:
        """Return the tasks that one waits for; `recursive` those that these wait for as well, and
        so on. NotFound where there is no task of that name.
        """
        async with self._client.driver.autocommit() as executor:
            return await load(executor, self.id, _deps(recursive), name)

    async def load_deps_tx(self, tx: object, name: str, *, recursive: bool = False) -> LoadedTasks:
        """Return the tasks that one waits for; see load_deps."""
        executor = await self._client.driver.adopt(tx)
        return await load(executor, self.id, _deps(recursive), name)

    async def load_output(self, name: str) -> Any:
        """Return what a task has recorded. NotFound where there is none of that name,
        OutputMissing where it has recorded nothing.
        """
        return (await self.load(name)).output

    async def load_output_tx(self, tx: object, name: str) -> Any:
        """Return what a task has recorded; see load_output."""
        return (await self.load_tx(tx, name)).output


class SyncWorkflow(WorkflowBuilder):
    """A workflow of a SyncClient: what a Workflow does, without asyncio."""

    def insert(self) -> Sequence[InsertResult]:
        """Insert the tasks added, all or none; return their jobs as `prepare` has them."""
        results = run_at_once(self._client.insert_many(self.prepare()))
        self._inserted()
        return results

    def insert_tx(self, tx: object) -> Sequence[InsertResult]:
        """Insert the tasks added in a transaction of the caller's."""
        results = run_at_once(self._client.insert_many_tx(tx, self.prepare()))
        self._inserted()
        return results

    def run(self) -> LoadedTasks:
        """Insert the workflow, as the child of the job at work, and return its tasks once all of
        them have ended; see Workflow.run.
        """
        self._check_parent()
        found = run_at_once(self._calls.outcome())
        if isinstance(found, LoadedTasks):
            return found
        if found is None:
            self.insert()
        raise JobSnooze(found or _FIRST_CHECK)

    # Each has the parameters and the docstring of Workflow's.
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
    """Return how long a parent sleeps whose child has been going on for so long."""
    return min(max(age, _FIRST_CHECK), _LAST_CHECK)


def _deps(recursive: bool) -> TaskChoice:
    return TaskChoice.DEPS_RECURSIVE if recursive else TaskChoice.DEPS
