"""Fixtures of the engine's tests: a client on this test's database, and access to its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import isawaitable
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.events import Event, EventKind, Subscription
from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.storage.interface import Driver
from tests import factory

LONGEST_WAIT = 20.0
"""Seconds after which a test gives up waiting."""
JOB_EVENTS = tuple(kind for kind in EventKind if kind.value.startswith("job_"))


@dataclass
class Task:
    """The args of most jobs in these tests."""

    kind: ClassVar[str] = "task"
    value: str = ""
    number: int = 0


class Playground:
    """A client and its database.

    Register workers (`worker`), `start` the client, `insert` jobs or `work` one, and read its
    `row`.
    """

    def __init__(self, connection: AsyncConnection[DictRow], database_url: str) -> None:
        self.connection = connection
        self.database_url = database_url
        self.workers = Workers()
        self._clients: list[Client] = []
        self._drivers: list[Driver] = []
        self._events: dict[int, list[Event]] = {}
        self._listening: list[asyncio.Task[None]] = []

    @property
    def client(self) -> Client:
        """The client started last."""
        return self._clients[-1]

    def config(self, **settings: Any) -> ClientConfig:
        """Quick to fetch, with ten slots in the queue `default`, and no candidate for leader."""
        given: dict[str, Any] = {
            "queues": {"default": QueueConfig(max_workers=10)},
            "workers": self.workers,
            "fetch_cooldown": timedelta(milliseconds=1),
            "fetch_poll_interval": timedelta(milliseconds=20),
            "leader_election_disabled": True,
        }
        return ClientConfig(**(given | settings))

    def make(
        self,
        *,
        database: Driver | None = None,
        limits: EngineLimits | None = None,
        **settings: Any,
    ) -> Client:
        """Return a client that is stopped at the end of the test, should it be started.

        On `database`, which is closed then as well, instead of a driver of its own.
        """
        client = Client(database or self.database_url, self.config(**settings), limits=limits)
        if database is not None:
            self._drivers.append(database)
        self._clients.append(client)
        return client

    async def start(self, **settings: Any) -> Client:
        """Return a client at work, with these settings changed; its job events are collected."""
        if not self.workers.kinds:
            self.worker(_nothing)
        client = self.make(**settings)
        subscription = client.subscribe(*JOB_EVENTS, size=100_000)
        await client.start()
        self._listening.append(asyncio.create_task(self._collect(subscription)))
        return client

    def worker(
        self, worker: Worker[Any] | Callable[[Job[Task]], Any], args_type: type[Any] = Task
    ) -> None:
        """Register who works `args_type`."""
        if isinstance(worker, Worker):
            self.workers.add(worker)
        else:
            self.workers.work(args_type)(worker)

    async def insert(self, args: Any = None, state: str = "available", **columns: Any) -> int:
        """Insert a job and return its id; see factory.job for the columns."""
        args = Task() if args is None else args
        return await factory.job(
            self.connection, state, **({"kind": args.kind, "args": dict(vars(args))} | columns)
        )

    async def work(
        self,
        worker: Worker[Any] | Callable[[Job[Task]], Any] | None = None,
        args: Any = None,
        **columns: Any,
    ) -> DictRow:
        """One job's row after one attempt; `worker` is registered and a client started if
        needed.
        """
        if worker is not None:
            self.worker(worker)
        job_id = await self.insert(args, **columns)
        if not self._listening:
            await self.start()
        await self.event(job_id)
        return await self.row(job_id)

    async def event(self, job_id: int, number: int = 1) -> Event:
        """Return the n-th event of a job."""
        await self.until(lambda: len(self._events.get(job_id, ())) >= number)
        return self._events[job_id][number - 1]

    async def row(self, job_id: int) -> DictRow:
        """Return a job's current columns."""
        cursor = await self.connection.execute("select * from river_job where id = %s", [job_id])
        row = await cursor.fetchone()
        assert row is not None
        return row

    async def rows(self, query: str, *values: Any) -> list[DictRow]:
        """Whatever a query gives."""
        return await (await self.connection.execute(query.encode(), values)).fetchall()

    async def notify(self, topic: str, payload: str) -> None:
        """Send a notification on River's channel for a topic."""
        await self.connection.execute(
            "select pg_notify(current_schema() || '.' || %s, %s)", [topic, payload]
        )

    async def in_state(self, job_id: int, state: str) -> DictRow:
        """Return the job's row once it is in this state."""

        async def reached() -> bool:
            return bool((await self.row(job_id))["state"] == state)

        await self.until(reached)
        return await self.row(job_id)

    async def until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait for something to become true."""
        await until(condition)

    async def until_waited_for(self) -> None:
        """Wait until a statement of the client waits for what the open transaction holds."""

        async def waits() -> bool:
            return bool(
                await self.rows(
                    "select 1 from pg_locks"
                    " where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
                )
            )

        await self.until(waits)

    async def cut_connections(self) -> int:
        """End every connection to the database but the test's own; return how many."""
        rows = await self.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        return len(rows)

    async def close(self) -> None:
        """Stop every client."""
        for client in self._clients:
            await client.stop_and_cancel()
        for driver in self._drivers:
            await driver.close()
        for task in self._listening:
            await task
        await self.until(lambda: not _tasks_of_ours())

    async def _collect(self, subscription: Subscription) -> None:
        async for event in subscription:
            assert event.job is not None
            self._events.setdefault(event.job.id, []).append(event)


def _tasks_of_ours() -> list[asyncio.Task[Any]]:
    """Return what the engine has begun and not ended."""
    return [
        task for task in asyncio.all_tasks() if "/riverui/engine/" in repr(task.get_stack(limit=1))
    ]


async def _nothing(job: Job[Task]) -> None:
    pass


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(LONGEST_WAIT):
        while True:
            reached = condition()
            if await reached if isawaitable(reached) else reached:
                return
            await asyncio.sleep(0.005)


def about(instant: datetime, expected: datetime, within: float = 2.0) -> bool:
    """Whether two instants are nearly the same."""
    return abs((instant - expected).total_seconds()) <= within


@pytest.fixture
async def play(
    connection: AsyncConnection[DictRow], database_url: str
) -> AsyncIterator[Playground]:
    """Yield a client to play with."""
    playground = Playground(connection, database_url)
    yield playground
    await playground.close()
