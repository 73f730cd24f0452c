"""A job's workflow as a reason why it waits."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings, strategies as st

from riverui.domain.explain.facts import JobFacts
from riverui.features.workflows.domain.pages import TASK_STATES, TaskNeighbour, TaskPlace
from riverui.features.workflows.explain import WORKFLOW
from riverui.storage.interface import Driver
from tests.domain.anything import anything
from tests.explanations import (
    FAILED,
    PASSED,
    Connection,
    any_facts,
    explained,
    holds_together,
    results,
)
from tests.own_tables import OWN_TABLES
from tests.scale import scaled
from tests.workflows import DIAMOND, fan, workflow

_STATES = st.sampled_from(["waiting", "wait", *TASK_STATES])
_TASKS = st.lists(anything(TaskNeighbour, state=_STATES), max_size=4)


@given(any_facts(WORKFLOW, anything(TaskPlace, state=_STATES, deps=_TASKS)))
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    holds_together(facts)


async def test_a_task_that_waits_for_others_of_its_workflow(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute(OWN_TABLES)
    made = await workflow(connection, DIAMOND, id="w", name="Order 42")
    found = await explained(driver, made["ship"])
    assert found.headline == "It waits for “pack” (running) of its workflow Order 42."
    assert results(found)["workflow"] is FAILED
    assert results(found)["state"] is PASSED
    assert "workflow" not in results(await explained(driver, made["pack"]))
    await connection.execute(
        "update river_job set state = 'completed', finalized_at = now() where id = %s",
        [made["pack"]],
    )
    found = await explained(driver, made["ship"])
    assert found.headline.startswith("All that it waits for in its workflow Order 42 has completed")
    await connection.execute(
        "update riverui_workflow_task set state = 'wait' where job_id = %s", [made["ship"]]
    )
    assert "its own terms" in (await explained(driver, made["ship"])).headline


async def test_a_task_that_waits_for_very_many(driver: Driver, connection: Connection) -> None:
    await connection.execute(OWN_TABLES)
    await fan(connection, 1_000, id="w")
    row = await (
        await connection.execute("select job_id from riverui_workflow_task where name = 'join'")
    ).fetchone()
    assert row
    found = await explained(driver, row["job_id"])
    assert found.headline.endswith("and 997 more tasks of its workflow w.")


async def test_a_task_that_was_cancelled_as_another_failed(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute(OWN_TABLES)
    tasks: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "a" * 100: ("discarded", ()),
        "b": ("cancelled", ("a" * 100,)),
    }
    made = await workflow(connection, tasks, id="w")
    found = await explained(driver, made["b"])
    evidence = next(check.evidence for check in found.checks if check.name == "workflow")
    failed = f"“{'a' * 80}…” (discarded) of its workflow w has failed"
    assert evidence == f"{failed}, and it waited for that."
