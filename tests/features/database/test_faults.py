"""Each fault made on a real server, found, fixed by its statement, and gone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import AsyncConnection, errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow

from riverui.domain.findings import Level, Unread
from riverui.features.database.domain.facts import DatabaseFacts
from riverui.features.database.domain.report import report
from riverui.features.database.reader import database_facts
from riverui.storage.interface import Driver
from tests.cases import cases
from tests.features.database.conftest import Look, look, mend

Connection = AsyncConnection[DictRow]


@pytest.fixture
async def stranger(database_url: str, connection: Connection) -> AsyncIterator[str]:
    """Yield the URL of a role without any privilege on River's tables."""
    name = f"riverui_doctor_{time.monotonic_ns()}"
    role = sql.Identifier(name)
    await connection.execute(sql.SQL("create role {} login password 'secret'").format(role))
    parts = conninfo_to_dict(database_url) | {"user": name, "password": "secret"}
    yield f"postgresql://?{urlencode(parts)}"
    await connection.execute(sql.SQL("drop owned by {n}; drop role {n}").format(n=role))


async def _definitions(connection: Connection) -> list[DictRow]:
    """Return the indexes of River and riverui."""
    rows = await connection.execute(
        "select indexname, indexdef from pg_indexes where tablename like 'river%' order by 1"
    )
    return await rows.fetchall()


def _wraparound(facts: DatabaseFacts, database: int, table: int) -> tuple[Level, str]:
    """Return what is found of a database and tables of these ages."""
    assert not isinstance(facts.tables, Unread)
    facts = replace(
        facts,
        server=replace(facts.server, transactions=database),
        tables=[replace(each, transactions=table) for each in facts.tables],
    )
    (found,) = (each for each in report(facts).findings if each.name == "wraparound")
    return found.level, found.statement


async def test_a_fresh_database_has_no_faults(own_tables: None, driver: Driver) -> None:
    found = report(await database_facts(driver))
    assert {each.name: each.evidence for each in found.findings if each.level != Level.OK} == {}
    assert found.headline == "Nothing is wrong with the database."
    assert {"river_job", "riverui_client"} <= {table.name for table in found.tables}
    assert "river_job_pkey" in {index.name for index in found.indexes}


async def test_an_open_transaction(found: Look, database_url: str) -> None:
    hour = timedelta(hours=1)
    async with await AsyncConnection.connect(database_url, application_name="forgetful") as other:
        await other.execute("select txid_current()")
        assert (await found("held")).level is Level.OK
        finding = await found("held", after=timedelta(minutes=6))
        assert finding.level is Level.WARN
        pid = other.info.backend_pid
        assert f"of forgetful (process {pid}, idle in transaction) keeps dead" in finding.title
        assert (await found("held", after=hour)).level is Level.CRITICAL
        mend(database_url, finding)
        with pytest.raises(errors.AdminShutdown):
            await other.execute("select 1")
    assert (await found("held", after=hour)).level is Level.OK


async def test_dead_rows_that_nobody_removes(
    found: Look, database_url: str, connection: Connection
) -> None:
    async with await AsyncConnection.connect(database_url, application_name="report") as other:
        await other.execute("select txid_current()")
        with psycopg.connect(database_url, autocommit=True) as busy:
            busy.execute("alter table river_queue set (autovacuum_enabled = off)")
            busy.execute("insert into river_queue (name, updated_at)"
                         " select n, now() from generate_series(1, 11000) n")  # fmt: skip
            busy.execute("delete from river_queue")
        finding = await found("dead_rows")
        assert finding.title == "river_queue has many dead rows."
        assert "Autovacuum does not come" in finding.evidence
        # A transaction that began before the vacuum keeps them.
        await connection.execute("vacuum river_queue")
        finding = await found("dead_rows")
        assert "the transaction of report (process" in finding.evidence
        mend(database_url, finding)
        with pytest.raises(errors.AdminShutdown):
            await other.execute("select 1")
    assert (await found("dead_rows")).level is Level.OK
    finding = await found("autovacuum")
    assert finding.title == "Autovacuum is off for river_queue."
    mend(database_url, finding)
    assert (await found("autovacuum")).level is Level.OK


