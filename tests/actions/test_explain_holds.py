"""Limits, rates, turns and batches as reasons why a job waits: each made in a real database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions.explain import job_explain
from riverui.domain.findings import Finding, Result
from riverui.domain.partitions import Partition
from riverui.domain.queues import BatchTerms, QueueTerms
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.concurrency.store import LeaseParams, LimitStore
from riverui.features.fair_shares.domain import FairShare
from riverui.features.heartbeats.store import ClientLife
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.rate_limits.store import BucketParams, RateStore, Take
from riverui.storage.interface import Driver
from riverui.storage.stores.candidates import CandidateStore
from tests.factory import WORKER, client, job, queue

PASSED, FAILED, UNKNOWN = Result.PASSED, Result.FAILED, Result.UNKNOWN
BY_TENANT = Partition(by_args=("tenant",))
Connection = AsyncConnection[Any]
Register = Callable[..., Awaitable[ClientLife]]


@pytest.fixture
async def register(driver: Driver, connection: Connection, own_tables: None) -> Register:
    """Insert the queue, and return what registers a client that works it by the given rules."""
    await queue(connection)

    async def registered(id: str = WORKER, **terms: Any) -> ClientLife:
        for name in terms.keys() & {"rate_limit", "fair_share"}:
            terms[name] = terms[name].as_terms()
        rules = {"default": QueueTerms(**terms)}
        return await client(driver, id, queues={"default": (10, 0)}, terms=rules)

    return registered


async def checks(driver: Driver, job_id: int) -> Mapping[str, Finding]:
    """Return the checks of a job by name."""
    found = await job_explain(driver, job_id)
    assert found is not None
    return {check.name: check for check in found[1].checks}


async def tenant(
    connection: Connection, name: str, state: str = "available", **columns: Any
) -> int:
    return await job(connection, state, args={"tenant": name}, **columns)


# Limits of jobs at once


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
        'All 2 slots of {"tenant": "acme"} are taken: so many run at once in all clients, set here.'
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
    assert found.evidence.endswith(f"They are with {WORKER} (1).")


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


async def test_a_limit_without_its_table_is_told_as_unknown(
    driver: Driver, connection: Connection
) -> None:
    await queue(connection)
    await concurrency.set_override(driver, "default", ConcurrencyConfig(global_limit=2))
    found = (await checks(driver, await job(connection)))["limit"]
    assert found.result is UNKNOWN
    assert "the tables of riverui" in found.evidence


# Rates


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
    assert full.evidence.endswith("10 of 10 tokens are in hand.")
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
    assert "begin 5 an hour at most, set here: 5 of 5 tokens" in found.evidence


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


async def test_no_rate_is_told_where_no_client_tells_one(
    driver: Driver, connection: Connection, register: Register
) -> None:
    waiting = await job(connection)
    assert "rate" not in await checks(driver, waiting)
    await register(rate_limit=RATE)
    await connection.execute("update riverui_client set heartbeat_at = now() - interval '1 day'")
    assert "rate" not in await checks(driver, waiting), "it is silent"


# Fair shares


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
        'Its queue is dealt in turn by tenant. 2 jobs of its key ({"tenant": "small"}) stand'
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


async def test_nobody_else_waits(
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


# Batches


async def test_a_running_job_may_wait_for_its_batch(
    driver: Driver, connection: Connection, register: Register
) -> None:
    batch = BatchTerms(max_count=100, max_delay=timedelta(hours=1))
    await register(batches={"test_kind": batch})
    running = await job(connection, "running", attempted_at=datetime.now(UTC))
    found = (await checks(driver, running))["batch"]
    assert found.result is PASSED
    assert found.evidence.startswith(
        "Jobs of its kind are worked together, up to 100 of them: the first waits 1 h 0 m at most"
        " for others. It may be waiting for another"
    )
    other = await job(connection, "running", kind="another")
    assert "batch" not in await checks(driver, other)
