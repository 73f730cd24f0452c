"""Limits of jobs at once as a reason why a job waits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.explain.facts import JobFacts
from riverui.domain.findings import Result
from riverui.domain.partitions import Partition
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.concurrency.explain import LIMIT, LimitHold
from riverui.features.concurrency.store import LeaseParams, LimitStore
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface import Driver
from tests.domain.anything import anything
from tests.explanations import (
    BY_TENANT,
    FAILED,
    PASSED,
    UNKNOWN,
    Connection,
    Register,
    any_facts,
    checks,
    holds_together,
    tenant,
)
from tests.factory import WORKER, job, queue
from tests.scale import scaled

_LIMITS = st.builds(
    ConcurrencyConfig,
    global_limit=st.integers(0, 3),
    local_limit=st.integers(0, 3),
    partition=st.sampled_from([Partition(), BY_TENANT, Partition(by_kind=True)]),
)


@given(any_facts(LIMIT, anything(LimitHold, limits=_LIMITS)))
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    holds_together(facts)


async def lend(driver: Driver, life: ClientLife, key: str, slots: int) -> None:
    params = LeaseParams(life=life, queue="default", most=10, wanted={key: slots})
    async with driver.autocommit() as executor:
        assert await LimitStore(executor).limit_lease(params) == {key: slots}


async def test_all_slots_of_its_partition_are_taken(
    driver: Driver, connection: Connection, register: Register
) -> None:
    life = await register()
    limits = ConcurrencyConfig(global_limit=2, partition=BY_TENANT)
    await concurrency.set_override(driver, "default", limits)
    first = await tenant(connection, "acme", "running")
    second = await tenant(connection, "acme", "running")
    await tenant(connection, "other", "running")
    waiting = await tenant(connection, "acme")
    passed = (await checks(driver, waiting))["limit"]
    assert passed.result is PASSED
    await lend(driver, life, '{"tenant": "acme"}', 2)
    found = (await checks(driver, waiting))["limit"]
    assert found.result is FAILED
    assert found.evidence == (
        'All 2 slots of {"tenant": "acme"} are taken: that many run at once in all clients, set'
        " for the queue."
        f" Job {first} and job {second} hold them, at {WORKER}."
    )
    assert found.link is not None
    assert (found.link.page, found.link.name) == ("queue_limits", "default")
    other = (await checks(driver, await tenant(connection, "other")))["limit"]
    assert other.result is PASSED


async def test_slots_that_no_job_is_seen_to_have_are_with_clients(
    driver: Driver, connection: Connection, register: Register
) -> None:
    life = await register()
    await concurrency.set_override(driver, "default", ConcurrencyConfig(global_limit=1))
    await lend(driver, life, "", 1)
    found = (await checks(driver, await job(connection)))["limit"]
    assert found.evidence.startswith("The only slot is taken")
    assert found.evidence.endswith(f"They are held by {WORKER} (1).")


@pytest.mark.parametrize(("runs", "result"), [(3, FAILED), (2, PASSED)])
async def test_every_client_is_at_its_own_limit(
    driver: Driver, connection: Connection, register: Register, runs: int, result: Result
) -> None:
    await register()
    limits = ConcurrencyConfig(local_limit=3)
    async with driver.autocommit() as executor:
        for client, count in (("a", 3), ("b", runs)):
            await LimitStore(executor).limited_producer_upsert(
                client_id=client,
                queue="default",
                max_workers=10,
                concurrency=limits.as_json(),
                running=f'{{"": {count}}}',
            )
    found = (await checks(driver, await job(connection)))["limit"]
    assert found.result is result
    assert "as its clients are configured" in found.evidence


async def test_a_limit_without_its_table_is_unknown(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await concurrency.set_override(driver, "default", ConcurrencyConfig(global_limit=2))
    found = (await checks(driver, await job(connection)))["limit"]
    assert found.result is UNKNOWN
    assert "the tables of riverui" in found.evidence
