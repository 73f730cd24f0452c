"""Queues: listing, what waits in them, pause and resume as River does it; the leader and the
server.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from riverui.errors import NotFound
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.server import ServerStore
from tests.cases import cases
from tests.factory import Make

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


async def test_list_by_part_of_the_name(driver: PostgresDriver, make: Make) -> None:
    for name in ("Mail_out", "mail-in", "other"):
        await make.queue(name)
    await make.job(queue="xMAIL")
    async with driver.reading() as executor:
        rows = await executor.queues.list(match="mail", cap=1)
        assert [row.queue.name for row in rows] == ["Mail_out", "mail-in", "xMAIL"]
        assert [row.queue.name for row in await executor.queues.list(match="l_o", cap=1)] == [
            "Mail_out"
        ]
        assert [row.queue.name for row in await executor.queues.list(cap=1, limit=2)] == [
            "Mail_out",
            "mail-in",
        ]
        assert await executor.queues.list(match="\0", cap=1) == []


async def test_any_name(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for name in ODD_NAMES:
            with case(name[:30]):
                await make.connection.execute("delete from river_queue")
                await make.queue(name)
                await make.queue("bystander")
                async with driver.reading() as executor:
                    row = await executor.queues.get(name, cap=5)
                    assert row is not None
                    assert row.queue.name == name
                    assert (await executor.queues.row_get(name)) == row.queue
                    assert await executor.queues.kind_count(name, cap=5) == []
                async with driver.transaction() as transaction:
                    expected = ["*", "bystander"] if name == "*" else [name]
                    assert sorted(await transaction.queues.pause(name)) == expected


async def test_unknown_queue(driver: PostgresDriver) -> None:
    async with driver.reading() as executor:
        for name in ("nope", "\0", "\ud800"):
            assert await executor.queues.get(name, cap=5) is None
            assert await executor.queues.row_get(name) is None
            assert await executor.queues.kind_count(name, cap=5) == []
            assert await executor.queues.failure_list(name) == []
    for name in ("nope", "\0"):
        for verb in ("pause", "resume"):
            with pytest.raises(NotFound):
                async with driver.transaction() as transaction:
                    await getattr(transaction.queues, verb)(name)


async def test_queue_that_only_has_jobs(driver: PostgresDriver, make: Make) -> None:
    await make.job("pending", queue="only_pending")
    await make.job("completed", queue="only_done")
    async with driver.reading() as executor:
        row = await executor.queues.get("only_pending", cap=5)
        assert row is not None
        assert not row.queue.served
        done = await executor.queues.get("only_done", cap=5)
        assert done is not None
        assert (done.available, done.running) == (0, 0)


async def test_pause_and_resume_notify(driver: PostgresDriver, make: Make) -> None:
    await make.queue('quo"te')
    listener = await driver.listener()
    stream = listener.notifications("river_control")
    first = asyncio.ensure_future(anext(stream))
    while not first.done():
        async with driver.transaction() as transaction:
            await transaction.queues.pause('quo"te')
        await asyncio.sleep(0.02)
    assert await first == ("river_control", '{"action":"pause","queue":"quo\\"te"}')
    async with driver.transaction() as transaction:
        await transaction.queues.resume("*")
    while (heard := await anext(stream))[1] == '{"action":"pause","queue":"quo\\"te"}':
        pass
    assert heard == ("river_control", '{"action":"resume","queue":"*"}')
    await listener.close()


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
        rows = await executor.queues.failure_list("q")
        assert [row.id for row in rows] == [new, soon, old]
        assert rows[0].last_error == "it broke"
        assert [row.id for row in await executor.queues.failure_list("q", limit=1)] == [new]


async def test_server(driver: PostgresDriver, make: Make) -> None:
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
    settings = dict(server.settings)
    assert settings["max_connections"].isdecimal()
    assert settings["work_mem"].endswith("B")
    # The database's own values, not those of our short transactions.
    assert (settings["jit"], settings["idle_in_transaction_session_timeout"]) == ("on", "5000 ms")
    assert [(row.line, row.version) for row in migrations] == [
        ("main", version) for version in range(1, 9)
    ]
