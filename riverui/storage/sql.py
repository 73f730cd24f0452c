"""Reads `-- name: x` blocks from .sql files, fills in the schema and closed clauses, numbers
parameters.

The files run in psql as they stand: parameters are psql's own `:name`, and what may be filled in is
a comment, either `/* slot */` (nothing by default) or `/* slot: */ default /* :slot */`. Text from
a person is always a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from riverui.errors import ConfigError

_BLOCK = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*--.*$", re.MULTILINE)
_SLOT = re.compile(r"/\* :?\w+:? \*/")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEMA_LENGTH = 46
"""What Postgres's 63 bytes for a channel name leave beside River's longest topic."""


def check_schema(schema: str | None) -> str | None:
    """The schema name, None for the search path; ConfigError where River would refuse the name."""
    if not schema:
        return None
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(
            "The schema name may hold only letters, digits and underscores, and must not start with"
            " a digit."
        )
    if len(schema) > _SCHEMA_LENGTH:
        raise ConfigError(f"The schema name may be at most {_SCHEMA_LENGTH} characters long.")
    return schema


def qualify(text: str, schema: str | None) -> str:
    """SQL with every `/* schema */` replaced by the quoted schema and a dot, or by nothing."""
    return text.replace("/* schema */", f'"{schema}".' if schema else "")


def read_blocks(text: str) -> dict[str, str]:
    """Name → SQL of each block, without comment lines."""
    parts = _BLOCK.split(text)
    return {
        name: _COMMENT.sub("", body).strip().removesuffix(";")
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def fill(text: str, clauses: Mapping[str, str]) -> str:
    """The text with each slot filled; KeyError for a slot that it does not have."""
    for slot, sql in clauses.items():
        pattern = rf"/\* {slot}: \*/.*?/\* :{slot} \*/|/\* {slot} \*/"
        text, found = re.subn(pattern, lambda _, sql=sql: sql, text, flags=re.DOTALL)  # type: ignore[misc]
        if not found:
            raise KeyError(slot)
    return text


def rename(text: str, parameter: str, to: str) -> str:
    """The text with one parameter renamed, so that a fragment can be used more than once in a
    statement.
    """
    return _PARAMETER.sub(lambda match: f":{to}" if match[1] == parameter else match[0], text)


@lru_cache(maxsize=512)
def number(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with `$1`, `$2`, … for its parameters, and their names in that order."""
    names: dict[str, int] = {}
    bare = _SLOT.sub("", text)
    sql = _PARAMETER.sub(lambda match: f"${names.setdefault(match[1], len(names) + 1)}", bare)
    return sql, tuple(names)


class Queries:
    """All blocks of a folder, for one schema."""

    def __init__(self, files: Iterable[Path], schema: str | None) -> None:
        self._blocks: dict[str, str] = {}
        self._ready: dict[tuple[object, ...], tuple[str, tuple[str, ...]]] = {}
        for file in files:
            blocks = read_blocks(qualify(file.read_text(encoding="utf-8"), schema))
            if twice := blocks.keys() & self._blocks.keys():
                raise KeyError(f"SQL block named twice: {', '.join(sorted(twice))}")
            self._blocks.update(blocks)

    @property
    def names(self) -> Sequence[str]:
        """Every block's name."""
        return tuple(self._blocks)

    def text(self, name: str, **clauses: str) -> str:
        """One block with its slots filled."""
        return fill(self._blocks[name], clauses) if clauses else self._blocks[name]

    def ready(
        self, name: str, clauses: Mapping[str, str], parts: Mapping[str, str] | None = None
    ) -> tuple[str, tuple[str, ...]]:
        """One block filled and numbered, kept for the next time: only for clauses of a small closed
        set.

        `parts` are slots filled with other blocks, by name, before the clauses.
        """
        key = (name, tuple(clauses.items()), tuple((parts or {}).items()))
        found = self._ready.get(key)
        if found is None:
            blocks = {slot: self._blocks[block] for slot, block in (parts or {}).items()}
            found = self._ready[key] = number(self.text(name, **blocks, **clauses))
        return found
