"""Some jobs of a group side by side, with the args that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from riverui.domain.jobs import JobListRow
from riverui.domain.json import read_json
from riverui.domain.sealed_args import args_preview, sealed_args

_ABSENT = object()


class Sample(Struct, frozen=True, kw_only=True):
    """One job of a group."""

    row: JobListRow
    args: str
    """Its args that are not the same in every sample, as JSON."""


def samples(rows: Sequence[JobListRow]) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """Return the jobs with the args in which they differ, and the names of the args in which they
    do not. The args of a single job, and args that are not an object, are shown in full.
    """
    found = [None if sealed_args(row.args_preview) else _object(row.args_preview) for row in rows]
    objects = [args for args in found if args is not None]
    same: tuple[str, ...] = ()
    if len(objects) > 1:
        first, others = objects[0], objects[1:]
        same = tuple(
            key
            for key, value in first.items()
            if all(args.get(key, _ABSENT) == value for args in others)
        )
    return tuple(
        Sample(
            row=row,
            args=args_preview(row.args_preview) if args is None or not same else _text(args, same),
        )
        for row, args in zip(rows, found, strict=True)
    ), same


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        found = read_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _text(args: Mapping[str, Any], same: Sequence[str]) -> str:
    left = {key: value for key, value in args.items() if key not in same}
    return json.dumps(left, ensure_ascii=False) if left else ""
