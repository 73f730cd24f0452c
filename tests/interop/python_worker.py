"""Runs one of our clients, told by JSON lines as the Go program in `go/worker` is, to do the
same.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from psycopg_pool import AsyncConnectionPool

from riverui.domain.jobs import STATE_BITS, JobRow
from riverui.engine.args.gojson import dump
from riverui.engine.client import Client
from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
from riverui.engine.events import EventKind, Subscription
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.job_lists import JobDeleteManyParams, JobListParams
from riverui.engine.lead.periodic import PeriodicInterval, PeriodicJob
from riverui.engine.limits import EngineLimits
from riverui.storage.options import ConnectOptions
from riverui.storage.postgres.connect import connect as connect_postgres
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from tests.drivers import connect
from tests.interop.kinds import KINDS, Bench, JsonArgs, make_args

Settings = dict[str, Any]


class Program:
    """One client and what it is told."""

    def __init__(self, database_url: str, settings: Settings, schema: str | None) -> None:
        self.settings = settings
        self.bench = Bench(
            say=self.say,
            journal=settings.get("journal"),
            quiet=settings.get("quiet", False),
            locks=settings.get("locks"),
        )
        self.pool: AsyncConnectionPool[Any] | None = None
        self._url = database_url
        self._schema = schema
        self._held: list[Any] = []
        self._reporting: asyncio.Task[None] | None = None
        self._skew = timedelta(seconds=settings.get("clock_skew", 0))
        # River's 10 s and 5 s are long for a test.
        self._answer_within: float | None = settings.get("answer_within")

    def say(self, event: str, **fields: Any) -> None:
        """Write one line."""
        line = json.dumps(
            {"event": event, **{k: v for k, v in fields.items() if v not in (None, "", 0)}}
        )
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]

    async def run(self) -> None:
        """Until the end of input."""
        self.client = await self._client()
        self.say("ready", message=self.client.id)
        reader = asyncio.StreamReader(limit=1 << 26)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        doing: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            task = asyncio.create_task(self._answer(json.loads(line)))
            doing.add(task)
            task.add_done_callback(doing.discard)
        if self.client.started:
            await self.client.stop_and_cancel()
        await self.client.driver.close()
        if self.pool is not None:
            await self.pool.close()

    async def _client(self) -> Client:
        config = self._config()
        database: Any
        if size := self.settings.get("host_pool"):
            self.pool = database = AsyncConnectionPool(
                self._url, min_size=1, max_size=size, open=False, kwargs={"autocommit": True}
            )
            await self.pool.open()
        else:
            database = self._driver()
        clock = (lambda: datetime.now(UTC) + self._skew) if self._skew else None
        limits = (
            EngineLimits(statement_timeout=span(self._answer_within))
            if self._answer_within
            else None
        )
        return Client(database, config, clock=clock, limits=limits)

    def _driver(self) -> PostgresDriver:
        if self._answer_within is None:
            return connect(self._url, schema=self._schema)
        limits = PostgresLimits(
            listener_ping_seconds=self._answer_within,
            listener_answer_seconds=LIMITS.grace_seconds + self._answer_within,
        )
        options = ConnectOptions(schema=self._schema, action_timeout=span(self._answer_within))
        return connect_postgres(self._url, None, options, limits)

    def _config(self) -> ClientConfig:
        told = dict(self.settings)
        config: dict[str, Any] = {
            name: span(told[name])
            for name in (
                "fetch_cooldown",
                "fetch_poll_interval",
                "heartbeat_interval",
                "job_stuck_threshold",
                "soft_stop_timeout",
            )
            if told.get(name)
        }
        if told.get("completed_retention"):
            config["completed_job_retention_period"] = span(told["completed_retention"])
        if told.get("rescue_after"):
            config["rescue_stuck_jobs_after"] = span(told["rescue_after"])
        if retry_in := told.get("retry_in"):
            config["retry_policy"] = lambda _: datetime.now(UTC) + span(retry_in)
        queues = told.get("queues", {"default": 10, "second": 5})
        return ClientConfig(
            id=told.get("id"),
            schema=self._schema,
            queues={name: QueueConfig(max_workers=slots) for name, slots in queues.items()},
            workers=self.bench.workers(told.get("kinds") or list(KINDS)),
            job_timeout=span(told["job_timeout"]) if told.get("job_timeout") else NO_LIMIT,
            fetch_only_known_kinds=told.get("fetch_only_known_kinds", False),
            leader_election_disabled=told.get("leader_election_disabled", False),
            poll_only=told.get("poll_only", False),
            periodic_jobs=[periodic(job) for job in told.get("periodic", ())],
            log_jobs=told.get("log_jobs", True),
            skip_unknown_job_check=True,
            **config,
        )

    async def _report(self, subscription: Subscription) -> None:
        async for event in subscription:
            if event.job is not None:
                row = event.job
                self.say(event.kind, id=row.id, kind=row.kind, attempt=row.attempt, state=row.state)
            elif event.queue is not None:
                self.say(event.kind, queue=event.queue.name)

    async def _answer(self, command: dict[str, Any]) -> None:
        try:
            fields = await OPS[command["op"]](self, command)
        except Exception as error:
            fields = {"error": f"{type(error).__name__}: {error}"}
        self.say("answer", ref=command["ref"], **fields)

    # What can be asked for. Each takes the command and gives the fields of its answer.

    async def cancel(self, command: dict[str, Any]) -> dict[str, Any]:
        return told_job(await self.client.job_cancel(command["id"]))

    async def delete(self, command: dict[str, Any]) -> dict[str, Any]:
        return told_job(await self.client.job_delete(command["id"]))

    async def delete_many(self, command: dict[str, Any]) -> dict[str, Any]:
        params = JobDeleteManyParams(first=command.get("count", 100), **filters(command))
        return {"result": [row.id for row in await self.client.job_delete_many(params)]}

    async def get(self, command: dict[str, Any]) -> dict[str, Any]:
        return told_job(await self.client.job_get(command["id"]))

    async def hold(self, command: dict[str, Any]) -> dict[str, Any]:
        """Take `count` connections of the pool that the host shares with us."""
        assert self.pool is not None
        for _ in range(command["count"]):
            self._held.append(await self.pool.getconn())
        return {}

    async def insert(self, command: dict[str, Any]) -> dict[str, Any]:
        args = make_args(command["kind"], command.get("args", {}))
        result = await self.client.insert(args, opts(command.get("opts", {})))
        return {**told_job(result.job), "duplicate": result.unique_skipped_as_duplicate}

    async def insert_many(self, command: dict[str, Any]) -> dict[str, Any]:
        params = [
            InsertManyParams(
                args=JsonArgs(job["kind"], job.get("args", {})),
                insert_opts=opts(job.get("opts", {})),
            )
            for _ in range(command.get("count", 1))
            for job in command["jobs"]
        ]
        if command.get("fast"):
            return {"count": await self.client.insert_many_fast(params)}
        results = await self.client.insert_many(params)
        told = [{"id": one.job.id, "duplicate": one.unique_skipped_as_duplicate} for one in results]
        return {"count": len(told), "result": told}

    async def let_go(self, command: dict[str, Any]) -> dict[str, Any]:
        """Give back the connections that the host held."""
        assert self.pool is not None
        while self._held:
            await self.pool.putconn(self._held.pop())
        return {}

    async def list(self, command: dict[str, Any]) -> dict[str, Any]:
        params = JobListParams(
            first=command.get("count", 100),
            order_by=command.get("order") or "id",
            descending=command.get("desc", False),
            after=command.get("cursor") or None,
            **filters(command),
        )
        page = await self.client.job_list(params)
        return {"result": [row.id for row in page.jobs], "message": str(page.last_cursor or "")}

    async def pause(self, command: dict[str, Any]) -> dict[str, Any]:
        await self.client.queue_pause(command["queue"])
        return {}

    async def periodic_add(self, command: dict[str, Any]) -> dict[str, Any]:
        self.client.periodic_jobs.add(periodic(command["value"]))
        return {}

    async def queue_update(self, command: dict[str, Any]) -> dict[str, Any]:
        await self.client.queue_update(command["queue"], metadata=command["value"])
        return {}

    async def release(self, command: dict[str, Any]) -> dict[str, Any]:
        self.bench.release(command["id"])
        return {}

    async def request_resign(self, command: dict[str, Any]) -> dict[str, Any]:
        await self.client.request_resign()
        return {}

    async def resume(self, command: dict[str, Any]) -> dict[str, Any]:
        await self.client.queue_resume(command["queue"])
        return {}

    async def retry(self, command: dict[str, Any]) -> dict[str, Any]:
        return told_job(await self.client.job_retry(command["id"]))

    async def start(self, command: dict[str, Any]) -> dict[str, Any]:
        if not self.bench.quiet:
            # It ends by itself with the client's stop.
            subscription = self.client.subscribe(*EventKind, size=100_000)
            self._reporting = asyncio.create_task(self._report(subscription))
        await self.client.start()
        return {}

    async def stats(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return what this process holds: MB of memory, tasks, running jobs."""
        gc.collect()
        return {
            "result": {
                "files": len(os.listdir("/proc/self/fd")),
                "leader": self.client.is_leader,
                "mb": _resident_mb(),
                "running": self.client.running,
                "tasks": len(asyncio.all_tasks()),
            }
        }

    async def stop(self, command: dict[str, Any]) -> dict[str, Any]:
        await (self.client.stop_and_cancel() if command.get("hard") else self.client.stop())
        if self._reporting is not None:
            await self._reporting
        return {}

    async def update(self, command: dict[str, Any]) -> dict[str, Any]:
        return told_job(await self.client.job_update(command["id"], output=command["value"]))


