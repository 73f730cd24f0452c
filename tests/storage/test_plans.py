"""Every query on river_job, run on 200,000 rows and explained: which index it uses, how many rows
it reads.

Figures of time belong to the benchmark; these are facts that do not depend on the machine.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, AsyncRawCursor, RawCursor

from riverui.storage.interface.sql_blocks import Pieces, number, parse_block, read_blocks
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.statements import PostgresQueries
from tests.cases import cases
from tests.conftest import create_database, drop_database, with_database
from tests.drivers import connect
from tests.features.workflows.plans import WORKFLOW
from tests.own_tables import OWN_TABLES
from tests.pro_tables import PRO_TABLES
from tests.storage.plan_case import PKEY, Case
from tests.storage.plan_cases import CASES, ROWS

Statement = tuple[str, str, Sequence[Any]]

_BUSY_DAY = read_blocks(Path(__file__).with_name("busy_day.sql").read_text())["busy_day"]


@pytest.fixture
def big_database_url(admin_url: str, template_database: str) -> Iterator[str]:
    """Yield a database with many jobs."""
    name = create_database(admin_url, template=template_database)
    url = with_database(admin_url, name)
    with psycopg.connect(url, autocommit=True) as connection:
        indexes = connection.execute(
            "select indexname, indexdef from pg_indexes where tablename = 'river_job' and indexname"
            " <> %s",
            [PKEY],
        ).fetchall()
        for index, _ in indexes:
            connection.execute(f"drop index {index}".encode())
        text, _ = number(_BUSY_DAY)
        RawCursor(connection).execute(text.encode(), [ROWS])
        connection.execute(PRO_TABLES)
        connection.execute(OWN_TABLES)
        connection.execute(WORKFLOW.encode())
        connection.execute("insert into river_workflow (id) values ('w')")
        # Keys behind whose heads, some of them ended, two jobs wait.
        connection.execute(
            "insert into riverui_sequence select 'k' || n, n, null from generate_series(1, 500) n"
        )
        connection.execute(
            "insert into riverui_sequence_job"
            " select 'k' || n % 500 + 1, 1000 + n from generate_series(1, 1000) n"
        )
        for _, definition in indexes:
            connection.execute(definition.encode())
        # Statistics and visibility stay as they are now, whenever a test comes.
        connection.execute("alter table river_job set (autovacuum_enabled = off)")
        connection.execute("vacuum analyze river_job")
    yield url
    drop_database(admin_url, name)


@pytest.fixture
async def seen() -> list[Statement]:
    """Return the statements that the driver has run."""
    return []


@pytest.fixture
async def driver(big_database_url: str, seen: list[Statement]) -> AsyncIterator[PostgresDriver]:
    """Keep what it runs in `seen`."""
    driver = connect(
        big_database_url,
        page_timeout=timedelta(seconds=60),
        action_timeout=timedelta(seconds=60),
        watch=lambda *statement: seen.append(statement),
    )
    yield driver
    await driver.close()


class Undo(Exception):
    """Leaves a transaction so that nothing of it stays."""


async def _run(driver: PostgresDriver, case: Case) -> None:
    with suppress(Undo):
        async with driver.transaction() as transaction:
            await case.call(transaction)
            raise Undo


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def _explain(
    connection: AsyncConnection[Any], statement: Statement
) -> list[Mapping[str, Any]]:
    _, sql, values = statement
    text = (
        f"explain (analyze, timing off, format json) {sql.removeprefix('explain (format json) ')}"
    )
    cursor = await AsyncRawCursor(connection).execute(text.encode(), values or None, prepare=False)
    ((found,),) = await cursor.fetchall()
    explained = json.loads(found) if isinstance(found, str) else found
    return list(_nodes(explained[0]["Plan"]))


AS_SHIPPED = "set enable_seqscan = off; set enable_bitmapscan = off; set jit = off"
FOR_GIN = "set enable_seqscan = off; set enable_bitmapscan = on; set jit = off"
BY_BITMAP = {
    "job_contains_ids",
    "job_progress_contains",
    "periodic_history_list",
    "workflow_list",
    "workflow_task_list",
}
_MAX_BATCHES = 64
"""Parts of a hashed table that go through files: 64 of `work_mem` would be 256 MB."""
DEFAULTS = "reset enable_seqscan; reset enable_bitmapscan; reset jit"


async def _check(url: str, case: Case, seen: Sequence[Statement], settings: str) -> None:
    used: set[str] = set()
    reads = 0.0
    async with await AsyncConnection.connect(url) as connection:
        for statement in seen:
            if statement[0] == "job_contains_explain":
                continue
            await connection.execute((FOR_GIN if statement[0] in BY_BITMAP else settings).encode())
            for node in await _explain(connection, statement):
                # Thousands where Postgres expects billions of rows; each takes time, though empty.
                assert node.get("Hash Batches", 1) <= _MAX_BATCHES, (statement[0], node)
                relation = node.get("Relation Name") or node.get("Index Name", "")
                if not relation.startswith("river_job"):
                    continue
                assert "Seq Scan" not in node["Node Type"], (statement[0], node)
                # Before Postgres 14 a plan also shows the alternatives that it does not take.
                if (index := node.get("Index Name")) and node["Actual Loops"]:
                    used.add(index)
                if node["Node Type"] not in ("ModifyTable", "Bitmap Index Scan"):
                    removed = sum(
                        value for key, value in node.items() if key.startswith("Rows Removed")
                    )
                    reads += (node["Actual Rows"] + removed) * node["Actual Loops"]
            await connection.rollback()
    assert used <= case.indexes
    assert reads <= case.reads


@pytest.mark.timeout(600)
async def test_plans_of_every_statement_on_jobs(
    driver: PostgresDriver, big_database_url: str, seen: list[Statement]
) -> None:
    """Explain each case, all on one database, as that takes long to fill.

    A new SQL block needs a case: so does a part, which has to be in a statement of one.
    """
    explained = []
    with cases() as case:
        for name, planned in CASES.items():
            with case(name):
                seen.clear()
                await _run(driver, planned)
                assert seen
                explained += [text for _, text, _ in seen]
                await _check(big_database_url, planned, seen, AS_SHIPPED)
                # The queries are made for their indexes; the settings only keep flukes away.
                if name.startswith(("all ", "completed ", "available ")) and not name.endswith(
                    " by id"
                ):
                    await _check(big_database_url, planned, seen, DEFAULTS)
    run = "\n".join(explained)
    queries = PostgresQueries(driver.schema)
    touching = {
        name: queries.text(name)
        for name in queries.names
        if "river_job j" in queries.text(name) or "from river_job" in queries.text(name)
    }
    assert touching
    missing = {
        name
        for name, text in touching.items()
        if max(_texts(parse_block(text)), key=len) not in run
    }
    assert sorted(missing) == []


def _texts(pieces: Pieces) -> Iterator[str]:
    """Yield the SQL between the slots and parameters of a block."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
