"""A workflow of a client: put together, inserted, loaded, and waited for by a parent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from riverui.engine.work.worker import JobSnooze
from riverui.features.workflows.engine.builder import WorkflowBuilder
from riverui.features.workflows.engine.loading import MOST, LoadedTask, LoadedTasks, load, own
from riverui.features.workflows.store import TaskChoice
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.engine_params import InsertResult

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_CHECK = timedelta(seconds=10)
"""How long a parent sleeps before it looks by itself whether its child has ended: the end wakes it,
unless it came in the moment in which the parent went to sleep. From then on it sleeps for as long
as the child has been going on, so that thousands of parents that wait for hours cost next to
nothing, and none that was missed waits for more than twice as long as it had to …
"""
_LAST_CHECK = timedelta(minutes=10)
"""… nor for ten minutes more than it had to."""


class _Client(Protocol):
    driver: Driver

    async def insert_many(self, jobs: Iterable[Any]) -> Sequence[InsertResult]: ...

    async def insert_many_tx(self, tx: object, jobs: Iterable[Any]) -> Sequence[InsertResult]: ...


class _SyncClient(Protocol):
    def workflow_call(
        self, workflow: Workflow, call: Callable[[Workflow], Coroutine[Any, Any, T]]
    ) -> T: ...

    def insert_many(self, jobs: Iterable[Any]) -> Sequence[InsertResult]: ...

    def insert_many_tx(self, tx: object, jobs: Iterable[Any]) -> Sequence[InsertResult]: ...


class Workflow(WorkflowBuilder):
    """A workflow of a Client.

    Methods with `_tx` work in a transaction of the caller's, who commits it.
    """

    _client: _Client

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
        them have ended; for `client.workflow(…, parent=job)`.

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
        async with self._reading() as executor:
            head = await (await own(executor)).workflow_head_get(self.id)
            if head is None:
                return None
            if head.open:
                return until_checked(head.age)
            return await load(executor, self.id, TaskChoice.ALL)

    async def load_all(self, *, after: str = "", limit: int = MOST) -> LoadedTasks:
        """Return the tasks that are there by name, up to `limit` behind the name `after`."""
        async with self._reading() as executor:
            return await load(executor, self.id, TaskChoice.ALL, after, limit=limit)

    async def load_all_tx(self, tx: object, *, after: str = "", limit: int = MOST) -> LoadedTasks:
        """Return the tasks that are there by name, up to `limit` behind the name `after`."""
        return await load(await self._adopted(tx), self.id, TaskChoice.ALL, after, limit=limit)

    async def load(self, name: str) -> LoadedTask:
        """Return one task. NotFound where there is none of that name."""
        async with self._reading() as executor:
            return (await load(executor, self.id, TaskChoice.NAMED, name))[name]

    async def load_tx(self, tx: object, name: str) -> LoadedTask:
        """Return one task. NotFound where there is none of that name."""
        return (await load(await self._adopted(tx), self.id, TaskChoice.NAMED, name))[name]

    async def load_deps(self, name: str, *, recursive: bool = False) -> LoadedTasks:
        """Return the tasks that one waits for; `recursive` those that these wait for as well, and
        so on. NotFound where there is no task of that name.
        """
        async with self._reading() as executor:
            return await load(executor, self.id, _deps(recursive), name)

    async def load_deps_tx(self, tx: object, name: str, *, recursive: bool = False) -> LoadedTasks:
        """Return the tasks that one waits for; see load_deps."""
        return await load(await self._adopted(tx), self.id, _deps(recursive), name)

    async def load_output(self, name: str) -> Any:
        """Return what a task has recorded. NotFound where there is none of that name,
        OutputMissing where it has recorded nothing.
        """
        return (await self.load(name)).output

    async def load_output_tx(self, tx: object, name: str) -> Any:
        """Return what a task has recorded; see load_output."""
        return (await self.load_tx(tx, name)).output

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Executor]:
        async with self._client.driver.autocommit() as executor:
            yield executor

    async def _adopted(self, tx: object) -> Executor:
        return await self._client.driver.adopt(tx)


def _at_once(
    method: Callable[Concatenate[Workflow, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncWorkflow, P], T]:
    """Return a method of Workflow as one that returns what it gives."""

    @wraps(method)
    def call(self: SyncWorkflow, /, *args: P.args, **given: P.kwargs) -> T:
        return self._ask(lambda there: method(there, *args, **given))

    call.__qualname__ = f"SyncWorkflow.{method.__name__}"
    return call


class SyncWorkflow(WorkflowBuilder):
    """A workflow of a SyncClient: what a Workflow does, without asyncio."""

    _client: _SyncClient

    def insert(self) -> Sequence[InsertResult]:
        """Insert the tasks added, all or none; return their jobs as `prepare` has them."""
        results = self._client.insert_many(self.prepare())
        self._inserted()
        return results

    def insert_tx(self, tx: object) -> Sequence[InsertResult]:
        """Insert the tasks added in a transaction of the caller's."""
        results = self._client.insert_many_tx(tx, self.prepare())
        self._inserted()
        return results

    def run(self) -> LoadedTasks:
        """Insert the workflow, as the child of the job at work, and return its tasks once all of
        them have ended; see Workflow.run.
        """
        self._check_parent()
        found = self._ask(Workflow.outcome)
        if isinstance(found, LoadedTasks):
            return found
        if found is None:
            self.insert()
        raise JobSnooze(found or _FIRST_CHECK)

    # Each has the parameters and the docstring of Workflow's.
    load_all = _at_once(Workflow.load_all)
    load_all_tx = _at_once(Workflow.load_all_tx)
    load = _at_once(Workflow.load)
    load_tx = _at_once(Workflow.load_tx)
    load_deps = _at_once(Workflow.load_deps)
    load_deps_tx = _at_once(Workflow.load_deps_tx)
    load_output = _at_once(Workflow.load_output)
    load_output_tx = _at_once(Workflow.load_output_tx)

    def _ask(self, call: Callable[[Workflow], Coroutine[Any, Any, T]]) -> T:
        return self._client.workflow_call(Workflow(self.id, is_new=False), call)


def until_checked(age: timedelta) -> timedelta:
    """Return how long a parent sleeps whose child has been going on for so long."""
    return min(max(age, _FIRST_CHECK), _LAST_CHECK)


def _deps(recursive: bool) -> TaskChoice:
    return TaskChoice.DEPS_RECURSIVE if recursive else TaskChoice.DEPS