OPS: dict[str, Callable[[Program, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    name: getattr(Program, name)
    for name in vars(Program)
    if not name.startswith("_") and name not in ("run", "say")
}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def span(seconds: float) -> timedelta:
    """Return the seconds as a timedelta."""
    return timedelta(seconds=seconds)


def opts(told: dict[str, Any]) -> InsertOpts:
    """Return River's InsertOpts, as the Go program takes them."""
    unique = told.get("unique")
    at = told.get("scheduled_at")
    scheduled_at = datetime.fromisoformat(at) if at else None
    if told.get("scheduled_in"):
        scheduled_at = datetime.now(UTC) + span(told["scheduled_in"])
    return InsertOpts(
        max_attempts=told.get("max_attempts") or None,
        metadata=told.get("metadata"),
        pending=told.get("pending", False),
        priority=told.get("priority") or None,
        queue=told.get("queue") or None,
        scheduled_at=scheduled_at,
        tags=told.get("tags"),
        unique_opts=UniqueOpts(
            by_args=unique.get("by_args", False),
            by_period=span(unique["by_period"]) if unique.get("by_period") else None,
            by_queue=unique.get("by_queue", False),
            by_state=unique.get("by_state") or None,
            exclude_kind=unique.get("exclude_kind", False),
        )
        if unique
        else None,
    )


def periodic(told: dict[str, Any]) -> PeriodicJob:
    """Return a periodic job, as the Go program takes it."""
    return PeriodicJob(
        PeriodicInterval(span(told["interval"])),
        lambda: (make_args(told["kind"], told.get("args", {})), opts(told.get("opts", {}))),
        run_on_start=told.get("run_on_start", False),
        id=told.get("id"),
    )


def filters(command: dict[str, Any]) -> dict[str, Any]:
    """Return what `list` and `delete_many` look for."""
    return {name: value for name, value in command.get("filter", {}).items() if value}


def told_job(row: JobRow | None) -> dict[str, Any]:
    """Return one job with every column, named and shaped as in the Go program's answers."""
    if row is None:
        return {}
    metadata = json.loads(row.metadata)
    result = {
        **row._asdict(),
        "args": json.loads(row.args),
        "errors": [msgspec.to_builtins(error) for error in row.errors],
        "metadata": metadata,
        "output": metadata.get("output"),
        "unique_states": sorted(
            state for state, bit in STATE_BITS.items() if (row.unique_states or 0) & bit
        ),
    }
    return {
        "id": row.id,
        "kind": row.kind,
        "state": row.state,
        "attempt": row.attempt,
        "result": json.loads(dump(result)),
    }


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--config", default="{}")
    parser.add_argument("--schema")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(handlers=[logging.NullHandler()])
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            Program(given.database_url, json.loads(given.config), given.schema or None).run()
        )


if __name__ == "__main__":
    main()
