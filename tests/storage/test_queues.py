"""Queues: listing, what waits in them, pause and resume as River does it; the leader and the
server.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from riverui.domain.jobs import JobState
from riverui.errors import NotFound
from riverui.storage.interface.params import Count, CountKind
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.server import ServerStore
from tests.cases import cases
from tests.storage.conftest import Make

NOW = datetime.now(UTC)
ODD_NAMES = [
    "",
    ".",
    "..",
    "a/b?c#d%25",
    "über queue",
    "*",
    "'; drop table river_job; --",
    "%",
    "_",
    "\\",
    "\u202e",
]


async def test_list_unites_served_and_used_queues(driver: PostgresDriver, make: Make) -> None:
    paused = NOW - timedelta(minutes=1)
    await make.queue("served", paused_at=paused, metadata={"n": 9007199254740993})
    await make.queue("idle")
    oldest = NOW - timedelta(hours=2)
    for n in range(3):
        await make.job(
            "available", queue="served", priority=1 + n, scheduled_at=oldest + timedelta(minutes=n)
        )
    await make.job("running", queue="served")
    await make.job("scheduled", queue="orphan")
    await make.job("retryable", queue="orphan")
    await make.job("completed", queue="finished_only")
    async with driver.reading() as executor:
        rows = await executor.queue_list(cap=10)
        capped = await executor.queue_list(cap=2)
    assert [row.queue.name for row in rows] == ["idle", "orphan", "served"]
    idle, orphan, served = rows
    assert served.queue.served
    assert served.queue.paused_at == paused
    assert served.queue.metadata.text == '{"n": 9007199254740993}'
    assert (served.available, served.running, served.scheduled, served.retryable) == (3, 1, 0, 0)
    assert served.oldest_waiting_at == oldest
    assert not orphan.queue.served
    assert orphan.queue.updated_at is None
    assert (orphan.available, orphan.scheduled, orphan.retryable) == (0, 1, 1)
    assert orphan.oldest_waiting_at is None
    assert (idle.available, idle.oldest_waiting_at) == (0, None)
    assert capped[2].available == 2


async def test_list_by_part_of_the_name(driver: PostgresDriver, make: Make) -> None:
    for name in ("Mail_out", "mail-in", "other"):
        await make.queue(name)
    await make.job(queue="xMAIL")
    async with driver.reading() as executor:
        rows = await executor.queue_list(match="mail", cap=1)
        assert [row.queue.name for row in rows] == ["Mail_out", "mail-in", "xMAIL"]
        assert [row.queue.name for row in await executor.queue_list(match="l_o", cap=1)] == [
            "Mail_out"
        ]
        assert [row.queue.name for row in await executor.queue_list(cap=1, limit=2)] == [
            "Mail_out",
            "mail-in",
        ]
        assert await executor.queue_list(match="\0", cap=1) == []


async def test_any_name(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for name in ODD_NAMES:
            with case(name[:30]):
                await make.connection.execute("delete from river_queue")
                await make.queue(name)
                await make.queue("bystander")
                async with driver.reading() as executor:
                    row = await executor.queue_get(name, cap=5)
                    assert row is not None
                    assert row.queue.name == name
                    assert (await executor.queue_row_get(name)) == row.queue
                    assert await executor.queue_kind_count(name, cap=5) == []
                async with driver.transaction() as transaction:
                    expected = ["*", "bystander"] if name == "*" else [name]
                    assert sorted(await transaction.queue_pause(name)) == expected


async def test_unknown_queue(driver: PostgresDriver) -> None:
    async with driver.reading() as executor:
        for name in ("nope", "\0", "\ud800"):
            assert await executor.queue_get(name, cap=5) is None
            assert await executor.queue_row_get(name) is None
            assert await executor.queue_kind_count(name, cap=5) == []
            assert await executor.queue_failure_list(name) == []
    for name in ("nope", "\0"):
        for verb in ("queue_pause", "queue_resume"):
            with pytest.raises(NotFound):
                async with driver.transaction() as transaction:
                    await getattr(transaction, verb)(name)


async def test_queue_that_only_has_jobs(driver: PostgresDriver, make: Make) -> None:
    await make.job("pending", queue="only_pending")
    await make.job("completed", queue="only_done")
    async with driver.reading() as executor:
        row = await executor.queue_get("only_pending", cap=5)
        assert row is not None
        assert not row.queue.served
        done = await executor.queue_get("only_done", cap=5)
        assert done is not None
        assert (done.available, done.running) == (0, 0)


async def test_pause_and_resume(driver: PostgresDriver, make: Make) -> None:
    long_ago = NOW - timedelta(days=1)
    for name in ("a", "b"):
        await make.queue(name, updated_at=long_ago, created_at=long_ago)
    async with driver.transaction() as transaction:
        assert await transaction.queue_pause("a") == ["a"]
    async with driver.reading() as executor:
        a, b = [row.queue for row in await executor.queue_list(cap=1)]
    assert a.paused_at is not None
    assert a.updated_at == a.paused_at > NOW - timedelta(seconds=60)
    assert a.created_at == long_ago
    assert (b.paused_at, b.updated_at) == (None, long_ago)
    async with driver.transaction() as transaction:
        assert await transaction.queue_pause("a") == []
        assert await transaction.queue_pause("*") == ["b"]
        assert await transaction.queue_pause("*") == []
    async with driver.reading() as executor:
        again, _ = [row.queue for row in await executor.queue_list(cap=1)]
    assert again == a
    async with driver.transaction() as transaction:
        assert await transaction.queue_resume("b") == ["b"]
        assert await transaction.queue_resume("*") == ["a"]
        assert await transaction.queue_resume("a") == []
    async with driver.reading() as executor:
        assert [row.queue.paused_at for row in await executor.queue_list(cap=1)] == [None, None]


async def test_pause_of_nothing_at_all(driver: PostgresDriver) -> None:
    async with driver.transaction() as transaction:
        assert await transaction.queue_pause("*") == []


async def test_pause_and_resume_notify(driver: PostgresDriver, make: Make) -> None:
    await make.queue('quo"te')
    listener = await driver.listener()
    stream = listener.notifications("river_control")
    first = asyncio.ensure_future(anext(stream))
    while not first.done():
        async with driver.transaction() as transaction:
            await transaction.queue_pause('quo"te')
        await asyncio.sleep(0.02)
    assert await first == ("river_control", '{"action":"pause","queue":"quo\\"te"}')
    async with driver.transaction() as transaction:
        await transaction.queue_resume("*")
    while (heard := await anext(stream))[1] == '{"action":"pause","queue":"quo\\"te"}':
        pass
    assert heard == ("river_control", '{"action":"resume","queue":"*"}')
    await listener.close()


async def test_kinds_of_a_queue(driver: PostgresDriver, make: Make) -> None:
    for kind, state, count in (("a", "available", 3), ("b", "available", 1), ("a", "retryable", 2)):
        for _ in range(count):
            await make.job(state, queue="q", kind=kind)
    await make.job("completed", queue="q", kind="a")
    await make.job("available", queue="other", kind="a")
    async with driver.reading() as executor:
        kinds = dict(await executor.queue_kind_count("q", cap=10))
        capped = dict(await executor.queue_kind_count("q", cap=2))
    assert kinds == {
        "a": {JobState.AVAILABLE: Count(value=3), JobState.RETRYABLE: Count(value=2)},
        "b": {JobState.AVAILABLE: Count(value=1)},
    }
    available = [
        count
        for counts in capped.values()
        for s, count in counts.items()
        if s is JobState.AVAILABLE
    ]
    assert sum(count.value for count in available) == 2
    assert {count.kind for count in available} == {CountKind.AT_LEAST}


async def test_newest_failures(driver: PostgresDriver, make: Make) -> None:
    def ago(minutes: int) -> datetime:
        return NOW - timedelta(minutes=minutes)

    old = await make.job(
        "discarded", queue="q", attempted_at=ago(50), scheduled_at=ago(50), priority=1
    )
    new = await make.job(
        "discarded", queue="q", attempted_at=ago(10), scheduled_at=ago(11), priority=4
    )
    soon = await make.job("retryable", queue="q", attempted_at=ago(20))
    await make.job("discarded", queue="other")
    await make.job("cancelled", queue="q")
    async with driver.reading() as executor:
        rows = await executor.queue_failure_list("q")
        assert [row.id for row in rows] == [new, soon, old]
        assert rows[0].last_error == "it broke"
        assert [row.id for row in await executor.queue_failure_list("q", limit=1)] == [new]


async def test_names(driver: PostgresDriver, make: Make) -> None:
    await make.queue("served")
    await make.job("completed", queue="finished_only")
    await make.job("pending", queue="Zed")
    async with driver.reading() as executor:
        assert await executor.queue_name_list() == ["Zed", "finished_only", "served"]
        assert await executor.queue_name_list(match="E") == ["Zed", "finished_only", "served"]
        assert await executor.queue_name_list(match="ZE") == ["Zed"]
        assert await executor.queue_name_list(limit=1) == ["Zed"]


async def test_leader(driver: PostgresDriver, make: Make) -> None:
    async with driver.reading() as executor:
        assert await executor.leader_get() is None
    await make.leader("a_client", expires_at=NOW - timedelta(seconds=1))
    async with driver.reading() as executor:
        assert await executor.leader_get() is None
    await make.connection.execute("delete from river_leader")
    await make.leader("a_client")
    async with driver.reading() as executor:
        leader = await executor.leader_get()
    assert leader is not None
    assert leader.leader_id == "a_client"
    assert leader.elected_at < leader.expires_at


async def test_server(driver: PostgresDriver, make: Make) -> None:
    await make.job()
    await make.connection.execute("analyze river_job")
    (name,) = await make.rows("select quote_ident(current_database()) as name")
    for setting in ("jit = on", "idle_in_transaction_session_timeout = '5s'"):
        await make.connection.execute(f"alter database {name['name']} set {setting}".encode())
    async with driver.reading() as executor:
        server = await ServerStore(executor).server_get()
        migrations = await ServerStore(executor).migration_list()
    (facts,) = await make.rows(
        "select current_database() as d, current_user as u, current_setting('server_version') v"
    )
    assert (server.database, server.user, server.version) == (facts["d"], facts["u"], facts["v"])
    assert server.schema == "public"
    assert server.job_rows_estimated == 1
    assert server.job_bytes > 8192
    settings = dict(server.settings)
    assert settings["max_connections"].isdecimal()
    assert settings["work_mem"].endswith("B")
    # The database's own values, not those of our short transactions.
    assert (settings["jit"], settings["idle_in_transaction_session_timeout"]) == ("on", "5000 ms")
    assert [(row.line, row.version) for row in migrations] == [
        ("main", version) for version in range(1, 9)
    ]
