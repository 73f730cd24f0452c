"""Actions on workflows and on single tasks, and the leader's services."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.engine.client import Client
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.insert_opts import InsertOpts, UniqueOpts
from riverui.errors import BadRequest, NotFound, UniqueConflict, WorkflowActive, WorkflowCancelled
from riverui.features.workflows.engine.bundle import RetryMode
from riverui.features.workflows.engine.services import StrayTaskFinder, WorkflowCleaner
from riverui.features.workflows.verbs import workflows
from riverui.storage.interface import Driver
from tests.features.conftest import Step, Workshop, chain, fails_for_good, service_context


async def do(driver: Driver, verb: JobVerb, *ids: int) -> None:
    """Run a verb as a dashboard without a client does."""
    changes = await jobs.apply(driver, verb, ids, pilot=plain_pilot())
    assert sorted((*changes.changed, *changes.requested)) == sorted(ids)


class TestSingleTasks:
    """Cancel, delete and retry of jobs that are tasks."""

    @pytest.mark.parametrize(
        ("verb", "state", "ignored"),
        [(CANCEL, "cancelled", "cancelled"), (DELETE, "deleted", "deleted")],
    )
    async def test_a_task_that_is_cancelled_or_deleted_has_failed(
        self, shop: Workshop, driver: Driver, verb: JobVerb, state: str, ignored: str
    ) -> None:
        client = shop.make(queues={})
        workflow = client.workflows.new()
        first = workflow.add("first", Step())
        second = workflow.add("second", Step(), deps=[first])
        workflow.add("third", Step(), deps=[second])
        options: dict[str, Any] = {f"ignore_{ignored}_deps": True}
        workflow.add("all the same", Step(), deps=[first], **options)
        await workflow.insert()
        await do(driver, verb, (await shop.ids())["first"])
        assert await shop.own() == {
            "first": state, "second": "cancelled", "third": "cancelled", "all the same": "staged",
        }  # fmt: skip
        assert (await shop.tasks())["all the same"] == "available"

    async def test_a_task_that_is_retried_is_waited_for_again(
        self, shop: Workshop, driver: Driver
    ) -> None:
        client = await shop.start()
        workflow = client.workflows.new()
        first = workflow.add("first", Step())
        slow = workflow.add("slow", Step(), InsertOpts(queue="elsewhere"))
        workflow.add("last", Step(), deps=[first, slow])
        await workflow.insert()
        ids = await shop.ids()
        await shop.in_state(ids["first"], "completed")
        await client.queues.remove("default")
        await do(driver, RETRY, ids["first"])
        await do(driver, CANCEL, (await shop.ids())["slow"])
        # Otherwise it would have been cancelled.
        assert await shop.own() == {"first": "staged", "slow": "cancelled", "last": "cancelled"}
        await do(driver, RETRY, ids["slow"])
        assert (await shop.own())["slow"] == "staged"

    async def test_one_that_waits_is_worked_at_once(self, shop: Workshop, driver: Driver) -> None:
        client = shop.make(queues={})
        await chain(client.workflows.new(), "first", "second", "third").insert()
        ids = await shop.ids()
        await do(driver, RETRY, ids["second"])
        assert await shop.own() == {"first": "staged", "second": "staged", "third": "waiting"}
        assert (await shop.tasks())["second"] == "available"
        await shop.consistent()
        await shop.start()
        await shop.ended()

    async def test_what_was_cancelled_for_another_may_be_worked(
        self, shop: Workshop, driver: Driver
    ) -> None:
        client = shop.make(queues={})
        await chain(client.workflows.new(), "first", "second", "third").insert()
        ids = await shop.ids()
        await do(driver, CANCEL, ids["first"])
        await do(driver, RETRY, ids["second"], ids["third"])
        assert await shop.own() == {"first": "cancelled", "second": "staged", "third": "staged"}
        row = await shop.row(ids["second"])
        assert "workflow_deps_failed_at" not in row["metadata"]


class TestCancel:
    """A workflow that is cancelled."""

    async def test_what_has_not_ended_is_cancelled(self, shop: Workshop, driver: Driver) -> None:
        client = await shop.start()
        workflow = chain(client.workflows.new("w"), "first", "second", "third")
        workflow.add("waits", Step(), InsertOpts(queue="elsewhere"), deps=["second"])
        workflow.add("also", Step(), deps=["waits"])
        await workflow.insert()
        ids = await shop.ids()
        await shop.in_state(ids["third"], "completed")
        assert await client.workflows.cancel(workflow.id) == sorted([ids["waits"], ids["also"]])
        assert await shop.ended() == {
            "first": "completed", "second": "completed", "third": "completed",
            "waits": "cancelled", "also": "cancelled",
        }  # fmt: skip
        assert await client.workflows.cancel(workflow.id) == []
        with pytest.raises(NotFound):
            await client.workflows.cancel("none")

    async def test_nothing_can_be_added_to_it(self, shop: Workshop) -> None:
        client = shop.make(queues={})
        workflow = chain(client.workflows.new(), "first")
        await workflow.insert()
        await client.workflows.cancel(workflow.id)
        workflow.add("second", Step())
        with pytest.raises(WorkflowCancelled):
            await workflow.insert()
        await client.workflows.retry(workflow.id)
        await workflow.insert()
        assert await shop.own() == {"first": "staged", "second": "staged"}

    async def test_from_a_dashboard(self, shop: Workshop, driver: Driver) -> None:
        client = shop.make(queues={})
        workflow = chain(client.workflows.new(), "first", "second")
        await workflow.insert()
        rows = await workflows.cancel(driver, workflow.id)
        assert [row.state.value for row in rows] == ["cancelled", "cancelled"]
        rows = await workflows.retry(driver, workflow.id)
        assert [row.state.value for row in rows] == ["available", "pending"]


class TestRetry:
    """A workflow that has ended and is retried."""

    async def broken(self, client: Client) -> str:
        """Insert a workflow in which one task fails."""
        workflow = client.workflows.new()
        good = workflow.add("good", Step())
        bad = workflow.add("bad", *fails_for_good(), deps=[good])
        after = workflow.add("after", Step(), deps=[bad])
        workflow.add("both", Step(), deps=[good, after])
        spared = workflow.add("spared", Step(), deps=[bad], ignore_discarded_deps=True)
        workflow.add("last", Step(), deps=[spared])
        await workflow.insert()
        return workflow.id

    @pytest.mark.parametrize(
        ("mode", "again"),
        [
            ("all", {"good", "bad", "after", "both", "spared", "last"}),
            ("failed_only", {"bad", "after", "both"}),
            ("failed_and_downstream", {"bad", "after", "both", "spared", "last"}),
        ],
    )
    async def test_what_each_mode_runs_again(
        self, shop: Workshop, mode: RetryMode, again: set[str]
    ) -> None:
        client = await shop.start()
        broken = await self.broken(client)
        await shop.ended()
        shop.worked.clear()
        shop.mended.add("bad")
        ids = await shop.ids()
        assert await client.workflows.retry(broken, mode) == sorted(ids[name] for name in again)
        assert set((await shop.ended()).values()) == {"completed"}
        assert sorted(shop.worked) == sorted(again)
        places = {name: place for place, name in enumerate(shop.worked)}
        assert places["bad"] < places["after"] < places["both"]
        (row,) = await shop.rows("select * from riverui_workflow")
        assert (row["attempt"], row["open"]) == (2, 0)

    async def test_attempts_and_history(self, shop: Workshop) -> None:
        client = await shop.start()
        broken = await self.broken(client)
        await shop.ended()
        await client.workflows.retry(broken, "failed_only")
        await shop.ended()
        bad = await shop.row((await shop.ids())["bad"])
        assert (bad["attempt"], bad["max_attempts"], len(bad["errors"])) == (2, 2, 2)
        shop.mended.add("bad")
        await client.workflows.retry(broken, "failed_only", reset_history=True)
        await shop.ended()
        bad = await shop.row((await shop.ids())["bad"])
        assert (bad["attempt"], bad["max_attempts"], bad["errors"] or []) == (1, 2, [])

    async def test_while_something_is_active_it_is_refused(self, shop: Workshop) -> None:
        client = shop.make(queues={})
        workflow = chain(client.workflows.new(), "first")
        await workflow.insert()
        with pytest.raises(WorkflowActive):
            await client.workflows.retry(workflow.id)
        with pytest.raises(BadRequest, match="all, failed_only"):
            await client.workflows.retry(workflow.id, "some")  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await client.workflows.retry("none")
        # A client without workflows may have completed it.
        await shop.connection.execute(
            "update river_job set state = 'completed', finalized_at = now()"
        )
        assert await client.workflows.retry(workflow.id) == [(await shop.ids())["first"]]

    async def test_a_unique_job_in_the_way_undoes_it(self, shop: Workshop) -> None:
        client = shop.make(queues={})
        unique = InsertOpts(unique_opts=UniqueOpts(by_args=True))
        workflow = chain(client.workflows.new(), "first")
        workflow.add("unique", Step("fail"), unique)
        await workflow.insert()
        await client.workflows.cancel(workflow.id)
        await client.insert(Step("fail"), unique)
        with pytest.raises(UniqueConflict):
            await client.workflows.retry(workflow.id)
        assert set((await shop.own()).values()) == {"cancelled"}

    async def test_a_job_that_is_gone_stays_as_it_was(self, shop: Workshop) -> None:
        client = await shop.start()
        workflow = chain(client.workflows.new(), "first", "second")
        await workflow.insert()
        await shop.ended()
        await shop.connection.execute("delete from river_job where metadata ->> 'task' = 'first'")
        shop.worked.clear()
        await client.workflows.retry(workflow.id)
        assert await shop.ended() == {"second": "completed"}
        assert shop.worked == ["second"]


class TestTheLeader:
    """Ends that were not recorded."""

    @pytest.mark.parametrize(
        ("change", "second"),
        [
            ("update river_job set state = 'completed', finalized_at = now()", "staged"),
            ("update river_job set state = 'discarded', finalized_at = now()", "cancelled"),
            ("delete from river_job", "cancelled"),
        ],
    )
    async def test_ends_that_other_clients_wrote(
        self, shop: Workshop, driver: Driver, change: str, second: str
    ) -> None:
        client = shop.make(queues={})
        for _ in range(5):
            await chain(client.workflows.new(), "first", "second").insert()
        finder = StrayTaskFinder(service_context(driver), most=2)
        assert await finder.run_once() == 0
        await shop.connection.execute(f"{change} where metadata ->> 'task' = 'first'".encode())
        # Each round reads two, and starts over after the last one.
        rounds = [await finder.run_once() for _ in range(10)]
        assert max(rounds) == 2
        assert sum(rounds) == 5
        assert await shop.own() == {
            "first": {"staged": "completed"}.get(second)
            or ("discarded" if "discarded" in change else "deleted"),
            "second": second,
        }
        await shop.consistent()

    async def test_old_workflows_are_forgotten(self, shop: Workshop, driver: Driver) -> None:
        client = shop.make(queues={})
        old, new, open_ = (chain(client.workflows.new(), "first", "second") for _ in range(3))
        for workflow in (old, new, open_):
            await workflow.insert()
        for workflow in (old, new):
            await client.workflows.cancel(workflow.id)
        await shop.connection.execute(
            "update riverui_workflow set ended_at = ended_at - interval '8 days' where id = %s",
            [old.id],
        )
        cleaner = WorkflowCleaner(service_context(driver), after=timedelta(days=7))
        assert await cleaner.run_once() == 1
        left = await shop.rows("select id from riverui_workflow order by id")
        assert [row["id"] for row in left] == sorted([new.id, open_.id])
        assert len(await shop.rows("select from riverui_workflow_task")) == 4
        assert len(await shop.rows("select from riverui_workflow_edge")) == 2
