"""Templates are compiled once for all processes, wherever files may be written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from riverui.web.assets import TEMPLATES
from riverui.web.sections import SECTIONS
from riverui.web.view import render
from riverui.web.view.compiled_templates import CompiledTemplates


class Compiling(Environment):
    """Counts what it compiles, with the compiled templates of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(loader=FileSystemLoader(folder), bytecode_cache=CompiledTemplates(folder))
        self.compiled = 0

    def _compile(self, source: str, filename: str) -> Any:
        self.compiled += 1
        return super()._compile(source, filename)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.html").write_text("Hello {{ name }}")
    return tmp_path


def drawn(folder: Path) -> tuple[str, int]:
    """Return what a new process draws, and how much it compiles for that."""
    environment = Compiling(folder)
    return environment.get_template("page.html").render(name="you"), environment.compiled


def test_the_next_process_does_not_compile(folder: Path) -> None:
    assert drawn(folder) == ("Hello you", 1)
    assert drawn(folder) == ("Hello you", 0)
    (kept,) = (folder / "__pycache__").iterdir()
    assert sys.implementation.cache_tag in kept.name


def test_a_changed_template_is_compiled_anew(folder: Path) -> None:
    drawn(folder)
    (folder / "page.html").write_text("Bye {{ name }}")
    assert drawn(folder) == ("Bye you", 1)


@pytest.mark.parametrize("length", [0, 10, 60])
def test_a_damaged_file_is_made_anew(folder: Path, length: int) -> None:
    drawn(folder)
    (kept,) = (folder / "__pycache__").iterdir()
    kept.write_bytes(kept.read_bytes()[:length])
    assert drawn(folder) == ("Hello you", 1)
    assert drawn(folder) == ("Hello you", 0)


def test_an_unwritable_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "__pycache__").write_text("not a folder")
    assert drawn(folder) == ("Hello you", 1)
    (folder / "__pycache__").unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert drawn(folder) == ("Hello you", 1)
    assert not (folder / "__pycache__").exists()


def test_pythons_own_place_for_compiled_files_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "elsewhere"))
    assert drawn(folder) == ("Hello you", 1)
    assert drawn(folder) == ("Hello you", 0)
    assert not (folder / "__pycache__").exists()


async def test_every_template_is_loaded_at_the_start() -> None:
    environment = render.environment(SECTIONS.template_globals)
    await render.load_templates(environment)
    assert environment.cache is not None
    assert {name for _, name in environment.cache} == {
        path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.html")
    }
