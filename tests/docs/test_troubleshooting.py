"""The page of messages: each of them is one of the program's."""

from __future__ import annotations

import ast
import re
from functools import cache

from riverui import errors
from tests.docs.programs import DOCS

PACKAGE = DOCS.parent / "riverui"
PAGE = (DOCS / "operate/troubleshooting.md").read_text(encoding="utf-8")
LEAST = 6
"""Letters that a template must have of its own, so that it does not fit everything."""


def dotted(text: str) -> str:
    """Return a template with one `…` for each thing that differs."""
    text = re.sub(r"%(?:\+?[\d.]*[a-z])", "…", text)
    return " ".join(re.sub("…+", "…", text).split())


def written(node: ast.AST) -> str | None:
    """Return a string as it stands in the code, with `…` for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    return None


@cache
def templates() -> set[str]:
    """Return the texts of every module but the demo's, with `…` for what differs."""
    found: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        if "demo" in path.relative_to(PACKAGE).parts and path.name != "demo.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = written(node)
            if text and len(re.findall(r"\w", text)) >= LEAST:
                # The first paragraph of an error's docstring is its message.
                found.update((dotted(text), dotted(text.partition("\n\n")[0])))
    return found


def fits(message: str, template: str) -> bool:
    """Return whether a message of the page may have been made by a template."""
    if message in template:
        return True
    if "…" not in template:
        return message == template
    first, *middle, last = template.split("…")
    if not message.startswith(first) or not message.endswith(last):
        return False
    at, end = len(first), len(message) - len(last)
    for part in middle:
        found = message.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


CELLS = re.findall(r"^\|(?: `\w+` \|)? (`` .*? ``|`[^`]*`) \|", PAGE, re.MULTILINE)
MESSAGES = [dotted(cell.strip("`").strip()) for cell in CELLS]


UVICORNS = {"Exceeded concurrency limit."}
"""Messages that uvicorn logs."""


def test_each_message_is_one_of_the_programs() -> None:
    assert len(MESSAGES) > 100
    wrong = [
        message
        for message in MESSAGES
        if message not in UVICORNS and not any(fits(message, template) for template in templates())
    ]
    assert not wrong, "\n".join(wrong)


def test_each_class_of_errors_exists() -> None:
    names = re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if not hasattr(errors, name)] == []
