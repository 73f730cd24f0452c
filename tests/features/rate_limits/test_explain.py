"""The rate limit as a reason why a job waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.explain.facts import JobFacts
from riverui.domain.findings import Result
from riverui.domain.partitions import Partition
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.rate_limits.explain import RATE as HOLD, RateHold
from riverui.features.rate_limits.store import BucketParams, RateStore, Take
from riverui.storage.interface import Driver
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
from tests.factory import job
from tests.scale import scaled

_LIMITS = st.builds(
    RateLimit,
    limit=st.floats(1e-3, 1e6),
    per=st.sampled_from([timedelta(seconds=1), timedelta(days=366)]),
    burst=st.none() | st.floats(1, 1e9),
    partition=st.sampled_from([BY_TENANT, Partition(by_kind=True)]),
)


@given(any_facts(HOLD, anything(RateHold, limit=_LIMITS)))
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    holds_together(facts)


async def spend(driver: Driver, key: str, tokens: float) -> None:
    """Take tokens of a limit of 60 an hour, 10 at once: none comes while a test runs."""
    params = BucketParams(queue="default", limit=60, per=timedelta(hours=1), burst=10)
    async with driver.autocommit() as executor:
        await RateStore(executor).rate_take(params, [Take(key, tokens, 1)])


RATE = RateLimit(limit=60, per=timedelta(hours=1), burst=10, partition=BY_TENANT)


async def test_a_bucket_that_is_empty(
    driver: Driver, connection: Connection, register: Register
) -> None:
    await register(rate_limit=RATE)
    waiting = await tenant(connection, "acme")
    full = (await checks(driver, waiting))["rate"]
    assert full.result is PASSED
    assert full.evidence.endswith("10 of 10 tokens are available.")
    await spend(driver, '{"tenant": "acme"}', 10)
    found = (await checks(driver, waiting))["rate"]
    assert found.result is FAILED
    assert found.evidence.startswith(
        'Its rate limit has no token left for it. Jobs of {"tenant": "acme"} begin 60 an hour at'
        " most, as its clients are configured: the next comes in "
    )
    assert found.link is not None
    assert found.link.page == "queue_limits"
    other = (await checks(driver, await tenant(connection, "other")))["rate"]
    assert other.result is PASSED


async def test_numbers_set_in_the_database_count_in_place_of_the_clients(
    driver: Driver, connection: Connection, register: Register
) -> None:
    await register(rate_limit=RATE)
    waiting = await tenant(connection, "acme")
    await connection.execute(
        'update river_queue set metadata = \'{"riverui:rate_limit": {"limit": 5}}\''
    )
    found = (await checks(driver, waiting))["rate"]
    assert "begin 5 an hour at most, set for the queue: 5 of 5 tokens" in found.evidence


@pytest.mark.parametrize(
    ("weight", "result", "words"),
    [
        (4.0, FAILED, "of which it takes 4"),
        ({"test_kind": 4.0}, FAILED, "of which it takes 4"),
        ("pages", FAILED, "of which it takes 4"),
        (3.0, PASSED, "3 of 10 tokens"),
        (lambda kind, args: 9.0, PASSED, "3 of 10 tokens"),
    ],
    ids=["number", "kind", "arg", "light", "function"],
)
async def test_a_job_takes_as_many_tokens_as_it_weighs(
    driver: Driver,
    connection: Connection,
    register: Register,
    weight: Any,
    result: Result,
    words: str,
) -> None:
    limit = RateLimit(limit=60, per=timedelta(hours=1), burst=10, weight=weight)
    await register(rate_limit=limit)
    await spend(driver, "", 7)
    found = (await checks(driver, await job(connection, args={"pages": 4})))["rate"]
    assert found.result is result
    assert words in found.evidence


async def test_no_rate_is_shown_if_no_client_reports_one(
    driver: Driver, connection: Connection, register: Register
) -> None:
    waiting = await job(connection)
    assert "rate" not in await checks(driver, waiting)
    await register(rate_limit=RATE)
    await connection.execute("update riverui_client set heartbeat_at = now() - interval '1 day'")
    assert "rate" not in await checks(driver, waiting), "it is silent"
