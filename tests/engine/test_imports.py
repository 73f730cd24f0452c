"""The engine's modules can be read one after another: none needs another that needs it, not even
for types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import riverui.engine

ENGINE = Path(riverui.engine.__file__).parent


def imported(file: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports from the engine, in whatever block."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
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
