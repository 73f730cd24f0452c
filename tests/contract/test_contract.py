"""The contract itself: it is whole, and knows no database."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from riverui.errors import NotSupported
from riverui.storage import interface
from riverui.storage.interface import CAPABILITIES, WORKING, Capability, Driver
from tests.contract.bare import BareDriver

FILES = sorted(Path(__file__).parent.glob("*.py"))


def operations(protocol: type[Any]) -> Iterator[str]:
    """Yield the names of the methods of a Protocol and of those it is made of."""
    for part in protocol.__mro__:
        if part.__module__.startswith(interface.__name__):
            yield from (name for name in vars(part) if not name.startswith("_"))


@pytest.mark.parametrize(
    "protocol", [interface.Executor, interface.Transaction, interface.WorkingDriver]
)
def test_every_operation_is_asked_for(protocol: type[Any]) -> None:
    """A new operation belongs into the contract, or into an optional part."""
    asking = [file for file in FILES if file.name.startswith("test_") or file.name == "seeds.py"]
    text = "".join(file.read_text(encoding="utf-8") for file in asking)
    # As a call, or by name where a test goes through several of them.
    asked = set(re.findall(r'[."](\w+)', text))
    assert set(operations(protocol)) - asked == set()


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


@pytest.mark.parametrize("part", CAPABILITIES, ids=str)
async def test_what_is_not_offered_is_told_in_words(
    driver: Driver, bare: BareDriver, part: Capability[Any]
) -> None:
    assert part.missing.endswith(".")
    if part in driver.capabilities:
        assert part.on(driver) is driver
    if part is not WORKING:
        with pytest.raises(NotSupported, match=re.escape(part.missing)):
            part.on(bare)
        async with bare.reading() as executor:
            with pytest.raises(NotSupported, match=re.escape(part.missing)):
                part.on(executor)


def test_the_bare_driver_has_no_optional_operation() -> None:
    """Were it to hand one on, the tests on it would prove nothing."""
    optional = {
        name
        for protocol in (
            interface.BenchmarkExecutor,
            interface.IndexExecutor,
            interface.ListeningDriver,
            interface.MarkExecutor,
            interface.NotifyExecutor,
            interface.OperationExecutor,
            interface.OwnTablesExecutor,
            interface.RollupExecutor,
            interface.ServerExecutor,
            interface.SuggestionExecutor,
            interface.TransactionStatusExecutor,
            interface.WorkflowExecutor,
        )
        for name in operations(protocol)
    } | {"migrating", "migrations"}
    assert len(optional) > 20
    given = (Path(__file__).parent / "bare.py").read_text(encoding="utf-8")
    assert not [name for name in optional if re.search(rf"\b{name}\b", given)]
    assert "__getattr__" not in given
