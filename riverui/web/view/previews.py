"""What a list shows of a job's args and tags, in one line, beginning with what distinguishes it
from the rows around it.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from riverui.domain.jobs import JobListRow
from riverui.domain.sealed_args import args_preview, sealed_args
from riverui.web.view.format import escaped, plain
from riverui.web.view.page_context import PageContext

Rows = Sequence[JobListRow]

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
_TAG_FITS = 10
"""Characters of a tag that fit into the narrowest table; a longer one carries a tooltip."""
_TAGS = 3
"""Tags shown in a row; the rest are in a tooltip."""
_TIP = 300
"""Most characters of a job's args in the tooltip of its row."""
_ATTRIBUTE = 2_000
"""Most characters of a text in an attribute."""

_decode = msgspec.json.Decoder(float_hook=str).decode
"""Numbers stay as they were written."""


def args_previews(rows: Rows) -> list[str]:
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


def args_cells(rows: Rows, context: PageContext) -> list[str]:
    """Return the args of each row as markup, with its tags below them."""
    lock = context.icons.icon("lock")
    cells = []
    for row, preview in zip(rows, args_previews(rows), strict=True):
        sealed = sealed_args(row.args_preview)
        args = sealed_cell(preview, lock) if sealed else _code(row, preview)
        cells.append(f"<div>{args}{tags_html(row.tags) if row.tags else ''}</div>")
    return cells


def _code(row: JobListRow, preview: str) -> str:
    tip = _tip(row.args_preview) if preview else ""
    return f"<code {tip}><bdi>{escaped(preview)}</bdi></code>"


def sealed_cell(words: str, lock: str) -> str:
    """Return the markup of a value that is encrypted, with the icon of a lock before it."""
    return f'<span class="sealed">{lock}{escaped(words)}</span>'


def title(text: str, fits: int) -> str:
    """Return a `title` attribute with the whole text if it is longer than `fits` characters; else
    an empty string.
    """
    return f'title="{html.escape(plain(text, _ATTRIBUTE))}"' if len(text) > fits else ""


def _tip(args: str) -> str:
    """Return a tooltip with the args as stored, cut if they are long."""
    return f'title="{html.escape(plain(args, _TIP))}"'


def tags_html(tags: tuple[str, ...]) -> str:
    """Return the first tags as markup, with all of them in a tooltip."""
    parts = []
    everything = f'title="{html.escape(plain(", ".join(tags)))}"'
    for place, tag in enumerate(tags[:_TAGS]):
        # On narrow screens only the first tag is visible: its tooltip lists all.
        tip = everything if place == 0 and len(tags) > 1 else title(tag, _TAG_FITS)
        parts.append(f'<span class="tag" {tip}><bdi>{escaped(tag)}</bdi></span>')
    rest = len(tags) - _TAGS
    if rest > 0:
        parts.append(f'<span class="tag" {everything}>+{rest}</span>')
    return "".join(parts)
