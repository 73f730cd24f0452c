"""Random histories: clients work while users and faults change their jobs.

A history's steps and the outcomes of its jobs come from its seed. How the steps of several actors
interleave is up to the machine, so what is checked holds of every order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar

from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow

from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.pilot import JobPilot
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobRow, JobState
from riverui.engine.client import Client
from riverui.engine.feature_list import plain_pilot
from riverui.engine.lead.maintenance.queue_maintainer import queue_maintainer
from riverui.engine.lead.maintenance.service import MaintenanceService, ServiceContext, Timing
from riverui.engine.lead.periodic import PeriodicJobs
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import JobEnd
from riverui.engine.work.worker import Job, JobCancel, JobSnooze
from riverui.errors import DatabaseUnavailable, LockTimeout, NotFound
from riverui.storage.interface.engine_params import JobFetchParams, JobSetStateParams
from tests.engine.conftest import Playground
from tests.own_tables import OWN_TABLES
from tests.scale import scaled

SEEDS = range(scaled(1, 40))
"""The histories that a test goes through."""

QUICK = EngineLimits(backoff=lambda _: 0.05)
"""For clients whose connections are cut."""

Step = Callable[[], Awaitable[None]]

ENDS = ("well",) * 7 + ("fail", "fail", "cancel", "snooze")
"""How an attempt may end; most succeed."""


@dataclass
class Deed:
    """The args of a job: how its attempts end in turn; later ones succeed."""

    kind: ClassVar[str] = "deed"
    key: str = ""
    ends: list[str] = field(default_factory=list)


@dataclass
class Passing(Deed):
    """The same for an ephemeral job."""

    kind: ClassVar[str] = "passing"
    ephemeral: ClassVar[bool] = True


class NoPause(Timing):
    """Services that do not hold still between two batches."""

    async def pause(self) -> None:
        return


class History(Playground):
    """A playground with riverui's own tables, whose clients die and are replaced."""

    def __init__(self, connection: AsyncConnection[DictRow], database_url: str, seed: int) -> None:
        super().__init__(connection, database_url)
        self.random = Random(seed)
        self.ghosts: list[JobRow] = []
        """Jobs fetched by clients that vanished."""
        self.deleted: set[int] = set()
        """Jobs that a user asked to delete."""
        self.ids: list[int] = []
        """Of all jobs that were inserted."""
        self.meddled: set[int] = set()
        """Jobs that were changed besides being worked."""
        self.retried: set[int] = set()
        """Jobs that a user asked to retry."""
        self._leading = asyncio.Lock()
        self._services: dict[Client, Sequence[MaintenanceService]] = {}

    @classmethod
    async def begun(
        cls, connection: AsyncConnection[DictRow], database_url: str, seed: int
    ) -> History:
        """Return a new history on a database without riverui's own tables."""
        await connection.execute(OWN_TABLES)
        return cls(connection, database_url, seed)

    def config(self, **settings: Any) -> Any:
        """Failed jobs are due again at once, and what runs for a minute is stuck."""
        given = {
            "rescue_stuck_jobs_after": timedelta(minutes=1),
            "retry_policy": lambda _: datetime.now(UTC),
        }
        return super().config(**(given | settings))

    @property
    def clients(self) -> Sequence[Client]:
        """The clients at work."""
        return self._clients

    def deed(self, key: str, cls: type[Deed] = Deed) -> Deed:
        """Return random args."""
        return cls(key, self.random.choices(ENDS, k=self.random.randint(0, 3)))

    async def act(self, job: Job[Any]) -> None:
        """End as the job's args say."""
        await asyncio.sleep(self.random.random() * 0.004)
        at = job.attempt - 1 + job.metadata_dict.get("snoozes", 0)
        match job.args.ends[at] if at < len(job.args.ends) else "well":
            case "fail":
                raise ArithmeticError("as planned")
            case "cancel":
                raise JobCancel("as planned")
            case "snooze":
                raise JobSnooze(timedelta(0))

    # Steps

    async def meddle(self, *, verb: JobVerb | None = None) -> None:
        """Cancel, delete or retry some jobs, in a client or in a dashboard without one."""
        if not self.ids:
            return
        random = self.random
        verb = verb or random.choice((CANCEL, DELETE, RETRY, RETRY))
        chosen = random.sample(self.ids, min(len(self.ids), random.randint(1, 4)))
        self.meddled.update(chosen)
        if verb is RETRY:
            self.retried.update(chosen)
        pilot: JobPilot = plain_pilot() if random.random() < 0.5 else self.client.pilot
        if verb is DELETE:
            self.deleted.update(chosen)
        await jobs.apply(self.client.driver, verb, chosen, pilot=pilot)

    async def crash(self) -> None:
        """Let a client fetch some jobs and vanish."""
        async with self.client.driver.transaction() as transaction:
            rows = await self.client.pilot.get_available(
                transaction,
                JobFetchParams(client_id="ghost", queue="default", limit=self.random.randint(1, 3)),
            )
        self.ghosts += rows
        self.meddled.update(row.id for row in rows)

    async def cut(self) -> None:
        """Cut the connections of all clients."""
        await self.cut_connections()

    async def bury(self) -> None:
        """Let an hour pass for what a client that died has fetched."""
        await self.connection.execute(
            "update river_job set attempted_at = attempted_at - interval '1 hour'"
            " where state = 'running' and attempted_by[array_upper(attempted_by, 1)] = 'ghost'"
        )

    async def haunt(self) -> None:
        """Let a client that was thought dead write how a job ended."""
        if not self.ghosts:
            return
        row = self.ghosts.pop(self.random.randrange(len(self.ghosts)))
        change = JobSetStateParams(
            id=row.id,
            state=self.random.choice((JobState.COMPLETED, JobState.DISCARDED)),
            finalized_at=datetime.now(UTC),
            of_attempt=row.attempt,
        )
        async with self.client.driver.transaction() as transaction:
            await self.client.pilot.set_state_if_running_many(transaction, [JobEnd(row, change)])

    async def lead(self) -> None:
        """Run all services of a leader once."""
        client = self.client
        if client not in self._services:
            context = ServiceContext(
                driver=client.driver,
                clock=client.clock,
                logger=logging.getLogger("test"),
                delete_before=client.pilot.delete_before if client.pilot.cleans else None,
                retention=client.config.retention,
                timing=NoPause(),
            )
            self._services[client] = queue_maintainer(
                context, client.config, PeriodicJobs(), client, pilot=client.pilot
            ).services
        async with self._leading:
            for service in self._services[client]:
                await service.run_once()

    # The whole

    async def play(self, *actors: Sequence[tuple[int, Step]], rounds: int) -> None:
        """Let actors do so many steps each, at the same time; each step has a weight."""
        await asyncio.gather(*(self._play(actor, rounds) for actor in actors))

    async def _play(self, steps: Sequence[tuple[int, Step]], rounds: int) -> None:
        weights = [weight for weight, _ in steps]
        for _ in range(rounds):
            ((_, step),) = self.random.choices(steps, weights)
            # A fault may come between, and what is looked for be gone already.
            with suppress(DatabaseUnavailable, LockTimeout, NotFound):
                await step()
            await asyncio.sleep(self.random.random() * 0.01)

    async def relieve(self, **settings: Any) -> None:
        """Stop all clients and start another; what they leave behind was fetched for them by
        statements whose answers were lost with their connections.
        """
        for client in self._clients:
            await client.stop()
        rows = await self.rows(
            "update river_job set attempted_at = attempted_at - interval '1 hour'"
            " where state = 'running' returning id"
        )
        self.meddled.update(row["id"] for row in rows)
        await self.start(**({"id": "relief"} | settings))

    async def quiet(self, *, also: Step | None = None) -> None:
        """Wait until nothing is left to be done that can be done; `also` is done meanwhile."""

        async def over() -> bool:
            await self.bury()
            await self.lead()
            if also is not None:
                await also()
            return not await self.open()

        await self.until(over)

    async def open(self) -> list[DictRow]:
        """Return the jobs that have not ended."""
        return await self.rows(
            "select id, state::text, attempt, metadata from river_job where finalized_at is null"
            " order by id"
        )

    async def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        query = sql.SQL("select count(*) as count from {}").format(sql.Identifier(table))
        row = await (await self.connection.execute(query)).fetchone()
        assert row is not None
        return int(row["count"])
