"""Where two JSON texts differ: the leaves alone that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from riverui.domain.json_text import MOST_DEPTH
from riverui.domain.stored_json import UnreadableJson, read_json

MOST_LEAVES = 20_000
"""Leaves of a text that are compared: they take some milliseconds."""
MOST_CHANGES = 200
"""Differences that are told: nobody reads more."""
MOST_VALUE = 500
"""Characters of a value, and of a path, that are told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafChange:
    """One leaf that differs."""

    path: str
    """Such as customer.address[0].city; empty for the whole."""
    before: str | None
    """JSON text, cut; None where the other text alone has it."""
    after: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonDiff:
    """What differs between two texts."""

    changes: tuple[LeafChange, ...]
    same: int
    """Leaves that are alike."""
    complete: bool
    """Whether all of both texts was compared and all differences are told."""


def json_diff(before: str, after: str) -> JsonDiff:
    """Return where two JSON texts differ, in the order of the first and then of the second. What
    cannot be read, or is nested too deeply, is compared as a whole.
    """
    old, old_whole = _leaves(before)
    new, new_whole = _leaves(after)
    changes = [
        LeafChange(
            path=path[:MOST_VALUE],
            before=_cut(old.get(path)),
            after=_cut(new.get(path)),
        )
        for path in (*old, *(path for path in new if path not in old))
        if old.get(path) != new.get(path)
    ]
    return JsonDiff(
        changes=tuple(changes[:MOST_CHANGES]),
        same=sum(path in new and new[path] == value for path, value in old.items()),
        complete=old_whole and new_whole and len(changes) <= MOST_CHANGES,
    )


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= MOST_VALUE else value[:MOST_VALUE] + "…"


def _leaves(text: str) -> tuple[Mapping[str, str], bool]:
    """Return the leaves of a text by their path, and whether these are all."""
    try:
        value = read_json(text)
        found: dict[str, str] = {}
        for path, leaf in _walk(value, "", 0):
            if len(found) == MOST_LEAVES:
                return found, False
            found[path] = leaf
    except (UnreadableJson, RecursionError):
        return {"": text}, True
    return found, True


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth < MOST_DEPTH:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                yield from _walk(inner, f"{path}.{key}" if path else str(key), depth + 1)
            return
        if isinstance(value, list) and value:
            for place, inner in enumerate(value):
                yield from _walk(inner, f"{path}[{place}]", depth + 1)
            return
    yield path, json.dumps(value, ensure_ascii=False)
