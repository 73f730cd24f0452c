"""Reads what the checks of the database need."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from riverui.actions.facts import FactReader
from riverui.errors import NotSupported
from riverui.features.database.domain.facts import DatabaseFacts, Migrations
from riverui.features.database.domain.indexes import created
from riverui.features.database.store import DatabaseStore
from riverui.storage.interface import MIGRATIONS, SQL, Driver, Executor
from riverui.storage.migrations import migration_sql
from riverui.storage.stores.health import HealthStore
from riverui.storage.stores.server import ServerStore


def _utc() -> datetime:
    return datetime.now(UTC)


async def database_facts(driver: Driver, clock: Callable[[], datetime] = _utc) -> DatabaseFacts:
    """Return the facts, each read by a statement with a time limit. Raise DatabaseError if the
    server cannot be asked, NotSupported for a file.
    """
    if SQL not in driver.capabilities:
        raise NotSupported("This checks a Postgres server. A SQLite file has none.")
    async with driver.reading() as db:
        server = await DatabaseStore(db).database_server(clock)
    async with FactReader(driver) as reader:
        fact = reader.fact
        return DatabaseFacts(
            now=server.at,
            server=server,
            database=await fact(lambda db: HealthStore(db).health_database()),
            holders=await fact(lambda db: DatabaseStore(db).database_holder_list()),
            tables=await fact(lambda db: DatabaseStore(db).database_table_list()),
            indexes=await fact(lambda db: DatabaseStore(db).database_index_list()),
            migrations=await fact(lambda db: _migrations(db, driver, server.schema)),
        )


async def _migrations(db: Executor, driver: Driver, schema: str) -> Migrations:
    """Return what is missing of the migrations, and the indexes of those that are applied."""
    source = MIGRATIONS.on(driver).migrations
    rows = await ServerStore(db).migration_list()
    missing: dict[str, list[int]] = {}
    unknown: list[int] = []
    scripts: list[str] = []
    for line in source.lines():
        applied = {row.version for row in rows if row.line == line}
        steps = migration_sql(source, line)
        scripts += [source.sql(line, s.version, "up") for s in steps if s.version in applied]
        lacking = [step.version for step in steps if step.changes and step.version not in applied]
        if applied and lacking:
            missing[line] = lacking
        if line == "main":
            unknown = sorted(applied - {step.version for step in steps})
    return Migrations(missing=missing, unknown=unknown, indexes=created(scripts, schema))
