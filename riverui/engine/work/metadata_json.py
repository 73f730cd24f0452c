"""Writes a program's values as JSON for a job's metadata."""

from __future__ import annotations

from typing import Any

from riverui.engine.args import gojson


def json_text(value: Any) -> str:
    """Return a value as JSON text; ValueError if it cannot be stored."""
    try:
        return gojson.dump(value)
    except gojson.Unfit as unfit:
        raise ValueError(f"This cannot be stored as JSON: {unfit}") from None
