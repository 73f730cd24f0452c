"""docs/operate/database.md: its statements run, and find what the page says they find."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import Client, ClientConfig, Job, QueueConfig, Workers, connect
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.storage.options import ConnectOptions
from tests.docs.programs import DOCS, Run, in_blocks, in_text
from tests.factory import job
from tests.interop.look import eventually

PAGE = (DOCS / "operate/database.md").read_text(encoding="utf-8")
STATEMENTS = re.findall(r"```sql\n(.*?);?\n```", PAGE, re.DOTALL)
Connection = AsyncConnection[DictRow]


def with_words(*words: str) -> str:
    """Return the page's one statement that has all of these words."""
    (found,) = [each for each in STATEMENTS if all(word in each for word in words)]
    return str(found)


async def rows(connection: Connection, statement: str) -> list[DictRow]:
    """Return the rows of a statement."""
    return await (await connection.execute(statement)).fetchall()


async def test_every_statement_runs(connection: Connection, driver: Driver) -> None:
    await migrate(driver, "up", line="riverui")
    await job(connection, args={"text": "x" * 5_000})
    assert len(STATEMENTS) == 6
    for statement in STATEMENTS:
        await connection.execute(statement)


async def test_the_settings_of_autovacuum_are_kept_by_rivers_migrations(
    connection: Connection, driver: Driver
) -> None:
    await migrate(driver, "down", target_version=5)
    await connection.execute(with_words("alter table"))
    await migrate(driver, "up")
    (row,) = await rows(
        connection, "select reloptions from pg_class where oid = 'river_job'::regclass"
    )
    assert "autovacuum_vacuum_scale_factor=0.01" in row["reloptions"]
    assert len(row["reloptions"]) == 4


@dataclass
class Nothing:
    kind: ClassVar[str] = "nothing"


async def test_a_job_is_updated_twice_and_never_hot(
    connection: Connection, database_url: str
) -> None:
    workers = Workers()

    @workers.work
    async def nothing(job: Job[Nothing]) -> None: ...

    config = ClientConfig(queues={"default": QueueConfig(max_workers=50)}, workers=workers)
    async with Client(database_url, config) as client:
        inserted = await client.insert_many([Nothing()] * 200)
        await client.wait_many([each.job.id for each in inserted], timeout=timedelta(minutes=1))

    async def told() -> Sequence[DictRow]:
        return await rows(
            connection,
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
            " where relname = 'river_job' and n_tup_upd >= 400",
        )

    (row,) = await eventually(told)
    assert (row["n_tup_upd"], row["n_tup_hot_upd"]) == (2 * 200, 0)


async def test_connections_as_the_page_counts_them(
    connection: Connection, database_url: str, driver: Driver
) -> None:
    """A pool is of four, unless the address or the program says otherwise; none has more."""
    await migrate(driver, "up", line="riverui")
    assert ConnectOptions().max_size == 4
    workers = Workers()

    @workers.work
    async def nothing(job: Job[Nothing]) -> None: ...

    def config(**settings: Any) -> ClientConfig:
        return ClientConfig(
            queues={"default": QueueConfig(max_workers=50)}, workers=workers, **settings
        )

    async def connected(name: str) -> int:
        found = await rows(connection, with_words("datname = current_database()"))
        return sum(row["count"] for row in found if row["application_name"] == name)

    slim = {"poll_only": True, "leader_election_disabled": True}
    for name, settings, most in (("worker", {}, 9), ("slim", slim, 7)):
        async with Client(f"{database_url}&application_name={name}", config(**settings)) as client:
            inserted = await client.insert_many([Nothing()] * 100)
            await client.wait_many([each.job.id for each in inserted], timeout=timedelta(minutes=1))
            assert 2 <= await connected(name) <= most
    inserting = connect(f"{database_url}&application_name=inserting&pool_max_conns=2")
    await Client(inserting).insert(Nothing(), scheduled_at=datetime(2100, 1, 1, tzinfo=UTC))
    assert 1 <= await connected("inserting") <= 2
    await inserting.close()


def test_a_restored_database_is_held_until_somebody_has_looked(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    backups = PAGE.partition("\n## Backups\n")[2]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("insert into river_queue (name, updated_at) values ('default', now())")
        connection.execute(
            "insert into river_job (kind, args, max_attempts) values ('mail_send', '{}', 25)"
        )
        for command in in_blocks(backups):
            assert run(command)[0] == 0, command
        paused = connection.execute("select paused_at is not null from river_queue").fetchall()
        assert paused == [(True,)]
        cancel, resume = in_text(backups)
        assert run(cancel)[0] == 2, "nobody is at a terminal to answer"
        assert run(f"{cancel} --yes")[0] == 0
        states = connection.execute("select state::text from river_job").fetchall()
        assert states == [("cancelled",)]
        assert run(resume)[0] == 0
