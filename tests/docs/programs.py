"""The programs and commands of the documentation's pages: all Python of a page is one program."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"^(<!-- (?:not run|run by)[^\n]*: [^\n]+ -->\n)?```python\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
"""A block of Python, with the comment that says why it is not part of the page's program."""
RUN_BY = {
    "jobs/django": "tests/docs/test_django.py",
    "jobs/sentry": "tests/worker/test_sentry.py",
    "operate/worker-processes": "tests/worker/test_worker.py",
    "start/worker": "tests/docs/test_tutorials.py",
}
"""Pages whose Python is the files of a project, and the tests that run them."""


Run = Callable[[str], tuple[int, str]]
"""Runs a command in this process; returns its exit code and what it printed."""


def program(page: Path) -> str:
    """All of a page's Python, on the lines that it has in the page, so that errors name them."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        if block[1] is None:
            first = text.count("\n", 0, block.start(2))
            code = block[2].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines)


def guide() -> list[str]:
    """Return the pages whose Python is a program, by their addresses without suffix."""
    names = (page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.glob("*/*.md"))
    return sorted(
        name for name in names if name not in RUN_BY and program(DOCS / f"{name}.md").strip()
    )


async def run(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Run the program of a page, and return the module that it has become."""
    page = DOCS / f"{name}.md"
    code = compile(
        program(page), str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    module = ModuleType(f"guide_{re.sub('[-/]', '_', name)}")
    # Where dataclasses and others look for the names in annotations.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    result = eval(code, module.__dict__)
    if inspect.isawaitable(result):
        await result
    return module


def in_blocks(text: str) -> list[str]:
    """Return the commands of riverui in a text's blocks for the shell."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("riverui ")]


def in_text(text: str) -> list[str]:
    """Return the commands of riverui between backticks."""
    return re.findall(r"`(riverui [a-z][^`…]*)`", text)
