"""The engine's modules are imported one after another: none needs another that needs it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import riverui.engine

ENGINE = Path(riverui.engine.__file__).parent


def imported(file: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports, in whatever block but those for types."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for block in [node for node in tree.body if isinstance(node, ast.If)]:
        if ast.unparse(block.test) == "TYPE_CHECKING":
            tree.body.remove(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph() -> dict[str, set[str]]:
    """Each module of the engine and those that it imports."""
    files = {
        ".".join(("riverui", "engine", *file.relative_to(ENGINE).with_suffix("").parts)): file
        for file in ENGINE.rglob("*.py")
        if file.name != "__init__.py"
    }
    return {name: files.keys() & set(imported(file)) for name, file in files.items()}


def test_the_engine_has_no_circles_of_imports() -> None:
    found = graph()
    assert found["riverui.engine.sync_client"] >= {"riverui.engine.pilot"}
    TopologicalSorter(found).prepare()


def test_a_circle_would_be_found() -> None:
    found = graph()
    found["riverui.engine.pilot"].add("riverui.engine.client")
    with pytest.raises(CycleError):
        TopologicalSorter(found).prepare()
