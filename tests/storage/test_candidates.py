"""Jobs that may be fetched: their keys, the order in which they come, and who gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection, AsyncRawCursor

from riverui.domain.partitions import WHOLE, Partition
from riverui.errors import ConfigError
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.candidates import CandidateStore, KeyRange
from tests.cases import cases
from tests.drivers import connect
from tests.factory import Make
from tests.scale import scaled
from tests.storage.conftest import NOW, SCHEMA, Way

BY_CUSTOMER = Partition(by_args=("customer_id",))
BY_BOTH = Partition(by_args=("customer_id", "region"), by_kind=True)
BY_KIND = Partition(by_kind=True)
BY_ALL_ARGS = Partition(by_args=())
EVERY = (WHOLE, BY_CUSTOMER, BY_BOTH, BY_KIND, BY_ALL_ARGS)


def fetch(limit: int = 100, **params: Any) -> JobFetchParams:
    """Return a fetch by the client `me`."""
    return JobFetchParams(client_id="me", queue="default", limit=limit, **params)


async def test_keys(way: Way) -> None:
    with cases() as case:
        for args, customer, both in (
            ({"customer_id": 42}, '{"customer_id": 42}', '{"customer_id": 42, "region": null}'),
            ({}, '{"customer_id": null}', '{"customer_id": null, "region": null}'),
            (
                {"region": "e'u\"", "customer_id": "42"},
                '{"customer_id": "42"}',
                '{"customer_id": "42", "region": "e\'u\\""}',
            ),
            (
                {"customer_id": {"b": 1, "a": [2]}},
                '{"customer_id": {"a": [2], "b": 1}}',
                '{"customer_id": {"a": [2], "b": 1}, "region": null}',
            ),
        ):
            with case(args):
                await way.make.connection.execute("delete from river_job")
                job_id = await way.make.job(kind="mail", args=args)
                (found,) = await CandidateStore(way.executor).job_candidate_list(
                    fetch(), EVERY, window=10
                )
                assert (found.id, found.kind) == (job_id, "mail")
                assert found.keys[WHOLE] == ""
                assert found.keys[BY_KIND] == "mail"
                assert found.keys[BY_CUSTOMER] == customer
                assert found.keys[BY_BOTH] == f"mail {both}"


async def test_a_long_key_is_cut_and_stays_distinct(way: Way) -> None:
    for end in ("a", "b"):
        await way.make.job(args={"customer_id": "ü" * 5_000 + end})
    found = await CandidateStore(way.executor).job_candidate_list(
        fetch(), [BY_CUSTOMER, BY_ALL_ARGS], window=10
    )
    for partition in (BY_CUSTOMER, BY_ALL_ARGS):
        one, other = (candidate.keys[partition] for candidate in found)
        assert one != other
        assert one[:100] == other[:100]
        assert len(one) == 100 + 4 + 32


async def test_candidates_come_as_they_would_be_fetched(way: Way) -> None:
    late = await way.make.job(scheduled_at=NOW - timedelta(minutes=1))
    early = await way.make.job(scheduled_at=NOW - timedelta(minutes=2))
    urgent = await way.make.job(priority=1, scheduled_at=NOW - timedelta(hours=1))
    lazy = await way.make.job(priority=4, scheduled_at=NOW - timedelta(hours=2))
    await way.make.job("running")
    await way.make.job(queue="other")
    await way.make.job(scheduled_at=NOW + timedelta(hours=1))
    await way.make.job(kind="unknown", scheduled_at=NOW - timedelta(hours=1))
    params = fetch(now=NOW, kinds=("test_kind",))
    found = await CandidateStore(way.executor).job_candidate_list(params, [WHOLE], window=10)
    assert [candidate.id for candidate in found] == [urgent, early, late, lazy]
    found = await CandidateStore(way.executor).job_candidate_list(
        params._replace(except_ids=(urgent,), limit=2), [WHOLE], window=10
    )
    assert [candidate.id for candidate in found] == [early, late]


async def test_full_keys_are_passed_over_within_the_window(way: Way) -> None:
    full = [await way.make.job(args={"customer_id": 1}) for _ in range(5)]
    free = await way.make.job(args={"customer_id": 2})
    key = '{"customer_id": 1}'

    async def found(window: int) -> list[int]:
        rows = await CandidateStore(way.executor).job_candidate_list(
            fetch(), [WHOLE, BY_CUSTOMER], window=window, full={BY_CUSTOMER: {key}, WHOLE: ()}
        )
        return [candidate.id for candidate in rows]

    assert await found(6) == [free]
    assert await found(5) == []
    assert len(full) == 5


async def test_few_of_each_key(way: Way) -> None:
    jobs = [await way.make.job(args={"customer_id": n % 3}) for n in range(9)]
    early = await way.make.job(args={"customer_id": 2}, priority=1)
    await way.make.connection.execute(b"update river_job set priority = 2 where id <> %s", [early])
    few = KeyRange(partition=BY_CUSTOMER, per_key=2, keys=1)

    async def found(window: int, **given: Any) -> list[int]:
        rows = await CandidateStore(way.executor).job_candidate_list(
            fetch(), [WHOLE, BY_CUSTOMER], window=window, few=few, **given
        )
        return [candidate.id for candidate in rows]

    assert await found(100) == [early, jobs[0], jobs[1], jobs[2], jobs[3], jobs[4]]
    assert await found(2) == [early, jobs[0]]
    full = {BY_CUSTOMER: {'{"customer_id": 0}'}}
    assert await found(100, full=full) == [early, jobs[1], jobs[2], jobs[4]]


async def test_by_key(driver: PostgresDriver, make: Make) -> None:
    jobs = {
        customer: [await make.job(args={"customer_id": customer}) for _ in range(3)]
        for customer in (1, 2, 3, 4)
    }

    async def found(**keys: Any) -> list[int]:
        full = keys.pop("full", None)
        async with driver.autocommit() as executor:
            page = await CandidateStore(executor).job_candidate_list_by_key(
                fetch(), [BY_CUSTOMER], keys=KeyRange(partition=BY_CUSTOMER, **keys), full=full
            )
        last.append(page.last_key)
        return [candidate.id for candidate in page.candidates]

    last: list[str | None] = []
    two = [job_id for ids in jobs.values() for job_id in ids[:2]]
    assert await found(per_key=2, keys=10) == sorted(two)
    assert await found(per_key=1, keys=2) == [jobs[1][0], jobs[2][0]]
    after = '{"customer_id": 2}'
    assert last == [None, after]
    assert await found(per_key=1, keys=10, after=after) == [jobs[3][0], jobs[4][0]]
    full = {BY_CUSTOMER: ['{"customer_id": 1}', '{"customer_id": 3}']}
    assert await found(per_key=1, keys=2, full=full) == [jobs[2][0], jobs[4][0]]


async def test_the_index_serves(database_url: str, make: Make) -> None:
    """Whatever waits of one key before them, the jobs of other keys are found at once."""
    seen: list[tuple[str, str, Any]] = []
    driver = connect(database_url, watch=lambda *statement: seen.append(statement))
    await make.rows(
        "insert into river_job (kind, args, queue) select 'k', jsonb_build_object('customer_id',"
        " 'it''s ' || case when i <= 20000 then 0 else i % 100 end), 'default'"
        " from generate_series(1, 20100) i returning null"
    )
    async with driver.autocommit() as executor:
        await CandidateStore(executor).partition_index_create(BY_CUSTOMER)
        await CandidateStore(executor).partition_index_create(BY_CUSTOMER)
        assert await CandidateStore(executor).partition_index_list() == {BY_CUSTOMER.index_name}
        await make.connection.execute("analyze river_job")
        seen.clear()
        found = await CandidateStore(executor).job_candidate_list_by_key(
            fetch(),
            [BY_CUSTOMER],
            keys=KeyRange(partition=BY_CUSTOMER, per_key=2, keys=200),
            full={BY_CUSTOMER: ['{"customer_id": "it\'s 0"}']},
        )
        assert len(found.candidates) == 99
        ((_, text, values),) = seen
        nodes = [node for node in await _explain(make, text, values) if "Index Name" in node]
        assert {node["Index Name"] for node in nodes} == {BY_CUSTOMER.index_name}
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= 4 * 100
        await CandidateStore(executor).partition_index_drop(BY_CUSTOMER)
        assert await CandidateStore(executor).partition_index_list() == frozenset()
    await driver.close()


@pytest.mark.scaled
async def test_ten_jobs_behind_a_million(database_url: str, make: Make) -> None:
    """In the full form of the tests; behind 30,000 in the quick one."""
    many = scaled(30_000, 1_000_000)
    seen: list[tuple[str, str, Any]] = []
    driver = connect(database_url, watch=lambda *statement: seen.append(statement))
    await make.rows(
        "insert into river_job (kind, args, queue) select 'k', jsonb_build_object('customer_id',"
        f" case when i <= {many} then 'big' else 'small' end), 'default'"
        f" from generate_series(1, {many} + 10) i returning null"
    )
    async with driver.session(timeout=timedelta(minutes=1)) as executor:
        await CandidateStore(executor).partition_index_create(BY_CUSTOMER)
        await make.connection.execute("analyze river_job")
        for after, keys, rows in (("", 2, 20), ('{"customer_id": "big"}', 1, 10)):
            seen.clear()
            page = await CandidateStore(executor).job_candidate_list_by_key(
                fetch(),
                [BY_CUSTOMER],
                keys=KeyRange(partition=BY_CUSTOMER, per_key=10, keys=keys, after=after),
            )
            assert len(page.candidates) == rows
            ((_, text, values),) = seen
            nodes = [node for node in await _explain(make, text, values) if "Index Name" in node]
            assert {node["Index Name"] for node in nodes} == {BY_CUSTOMER.index_name}
            assert sum(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= rows + 4
    await driver.close()


async def _explain(make: Make, sql: str, values: Any) -> list[Mapping[str, Any]]:
    """Return the nodes of a statement's plan, as a session of a client would run it."""
    async with await AsyncConnection.connect(make.connection.info.dsn) as connection:
        await connection.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        cursor = await AsyncRawCursor(connection).execute(
            f"explain (analyze, timing off, format json) {sql}".encode(), values, prepare=False
        )
        ((found,),) = await cursor.fetchall()
    nodes = [found[0]["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", ())
    return nodes


async def test_an_index_in_a_schema(schema_database_url: str) -> None:
    driver = connect(schema_database_url, schema=SCHEMA)
    async with driver.autocommit() as executor:
        for partition in EVERY:
            await CandidateStore(executor).partition_index_create(partition)
        assert len(await CandidateStore(executor).partition_index_list()) == len(EVERY)
        for partition in EVERY:
            await CandidateStore(executor).partition_index_drop(partition)
        assert await CandidateStore(executor).partition_index_list() == frozenset()
    await driver.close()


async def test_claim(way: Way) -> None:
    jobs = [await way.make.job(args={"n": n}) for n in range(3)]
    before = await way.make.row(jobs[0])
    running = await way.make.job("running")
    elsewhere = await way.make.job(queue="other")
    rows = await CandidateStore(way.executor).job_claim(
        fetch(), [jobs[0], jobs[2], running, elsewhere]
    )
    assert sorted(row.id for row in rows) == [jobs[0], jobs[2]]
    after = await way.make.row(jobs[0])
    assert after == {
        **before,
        "state": "running",
        "attempt": 1,
        "attempted_at": after["attempted_at"],
        "attempted_by": ["me"],
    }
    assert (await way.make.row(jobs[1]))["state"] == "available"
    assert list(await CandidateStore(way.executor).job_claim(fetch(), [jobs[0]])) == []


async def test_a_job_is_claimed_once(driver: PostgresDriver, make: Make) -> None:
    jobs = [await make.job() for _ in range(200)]

    async def claim() -> list[int]:
        async with driver.autocommit() as executor:
            return [row.id for row in await CandidateStore(executor).job_claim(fetch(), jobs)]

    taken = [
        job_id for some in await asyncio.gather(*(claim() for _ in range(6))) for job_id in some
    ]
    assert sorted(taken) == jobs


@pytest.mark.parametrize(
    "names",
    [["x" * 201], [""], ["a\0b"], ["a\nb"], [str(n) for n in range(11)], "customer_id", [1]],
)
def test_names_that_no_arg_has(names: Any) -> None:
    with pytest.raises(ConfigError, match="by_args"):
        Partition(by_args=names)


def test_a_partition_is_the_same_in_any_order() -> None:
    one, other = Partition(by_args=("b", "a", "b")), Partition(by_args=("a", "b"))
    assert one == other
    assert one.index_name == other.index_name
    assert len({partition.index_name for partition in EVERY}) == len(EVERY)
    assert [partition.words for partition in (WHOLE, BY_BOTH, BY_ALL_ARGS)] == [
        "nothing",
        "kind and customer_id, region",
        "all args",
    ]
