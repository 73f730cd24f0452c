"""Signals as a client sends and returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from riverui.domain.json import UnreadableJson, read_json
from riverui.engine.args import gojson
from riverui.errors import SignalRefused
from riverui.features.workflows.domain.workflows import SignalRow
from riverui.features.workflows.waits.store import SignalInsertParams


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """A signal of a workflow; it never changes."""

    id: int
    workflow_id: str
    attempt: int
    """The workflow's attempt when the signal was sent."""
    key: str
    payload: Any
    source: Any
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalList:
    """One page of the signals of a task."""

    signals: Sequence[Signal]
    next_cursor_id: int | None
    """Where the next page begins, for `after`; None after the last signal."""


def signal_params(
    id: str,
    key: str,
    payload: Any,
    *,
    attempt: int | None,
    idempotency_key: str | None,
    source: Any,
) -> SignalInsertParams:
    """Return a signal to insert. Raise SignalRefused for values that are not JSON."""
    return SignalInsertParams(
        workflow_id=id,
        key=key,
        payload=_json("payload", payload),
        source=_json("source", source),
        attempt=attempt,
        idempotency_key=idempotency_key,
    )


def signal_of(id: str, row: SignalRow) -> Signal:
    """Return a signal of the workflow with this id, its JSON parsed."""
    return Signal(
        id=row.id,
        workflow_id=id,
        attempt=row.attempt,
        key=row.key,
        payload=_value(row.payload),
        source=_value(row.source),
        created_at=row.created_at,
    )


def _json(what: str, value: Any) -> str:
    try:
        return gojson.dump(value)
    except gojson.Unfit as error:
        raise SignalRefused(f"The signal's {what} cannot be stored: {error}") from None


def _value(text: str) -> Any:
    try:
        return read_json(text)
    except UnreadableJson:
        return None