async def test_autovacuum_that_begins_late(
    found: Look, database_url: str, connection: Connection
) -> None:
    await connection.execute(
        "update pg_class set reltuples = 10000000 where oid = 'river_job'::regclass"
    )
    finding = await found("autovacuum")
    assert finding.evidence.startswith("It begins on river_job at 2,000,050 dead rows.")
    mend(database_url, finding)
    assert (await found("autovacuum")).level is Level.OK


async def test_indexes_that_are_missing_invalid_or_twice(
    own_tables: None, found: Look, database_url: str, connection: Connection
) -> None:
    before = await _definitions(connection)
    for name in ("river_job_unique_idx", "river_job_kind", "riverui_workflow_open"):
        await connection.execute(sql.SQL("drop index {}").format(sql.Identifier(name)))
    finding = await found("missing_indexes")
    assert finding.level is Level.CRITICAL
    assert finding.title == "3 indexes are missing."
    mend(database_url, finding)
    assert (await found("missing_indexes")).level is Level.OK
    assert await _definitions(connection) == before

    await connection.execute("insert into river_job (kind, args, queue) values ('a', '{}', 'q')")
    await connection.execute("insert into river_job (kind, args, queue) values ('a', '{}', 'q')")
    with pytest.raises(errors.UniqueViolation):
        await connection.execute("create unique index concurrently one on river_job (queue)")
    async with await AsyncConnection.connect(database_url) as other:
        await other.execute("lock table river_job in row exclusive mode")
        await connection.execute("set statement_timeout = '200ms'")
        for statement in (
            "reindex index concurrently river_job_kind",
            "create index concurrently again on river_job using btree (state, finalized_at)",
        ):
            with pytest.raises(errors.QueryCanceled):
                await connection.execute(statement.encode())
    await connection.execute("set statement_timeout = 0")
    finding = await found("invalid_indexes")
    assert "The build of again, one and river_job_kind_ccnew was interrupted" in finding.evidence
    mend(database_url, finding)
    assert (await found("invalid_indexes")).level is Level.OK

    await connection.execute("create index twin on river_job using btree (kind)")
    finding = await found("duplicate_indexes")
    assert finding.evidence.startswith("twin is the same as river_job_kind.")
    mend(database_url, finding)
    assert (await found("duplicate_indexes")).level is Level.OK
    assert await _definitions(connection) == before


async def test_an_index_that_nobody_reads(
    found: Look, database_url: str, connection: Connection
) -> None:
    await connection.execute("create index mine on river_queue using btree (updated_at)")
    with psycopg.connect(database_url, autocommit=True) as busy:
        busy.execute("insert into river_queue (name, updated_at)"
                     " select n, now() from generate_series(1, 6000) n")  # fmt: skip
    finding = await found("unused_indexes")
    assert finding.title == "Index mine is never read."
    mend(database_url, finding)
    assert (await found("unused_indexes")).level is Level.OK


@pytest.mark.long
async def test_an_index_that_is_swollen(
    found: Look, database_url: str, connection: Connection
) -> None:
    await connection.execute(
        "insert into river_queue (name, updated_at)"
        " select 'a queue with a long name ' || n, now() from generate_series(1, 200000) n"
    )
    await connection.execute("analyze river_queue")
    assert (await found("swollen_indexes")).level is Level.OK
    await connection.execute("delete from river_queue where name not like '%0'")
    await connection.execute("vacuum analyze river_queue")
    finding = await found("swollen_indexes")
    assert finding.title == "Index river_queue_pkey is swollen."
    assert "by an estimate" in finding.evidence
    mend(database_url, finding)
    assert (await found("swollen_indexes")).level is Level.OK


