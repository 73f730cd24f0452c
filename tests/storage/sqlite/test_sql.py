"""The blocks of SQLite's files: the same as Postgres's, and each a statement that SQLite takes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import riverui
from riverui.errors import NotSupported
from riverui.storage.interface.sql_blocks import Block, Fragment, Queries, blocks_of, number
from riverui.storage.sqlite.file import Connection
from riverui.storage.sqlite.migrations import create_tables
from riverui.storage.sqlite.sql import FILES, statements
from riverui.testing import MemoryDatabase

PACKAGE = Path(riverui.__file__).parent
SQLITE = sorted(PACKAGE.rglob(FILES))


def blocks(file: Path) -> dict[str, Block]:
    return {block.name: block for block in blocks_of(file.read_text())}


@pytest.mark.parametrize(
    "file",
    [file for file in SQLITE if "storage" not in file.parts],
    ids=lambda file: str(file.relative_to(PACKAGE)),
)
def test_a_store_has_all_blocks_with_the_same_slots(file: Path) -> None:
    postgres = blocks(file.with_name(file.name.replace(".sqlite", "")))
    assert {name: (block.host, block.slot) for name, block in blocks(file).items()} == {
        name: (block.host, block.slot) for name, block in postgres.items()
    }


def test_every_statement_is_complete() -> None:
    queries = Queries(SQLITE, None)
    found = {name: block for file in SQLITE for name, block in blocks(file).items()}
    values = dict.fromkeys(name for block in found.values() for name in number(block.sql)[1])
    with closing(sqlite3.connect(":memory:")) as raw:
        connection = Connection(raw)
        create_tables(raw)
        for name, block in found.items():
            slots: dict[str, Fragment] = {}
            if block.host is not None and block.host not in found:
                continue
            while block.host is not None and block.slot is not None:
                slots = {block.slot: Fragment(block.name, **slots)}
                block = found[block.host]
            text, given = queries.render(Fragment(block.name, values, **slots))
            bound = {str(place): None for place in range(1, len(given) + 1)}
            for statement in statements(text)[0]:
                try:
                    connection.described(f"explain {statement}", bound)
                except sqlite3.Error as error:
                    pytest.fail(f"{name}: {error}\n{statement}")


async def test_a_store_that_needs_postgres_says_so() -> None:
    database = MemoryDatabase()
    async with database.autocommit() as executor:
        with pytest.raises(NotSupported, match="This needs Postgres"):
            await executor.sql.rows("workflow_get")
    await database.close()
