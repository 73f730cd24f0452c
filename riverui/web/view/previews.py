"""The args of a job in one line of a list, those that differ between rows first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from riverui.domain.jobs import JobListRow
from riverui.domain.sealed_args import args_preview

_CHARS = 280
"""Most characters of a preview: what fits a wide screen."""
_DEPTH = 3
"""Most levels of nested objects shown; of deeper ones only the size is shown."""
_LEAVES = 32
"""Most values of one job considered."""
_IDS = ("_id", "Id", "ID", ".id", ".iD")
"""Endings of the paths of ids."""
_SHORT = 40
"""Longest value, in characters, that is shown before longer ones."""
_VALUE = 60
"""Most characters of a value that is followed by others."""

_decode = msgspec.json.Decoder(float_hook=str).decode
"""Numbers stay as they were written."""


def args_previews(rows: Sequence[JobListRow]) -> list[str]:
    """Return the args of each row as `path: value` pairs, the most distinctive first, in some 280
    characters.

    Among the rows of a kind, values that differ from row to row come before those that are all the
    same, then ids and short values before long ones. Args that are not an object, or were cut, stay
    as they are; encrypted ones are shown as sealed.
    """
    previews = [args_preview(row.args_preview) for row in rows]
    kinds: defaultdict[str, list[tuple[int, dict[str, str]]]] = defaultdict(list)
    for place, row in enumerate(rows):
        if previews[place] is row.args_preview and (leaves := _leaves(row.args_preview)):
            kinds[row.kind].append((place, leaves))
    for members in kinds.values():
        paths = _most_distinctive([leaves for _, leaves in members])
        for place, leaves in members:
            previews[place] = _line(leaves, paths)
    return previews


def _leaves(text: str) -> dict[str, str]:
    """Return the values of a JSON object by their dotted paths; empty for anything else."""
    try:
        found = _decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    leaves: dict[str, str] = {}
    if isinstance(found, dict):
        _collect(found, "", 1, leaves)
    return leaves


def _collect(values: dict[str, object], prefix: str, depth: int, leaves: dict[str, str]) -> None:
    for key, value in values.items():
        if len(leaves) >= _LEAVES:
            return
        path = prefix + key[:_VALUE]
        if isinstance(value, str):
            leaves[path] = value
        elif type(value) is int:
            leaves[path] = str(value)
        elif isinstance(value, dict) and value and depth < _DEPTH:
            _collect(value, path + ".", depth + 1, leaves)
        else:
            leaves[path] = _other(value)


def _other(value: object) -> str:
    if isinstance(value, list):
        scalars = value and not any(isinstance(item, dict | list) for item in value[:4])
        shown = ", ".join(_other(item) for item in value[:3]) if scalars else f"{len(value):,}"
        return f"[{shown}, …]" if scalars and len(value) > 3 else f"[{shown}]"
    if isinstance(value, dict):
        return f"{{{len(value):,}}}"
    return value if isinstance(value, str) else "null" if value is None else str(value).lower()


def _most_distinctive(jobs: Sequence[dict[str, str]]) -> list[str]:
    """Return the paths of these jobs of one kind, the most distinctive first."""
    seen: defaultdict[str, list[str]] = defaultdict(list)
    for leaves in jobs:
        for path, value in leaves.items():
            seen[path].append(value)

    def rank(path: str) -> tuple[int, int]:
        values = seen[path]
        distinct = len(set(values)) + (len(values) < len(jobs))
        same = 0 if 2 * distinct > len(jobs) else 1 if distinct > 1 else 2
        if path.endswith(_IDS) or path.lower() == "id":
            return same, 0
        return same, 1 if len(values[0]) <= _SHORT and values[0][:1] not in "[{" else 2

    return sorted(seen, key=rank)


def _line(leaves: dict[str, str], paths: Sequence[str]) -> str:
    parts: list[str] = []
    size, last = 0, len(leaves) - 1
    for path in paths:
        if (value := leaves.get(path)) is None:
            continue
        if len(value) > _VALUE and len(parts) < last:
            value = f"{value[:_VALUE]}…"
        parts.append(f"{path}: {value}")
        size += len(path) + len(value) + 4
        if size > _CHARS and len(parts) <= last:
            parts.append("…")
            break
    return ", ".join(parts)
