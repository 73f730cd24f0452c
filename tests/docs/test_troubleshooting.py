"""The page of messages: each is one that the program has, and none that it has is left out."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from riverui import errors
from tests.docs.programs import DOCS

PACKAGE = DOCS.parent / "riverui"
PAGE = (DOCS / "operate/troubleshooting.md").read_text(encoding="utf-8")
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


@dataclass(frozen=True, slots=True)
class Code:
    """The texts of every module but the demo's, with `…` for what differs."""

    templates: set[str] = field(default_factory=set)
    """All of them, docstrings among them."""
    logged: set[tuple[str, str]] = field(default_factory=set)
    """What is logged as a warning or worse, with its file."""
    refused: set[tuple[str, str]] = field(default_factory=set)
    """What a command ends with, with its file."""


@cache
def code() -> Code:
    """Read the package, once: each file is parsed and walked a single time."""
    found = Code()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if "demo" in parts and path.name != "demo.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = written(node)
            if text and len(re.findall(r"\w", text)) >= LEAST:
                paragraph = text.partition("\n\n")[0]
                found.templates.update((dotted(text), dotted(paragraph)))
            match node:
                case ast.Call(func=ast.Attribute(attr=level), args=[said, *_]) if level in LEVELS:
                    _add(found.logged, path, said)
                case ast.Raise(exc=ast.Call(args=[said, *_])) if "cli" in parts:
                    _add(found.refused, path, said)
    return found


def _add(texts: set[tuple[str, str]], path: Path, node: ast.expr) -> None:
    if (text := written(node)) is not None:
        texts.add((path.name, dotted(text)))


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


@cache
def messages() -> list[str]:
    """Return the messages of the page: the first cells of its tables, and its list."""
    cells = re.findall(r"^(?:\| |- )(`` .*? ``|`[^`]*`)(?: \||$)", PAGE, re.MULTILINE)
    told = [dotted(cell.strip("`").strip()) for cell in cells]
    return [each for each in told if each not in dir(errors)]


def test_the_page_has_messages() -> None:
    assert len(messages()) > 150
    assert len(set(messages())) == len(messages()), "a message is there twice"


def test_each_message_is_one_of_the_programs() -> None:
    templates = code().templates
    wrong = [
        message
        for message in messages()
        if not any(fits(message, template) for template in templates)
    ]
    assert not wrong, "\n".join(wrong)


def not_on_the_page(texts: set[tuple[str, str]]) -> list[str]:
    """Return those of the code's texts that no message of the page fits, with their files."""
    return [
        f"{file}: {text}"
        for file, text in sorted(texts)
        if not any(fits(message, text) for message in messages())
    ]


def test_each_warning_and_error_of_the_log_is_told() -> None:
    logged = {each for each in code().logged if each[1] not in SAY_NOTHING}
    assert len(logged) > 100
    missing = not_on_the_page(logged)
    assert not missing, "\n".join(missing)


def test_each_refusal_of_the_command_line_is_told() -> None:
    refused = code().refused
    assert len(refused) > 60
    missing = not_on_the_page(refused)
    assert not missing, "\n".join(missing)


def public_errors() -> list[type[errors.RiveruiError]]:
    """Return the classes of `riverui.errors`."""
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.RiveruiError)
    ]


def test_each_class_of_errors_is_told_with_its_default() -> None:
    templates = [text for text in code().templates if "…" in text]
    wrong = []
    for error in public_errors():
        name = error.__name__
        found = re.findall(rf"^\| `{name}` \| (.*?) \| (.+) \|$", PAGE, re.MULTILINE)
        if len(found) != 1:
            wrong.append(f"{name}: {len(found)} rows in the last table")
            continue
        ((cell, when),) = found
        told = dotted(cell.strip("`").strip())
        default = dotted((error.__doc__ or "").partition("\n\n")[0])
        if not when:
            wrong.append(f"{name}: the page does not say when")
        if told != default and not any(fits(told, text) for text in templates):
            wrong.append(f"{name}: the page has {told!r}, the class {default!r}")
    assert not wrong, "\n".join(wrong)
