"""Fair shares as a reason why a job waits."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from riverui.domain.explain.facts import JobFacts
from riverui.domain.partitions import Partition
from riverui.features.fair_shares.domain import FairShare
from riverui.features.fair_shares.explain import SHARE, ShareHold
from riverui.storage.interface import Driver
from riverui.storage.stores.candidates import CandidateStore
from tests.domain.anything import anything
from tests.explanations import (
    BY_TENANT,
    FAILED,
    PASSED,
    Connection,
    Register,
    any_facts,
    checks,
    holds_together,
    tenant,
)
from tests.scale import scaled

_SHARES = st.builds(
    FairShare,
    partition=st.sampled_from([BY_TENANT, Partition(by_kind=True)]),
    weights=st.dictionaries(st.sampled_from(["mail", "a"]), st.floats(0.1, 10), max_size=2),
)


@given(any_facts(SHARE, anything(ShareHold, share=_SHARES)))
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    holds_together(facts)


async def test_other_keys_have_their_turn_first(
    driver: Driver, connection: Connection, register: Register
) -> None:
    await register(fair_share=FairShare(partition=BY_TENANT))
    for _ in range(20):
        await tenant(connection, "big")
    own = [await tenant(connection, "small") for _ in range(3)]
    await tenant(connection, "third")
    found = (await checks(driver, own[2]))["share"]
    assert found.result is FAILED
    assert found.evidence == (
        'Its queue is dealt in turn by tenant. 2 jobs of its key ({"tenant": "small"}) are'
        " before it, and 2 other keys have waiting jobs: about 6 jobs begin before it."
    )
    assert not {"line", "priority"} & (await checks(driver, own[2])).keys()


async def test_weights_count(driver: Driver, connection: Connection, register: Register) -> None:
    await register(fair_share=FairShare(partition=BY_TENANT, weights={"gold": 3}))
    for _ in range(20):
        await tenant(connection, "gold")
    own = [await tenant(connection, "small") for _ in range(2)]
    found = (await checks(driver, own[1]))["share"]
    assert found.evidence.endswith("about 7 jobs begin before it.")


async def test_no_other_key_waits(
    driver: Driver, connection: Connection, register: Register
) -> None:
    await register(fair_share=FairShare(partition=BY_TENANT))
    found = (await checks(driver, await tenant(connection, "small")))["share"]
    assert found.result is PASSED


async def test_a_job_behind_all_that_is_looked_at(
    driver: Driver, connection: Connection, register: Register
) -> None:
    await register(fair_share=FairShare(partition=BY_TENANT))
    await connection.execute(
        "insert into river_job (kind, args, scheduled_at)"
        " select 'test_kind', '{\"tenant\": \"big\"}', now() - interval '1 hour'"
        " from generate_series(1, 10000)"
    )
    waiting = await tenant(connection, "small")
    found = (await checks(driver, waiting))["share"]
    assert found.result is FAILED
    assert "only its first 10,000 waiting jobs are" in found.evidence
    assert "`riverui partition-index --by-args tenant`" in found.evidence
    async with driver.autocommit() as executor:
        await CandidateStore(executor).partition_index_create(BY_TENANT)
    found = (await checks(driver, waiting))["share"]
    assert "Among the first 10,000 that wait, 0 jobs of its key" in found.evidence
    assert found.evidence.endswith("each key gets its turn before the next job of its own.")