async def test_a_role_without_rights_and_its_connections(
    stranger: str, database_url: str, connection: Connection
) -> None:
    url, role = stranger, str(conninfo_to_dict(stranger)["user"])
    identifier = sql.Identifier(role)
    finding = await look(url, "privileges")
    assert f"Role {role} lacks" in finding.title
    mend(database_url, finding)
    assert "may read the tables, and nothing else" in (await look(url, "privileges")).evidence
    await connection.execute(sql.SQL("grant insert on river_job to {}").format(identifier))
    finding = await look(url, "privileges")
    assert f"grant usage on sequence public.river_job_id_seq to {role}" in finding.statement
    mend(database_url, finding)
    assert "has all that it needs" in (await look(url, "privileges")).evidence
    # Sessions of others are hidden from it.
    async with await AsyncConnection.connect(database_url) as other:
        await other.execute("select txid_current()")
        finding = await look(url, "held", after=timedelta(hours=2))
        assert finding.level is Level.UNKNOWN
        assert "hidden from this role" in finding.evidence
        mend(database_url, finding)
        finding = await look(url, "held", after=timedelta(hours=2))
        assert finding.level is Level.CRITICAL
    await connection.execute(sql.SQL("alter role {} connection limit 3").format(identifier))
    with psycopg.connect(url), psycopg.connect(url):
        finding = await look(url, "connections")
        assert finding.title == f"The role {role} runs out of connections."
        assert "3 of 3" in finding.evidence
        mend(database_url, finding)
        assert (await look(url, "connections")).level is Level.OK


async def test_migrations_that_are_missing(
    found: Look, driver: Driver, connection: Connection, empty_database_url: str
) -> None:
    with cases() as case:
        for statement, level, words in (
            ("delete from river_migration where version = 8", Level.OK, "All are applied."),
            (
                "delete from river_migration where version = 7",
                Level.WARN,
                "Not applied: 7 of line main.",
            ),
            ("insert into river_migration (line, version) values ('main', 7)", Level.OK, "applied"),
            ("insert into river_migration (line, version) values ('main', 900)", Level.OK, "900"),
            (
                "insert into river_migration (line, version) values ('riverui', 1)",
                Level.WARN,
                "riverui migrate-up --line riverui",
            ),
        ):
            await connection.execute(statement.encode())
            finding = await found("migrations")
            with case(statement):
                assert finding.level is level
                assert words in finding.evidence + finding.statement
    finding = await look(empty_database_url, "migrations")
    assert (finding.level, finding.statement) == (Level.CRITICAL, "riverui migrate-up")


def _clock(late: timedelta) -> Callable[[], datetime]:
    return lambda: datetime.now(UTC) - late


async def test_a_clock_that_is_wrong(driver: Driver) -> None:
    for late, level, words in (
        (timedelta(0), Level.OK, ""),
        (timedelta(seconds=10), Level.WARN, "s ahead of this one"),
        (timedelta(seconds=-90), Level.CRITICAL, "s behind this one"),
    ):
        facts = await database_facts(driver, _clock(late))
        found = next(each for each in report(facts).findings if each.name == "clocks")
        assert found.level is level
        assert words in found.title


async def test_transaction_ids_that_run_out(driver: Driver) -> None:
    """The ages are made up: two billion transactions take too long."""
    facts = await database_facts(driver)
    assert _wraparound(facts, 400_000_000, 1)[0] is Level.OK
    level, statement = _wraparound(facts, 600_000_000, 600_000_000)
    assert level is Level.WARN
    assert "vacuum (freeze, verbose) public.river_job;" in statement
    assert _wraparound(facts, 1_600_000_000, 1) == (Level.CRITICAL, "vacuum (freeze);")


async def test_a_locked_table_does_not_hold_up_the_answer(
    found: Look, connection: Connection, database_url: str
) -> None:
    async with await AsyncConnection.connect(database_url) as other:
        await other.execute("lock table river_job")
        assert (await found("dead_rows")).level is Level.OK
        assert (await found("missing_indexes")).level is Level.OK


async def test_a_pooler_is_seen(bouncer_url: str, found: Look) -> None:
    assert "leads to Postgres itself" in (await found("pooler")).evidence
    assert "poll_only" in (await look(bouncer_url, "pooler")).evidence
