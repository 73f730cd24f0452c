"""A job's sequence as a reason why it waits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.explain.facts import JobFacts
from riverui.domain.jobs import JobState
from riverui.features.sequences import verbs as sequences
from riverui.features.sequences.domain import SequencePlace
from riverui.features.sequences.explain import SEQUENCE
from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from tests.domain.anything import anything
from tests.explanations import (
    FAILED,
    PASSED,
    UNKNOWN,
    Connection,
    any_facts,
    explained,
    holds_together,
    results,
)
from tests.factory import Make, job
from tests.features.sequences.line import Line
from tests.own_tables import OWN_TABLES
from tests.scale import scaled

_STATES = st.sampled_from([state.value for state in JobState])


@given(any_facts(SEQUENCE, anything(SequencePlace, head_state=st.none() | _STATES)))
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    holds_together(facts)


async def test_a_job_that_waits_in_a_sequence(driver: Driver, connection: Connection) -> None:
    await connection.execute(OWN_TABLES)
    line = Line(driver, Make(connection))
    ids = await line.make("running", "pending", "pending", "pending")
    first = await explained(driver, ids[1])
    assert first.headline == (
        f"It waits for job {ids[0]} (running), which is before it in its sequence order."
    )
    assert results(first)["state"] is PASSED
    last = await explained(driver, ids[3])
    assert last.headline.endswith("its sequence order. 2 other jobs wait between them.")
    link = next(check.link for check in last.checks if check.name == "sequence")
    assert link is not None
    assert link.name == str(ids[0])


@pytest.mark.parametrize("state", ["cancelled", "discarded"])
async def test_a_job_whose_sequence_is_halted(
    driver: Driver, connection: Connection, state: str
) -> None:
    await connection.execute(OWN_TABLES)
    line = Line(driver, Make(connection))
    ids = await line.make("running", "pending", "pending")
    await connection.execute(
        "update river_job set state = %s, finalized_at = now() where id = %s", [state, ids[0]]
    )
    async with driver.transaction() as executor:
        await SequenceStore(executor).sequence_advance(["order"])
    found = await explained(driver, ids[2])
    assert found.headline == (
        f"Its sequence order is halted: job {ids[0]}, which is before it, was {state}. It"
        " continues once that job is retried, skipped or deleted. 1 other job waits between them."
    )
    halts = await explained(driver, ids[0])
    assert results(halts) == {"state": FAILED, "sequence": FAILED}
    assert "It halts its sequence order" in halts.checks[1].evidence
    assert "2 jobs wait behind it" in halts.checks[1].evidence
    await sequences.skip(driver, ids[0])
    assert [*results(await explained(driver, ids[0]))] == ["state"], "it holds up nobody any more"


async def test_a_job_whose_sequence_lost_its_head(driver: Driver, connection: Connection) -> None:
    await connection.execute(OWN_TABLES)
    line = Line(driver, Make(connection))
    ids = await line.make("running", "pending")
    await connection.execute("delete from river_job where id = %s", [ids[0]])
    assert f"Job {ids[0]}, which was before it" in (await explained(driver, ids[1])).headline
    await connection.execute("update riverui_sequence set head_id = null")
    assert "looks for the next one" in (await explained(driver, ids[1])).headline
    await connection.execute("delete from riverui_sequence_job")
    assert "has no place in the line" in (await explained(driver, ids[1])).headline


async def test_a_sequence_without_tables_or_of_pro(driver: Driver, connection: Connection) -> None:
    ours = await job(connection, "pending", metadata={"seq_key": "k", "riverui:sequence": {}})
    found = await explained(driver, ours)
    assert results(found)["sequence"] is UNKNOWN
    pros = await explained(driver, await job(connection, "pending", metadata={"seq_key": "k"}))
    assert "which is River Pro’s" in pros.headline
