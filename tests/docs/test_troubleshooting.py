"""The page of messages: each is one that the program has, and none that it has is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from riverui import errors
from tests.docs.programs import DOCS

PACKAGE = DOCS.parent / "riverui"
PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
LEAST = 6
"""Letters that a template must have of its own, so that it does not fit everything."""
LEVELS = {"critical", "error", "exception", "warning"}
SAY_NOTHING = {"…", "…: …"}
"""Templates that only pass another message on."""


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
def trees() -> dict[Path, ast.Module]:
    """Return the code of every module but the demo's."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "demo" not in path.relative_to(PACKAGE).parts or path.name == "demo.py"
    }


@cache
def templates() -> frozenset[str]:
    """Return every text of the code, docstrings among them, with `…` for what differs."""
    found: set[str] = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            text = written(node)
            if text and len(re.findall(r"\w", text)) >= LEAST:
                first = text.partition("\n\n")[0]
                found |= {dotted(text), dotted(first)}
    return frozenset(found)


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


def messages() -> list[str]:
    """Return the messages of the page: the first cells of its tables, and its list."""
    cells = re.findall(r"^(?:\| |- )(`` .*? ``|`[^`]*`)(?: \||$)", PAGE, re.MULTILINE)
    told = [dotted(cell.strip("`").strip()) for cell in cells]
    return [each for each in told if each not in dir(errors)]


def logged() -> Iterator[tuple[str, str]]:
    """Yield each text that is logged as a warning or worse, with its file."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and node.args
                and (text := written(node.args[0])) is not None
            ):
                yield path.name, dotted(text)


def refused_by_the_command_line() -> Iterator[tuple[str, str]]:
    """Yield each text with which a command ends, with its file."""
    for path, tree in trees().items():
        if "cli" not in path.relative_to(PACKAGE).parts:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = written(node.exc.args[0])
                if text is not None:
                    yield path.name, dotted(text)


def test_the_page_has_messages() -> None:
    assert len(messages()) > 150
    assert len(set(messages())) == len(messages()), "a message is there twice"


@pytest.mark.parametrize("message", messages())
def test_each_message_is_one_of_the_programs(message: str) -> None:
    assert any(fits(message, template) for template in templates())


@pytest.mark.parametrize(("file", "text"), sorted(set(logged())))
def test_each_warning_and_error_of_the_log_is_told(file: str, text: str) -> None:
    if text not in SAY_NOTHING:
        assert any(fits(message, text) for message in messages()), f"{file}: {text}"


@pytest.mark.parametrize(("file", "text"), sorted(set(refused_by_the_command_line())))
def test_each_refusal_of_the_command_line_is_told(file: str, text: str) -> None:
    assert any(fits(message, text) for message in messages()), f"{file}: {text}"


def public_errors() -> list[type[errors.RiveruiError]]:
    """Return the classes of `riverui.errors`."""
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.RiveruiError)
    ]


@pytest.mark.parametrize("error", public_errors(), ids=lambda error: error.__name__)
def test_each_class_of_errors_is_told_with_its_default(error: type[errors.RiveruiError]) -> None:
    found = re.findall(rf"^\| `{error.__name__}` \| (.*?) \| (.+) \|$", PAGE, re.MULTILINE)
    assert found, "it has no row in the last table"
    (row,) = found
    told, when = dotted(row[0].strip("`").strip()), row[1]
    default = dotted((error.__doc__ or "").partition("\n\n")[0])
    assert when
    own = [text for text in templates() if "…" in text and fits(told, text)]
    assert told == default or own, default
