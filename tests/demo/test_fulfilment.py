"""The demo's shop as it runs: customers, periodic jobs, and what riverui adds to River."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.demo.run import working
from riverui.storage.interface import Driver
from tests import factory
from tests.demo.test_workers import one, until
from tests.own_tables import OWN_TABLES

Connection = AsyncConnection[DictRow]


async def test_every_feature_is_at_work(driver: Driver, connection: Connection) -> None:
    await connection.execute(OWN_TABLES)
    rejected = await factory.job(
        connection,
        "discarded",
        queue="vendor",
        kind="ask_vendor",
        finalized_at=datetime.now(UTC) - timedelta(minutes=3),
    )
    for _ in range(6):
        # Tasks that wait, and that no customer may release.
        await factory.job(connection, "pending", kind="order_step", queue="nowhere")
    most = 0
    """Changes of one account that were seen to run at once."""

    async def found(condition: str) -> DictRow | None:
        nonlocal most
        running = await connection.execute(
            "select count(*) as n from river_job where state = 'running' and kind ="
            " 'change_account' group by args->>'customer_id'"
        )
        most = max([most, *(row["n"] for row in await running.fetchall())])
        return await one(connection, f"select true {condition}")

    async with working(driver) as clients:
        assert len({client.id for client in clients}) == 3
        for condition in (
            "from riverui_workflow where name like 'Scan of book %' and open > 10",
            "from riverui_workflow where name like 'Order %' and ended_at is not null",
            "from river_job where kind = 'change_account' and state = 'completed'",
            "from riverui_limit where queue = 'tenants'",
            "from riverui_rate where queue = 'vendor' and pace > 0",
            "from river_job where kind = 'send_newsletter' and state = 'completed'"
            " having count(*) >= 8",
            "from river_job where kind = 'pay_out' and args::text not like '%iban%'",
            "from riverui_periodic_job where id = 'close_books' and next_run_at > now()",
            f"from riverui_dead_job where id = {rejected}",
            "from river_job where kind = 'payment_capture' and state = 'pending' limit 1",
            "from river_job where metadata ? 'river:periodic_job_id'"
            " having count(distinct kind) = 2",
            "from river_leader where expires_at > now()",
        ):
            await until(partial(found, condition), seconds=40)
    assert most == 1
    waiting = "from river_job where queue = 'nowhere' and state = 'pending' having count(*) = 6"
    assert await one(connection, f"select true {waiting}")
    nothing = "from river_job where state = 'running' having count(*) = 0"
    assert await one(connection, f"select true {nothing}"), "it was cancelled at the end"
