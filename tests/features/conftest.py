"""What tests of features have in common: a client with riverui's tables, a browser for its
dashboard, and workflows whose steps do as they say.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import httpx2
import psycopg
import pytest
from starlette.applications import Starlette

from riverui.domain.queues import QueueTerms
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.work.worker import Job, JobCancel
from riverui.features.heartbeats.store import ClientLife
from riverui.features.workflows.engine.workflow import Workflow
from riverui.storage.interface import Driver
from tests import factory
from tests.engine.conftest import Playground, play
from tests.engine.maintenance.conftest import service_parts, term
from tests.explanations import Register
from tests.storage.conftest import schema_database_url, schema_template, way, way_name, way_url
from tests.web.api.conftest import api, get
from tests.web.conftest import app, client, dashboard_limits, htmx, reader
from tests.web.stand_ins import browser

__all__ = [
    "api",
    "app",
    "client",
    "dashboard_limits",
    "get",
    "htmx",
    "play",
    "reader",
    "schema_database_url",
    "schema_template",
    "service_parts",
    "term",
    "way",
    "way_name",
    "way_url",
]


@dataclass
class Step:
    """The args of a task: what it does."""

    kind: ClassVar[str] = "step"
    does: str = ""


class Workshop(Playground):
    """A playground with the tables of workflows and a worker of steps."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.worked: list[str] = []
        self.mended: set[str] = set()
        """Steps that succeed after all."""
        self.workers.work(Step)(self.step)

    async def step(self, job: Job[Step]) -> None:
        """Do what a step says."""
        name = job.metadata_dict.get("task", "")
        self.worked.append(name)
        if name in self.mended:
            return
        if job.args.does == "cancel":
            raise JobCancel("no more")
        if job.args.does == "fail":
            raise ArithmeticError("no")

    async def tasks(self) -> dict[str, str]:
        """Return the states of the jobs of all tasks, by name."""
        rows = await self.rows(
            "select metadata ->> 'task' as task, state::text from river_job"
            " where metadata ? 'workflow_id'"
        )
        return {row["task"]: row["state"] for row in rows}

    async def own(self) -> dict[str, str]:
        """Return the states of all tasks in the table of tasks."""
        rows = await self.rows("select name, state from riverui_workflow_task")
        return {row["name"]: row["state"] for row in rows}

    async def ended(self) -> dict[str, str]:
        """Wait until every workflow has ended, and return the states of its tasks."""

        async def over() -> bool:
            return not await self.rows("select from riverui_workflow where ended_at is null")

        await self.until(over)
        return await self.tasks()

    async def ids(self) -> Mapping[str, int]:
        """Return the ids of the jobs, by the names of their tasks."""
        rows = await self.rows("select name, job_id from riverui_workflow_task")
        return {row["name"]: row["job_id"] for row in rows}

    async def consistent(self) -> None:
        """Check what must be true of the tables between any two transactions."""
        assert await self.rows(
            "select id from riverui_workflow w where (ended_at is null) <> (open > 0) or open <> ("
            " select count(*) from riverui_workflow_task t"
            " where t.workflow_id = w.id and t.state in ('waiting', 'wait', 'staged'))"
        ) == []  # fmt: skip
        assert await self.rows(
            "select name from riverui_workflow_task t where state = 'waiting' and waits_for <> ("
            " select count(*) from riverui_workflow_edge e join riverui_workflow_task d"
            " on d.workflow_id = e.workflow_id and d.name = e.dependency"
            " where e.workflow_id = t.workflow_id and e.task = t.name"
            " and d.state in ('waiting', 'wait', 'staged'))"
        ) == []  # fmt: skip


def fails_for_good(does: str = "fail") -> tuple[Step, InsertOpts]:
    """Return a step that is discarded at once."""
    return Step(does), InsertOpts(max_attempts=1)


def chain(workflow: Workflow, *names: str) -> Workflow:
    """Add steps that wait each for the one before; return the workflow."""
    for before, name in zip((None, *names), names, strict=False):
        workflow.add(name, Step(), deps=[before] if before else [])
    return workflow


@pytest.fixture
async def shop(
    connection: psycopg.AsyncConnection[Any], database_url: str, driver: Driver, own_tables: None
) -> AsyncIterator[Workshop]:
    """Yield a playground with the tables of workflows."""
    workshop = Workshop(connection, database_url)
    yield workshop
    await workshop.consistent()
    await workshop.close()


@pytest.fixture
async def own(
    connection: psycopg.AsyncConnection[Any], own_tables: None
) -> psycopg.AsyncConnection[Any]:
    """Return a connection to a database with riverui's own tables."""
    return connection


@pytest.fixture
async def pages(own: object, app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a browser for a dashboard whose database has riverui's own tables."""
    async with browser(app) as opened:
        yield opened


def service_context(driver: Driver, **given: Any) -> ServiceContext:
    """Return what a leader gives its services."""
    defaults: dict[str, Any] = {
        "clock": lambda: datetime.now(UTC),
        "logger": logging.getLogger("test"),
    }
    return ServiceContext(driver=driver, **(defaults | given))


@pytest.fixture
async def register(
    driver: Driver, connection: psycopg.AsyncConnection[Any], own_tables: None
) -> Register:
    """Insert the queue, and return what registers a client that works it by the given rules."""
    await factory.queue(connection)

    async def registered(id: str = factory.WORKER, **terms: Any) -> ClientLife:
        for name in terms.keys() & {"rate_limit", "fair_share"}:
            terms[name] = terms[name].as_terms()
        rules = {"default": QueueTerms(**terms)}
        return await factory.client(driver, id, queues={"default": (10, 0)}, terms=rules)

    return registered
