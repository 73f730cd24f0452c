"""Reads the values at JSON paths of the jobs in a list."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from riverui.storage.interface.params import Field, JsonPath
from riverui.storage.postgres.job_list.rows import MOST_VALUE
from riverui.storage.sql import Fragment, join, word

_STORED = 32_768
"""Stored bytes of JSON above which a list reads no value from it: it would have to be decompressed
whole for one value.
"""
MOST_JSON = 10_000
"""Most characters of the JSON at a path, if programs read it."""


def path_values(paths: Sequence[JsonPath]) -> dict[str, Fragment]:
    """Return the fragment for the slot `values` of `job_list`: a text to show for each path."""
    limits = {"length": MOST_VALUE + 1, "stored": _STORED}
    return _values(paths, "job_value_at_path", limits)


def path_jsons(paths: Sequence[JsonPath]) -> dict[str, Fragment]:
    """Return the fragment for the slot `values` of `job_text_list`: the JSON at each path."""
    return _values(paths, "job_json_at_path", {"length": MOST_JSON + 1, "stored": 2**30})


def _values(
    paths: Sequence[JsonPath], block: str, limits: Mapping[str, int]
) -> dict[str, Fragment]:
    if not paths:
        return {}
    values = join((_value(path, block) for path in paths), ", ")
    return {"values": Fragment("job_list_values", limits, paths=values)}


def _value(path: JsonPath, block: str) -> Fragment:
    column = word("metadata" if path.field is Field.METADATA else "args")
    if None not in path.keys:
        return Fragment(block, {"path": list(path.keys)}, column=column)
    steps = ("[*]" if key is None else f".{json.dumps(key)}" for key in path.keys)
    return Fragment("job_values_at_path", {"path": f"${''.join(steps)}"}, column=column)
