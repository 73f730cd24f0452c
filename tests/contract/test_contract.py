"""The contract itself: it is whole, and knows no database."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from riverui import Client, ClientConfig, JsonArgs, QueueConfig, Workers
from riverui.errors import ConfigError, NotSupported
from riverui.storage import interface
from riverui.storage.interface import CAPABILITIES, Driver
from riverui.storage.migrations import migrate, migration_status
from riverui.testing import MemoryDatabase
from tests.cases import cases

FILES = sorted(Path(__file__).parent.glob("*.py"))


def operations(protocol: type[Any]) -> Iterator[str]:
    """Yield the names of the methods of a Protocol and of those it is made of."""
    for part in protocol.__mro__:
        if part.__module__.startswith(interface.__name__):
            methods = {name for name, each in vars(part).items() if not isinstance(each, property)}
            yield from (name for name in methods if not name.startswith("_"))


@pytest.mark.parametrize(
    "protocol", [interface.Executor, interface.Transaction, interface.WorkingDriver]
)
def test_every_operation_is_asked_for(protocol: type[Any]) -> None:
    """A new operation belongs into the contract, or into an optional part."""
    asking = [file for file in FILES if file.name.startswith("test_") or file.name == "seeds.py"]
    text = "".join(file.read_text(encoding="utf-8") for file in asking)
    # As a call, or by name where a test goes through several of them.
    asked = set(re.findall(r'[."](\w+)', text))
    assert set(operations(protocol)) - asked - {"sql"} == set()


def test_only_its_conftest_knows_a_database() -> None:
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = {
            name
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        leaks = {
            name
            for name in names
            if re.match(r"psycopg|riverui\.storage\.(postgres|connect|sql)|tests\.factory", name)
        }
        assert leaks <= ({"riverui.storage.connect"} if file.name == "conftest.py" else set())


async def test_what_is_not_offered_is_told_in_words(driver: Driver) -> None:
    with cases() as case:
        for part in CAPABILITIES:
            with case(part):
                assert part.missing.endswith(".")
                if part in driver.capabilities:
                    assert part.on(driver) is driver
                    continue
                with pytest.raises(NotSupported, match=re.escape(part.missing)):
                    part.on(driver)
                async with driver.reading() as executor:
                    with pytest.raises(NotSupported, match=re.escape(part.missing)):
                        part.on(executor)


class Inserting(MemoryDatabase):
    capabilities = frozenset()


async def test_a_driver_without_sessions_inserts_and_works_nothing() -> None:
    driver = Inserting()
    config = ClientConfig(queues={"default": QueueConfig(max_workers=1)}, workers=Workers())
    with pytest.raises(ConfigError, match="can insert and manage jobs"):
        Client(driver, config)
    assert await Client(driver).insert_many_fast([JsonArgs("mail", {})]) == 1


async def test_migrations_of_a_driver_that_has_none_are_refused_in_words() -> None:
    for asked in (migrate, migration_status):
        with pytest.raises(NotSupported, match="Migrations cannot be run"):
            await asked(Inserting())
