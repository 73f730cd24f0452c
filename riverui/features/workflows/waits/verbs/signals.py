"""Signals that programs and people send to workflows, for the tasks that wait for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from riverui.domain.json import UnreadableJson, read_json, write_json
from riverui.errors import (
    NotFound,
    SchemaMissing,
    SignalAttemptMismatch,
    SignalConflict,
    SignalRefused,
    SignalUndeclared,
    WaitInvalid,
)
from riverui.features.workflows.domain.workflows import SignalRow
from riverui.features.workflows.waits.domain import MAX_KEY, Wait
from riverui.features.workflows.waits.store import (
    SignalInserted,
    SignalInsertParams,
    WaitRow,
    WaitStore,
)
from riverui.storage import tables
from riverui.storage.interface import Executor

MAX_PAYLOAD = 1_000_000
"""Bytes of a signal's payload in JSON: larger data belongs in a store of its own."""
MAX_SOURCE = 10_000
"""Bytes of a signal's source in JSON."""
MAX_LISTED = 1_000
"""Signals in one page."""
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class SignalPage(NamedTuple):
    """Signals of a task, and the cursor of the next page."""

    signals: Sequence[SignalRow]
    next_cursor_id: int | None
    """None on the last page."""


def check_signal(params: SignalInsertParams) -> SignalInsertParams:
    """Return a valid signal; raise SignalRefused if it is too large or its names are invalid."""
    _check_name("key", params.key)
    if params.idempotency_key is not None:
        _check_name("idempotency key", params.idempotency_key)
    if params.attempt is not None and not 1 <= params.attempt < 2**31:
        raise SignalRefused("A workflow's attempt is a whole number of at least 1.")
    _check_json("payload", params.payload, MAX_PAYLOAD)
    _check_json("source", params.source, MAX_SOURCE)
    return params


async def send(executor: Executor, params: SignalInsertParams) -> SignalRow:
    """Store a signal, in a transaction, and return it, or the one sent before with the same
    idempotency key.

    Raise NotFound without the workflow, SignalAttemptMismatch, SignalConflict, SignalRefused;
    SchemaMissing without the tables.
    """
    params = check_signal(params)
    waits = await need(executor)
    return _sent(params, await waits.workflow_signal_insert(params))


async def need(executor: Executor) -> WaitStore:
    """Return the store of signals and waits; raise SchemaMissing without their table."""
    if not await WaitStore.installed(executor):
        raise SchemaMissing(tables.message("Signals of workflows need"))
    return WaitStore(executor)


async def page(
    executor: Executor,
    id: str,
    task: str,
    *,
    key: str | None = None,
    attempt: int | None = None,
    after: int = 0,
    limit: int = 100,
    descending: bool = False,
) -> SignalPage:
    """Return signals of the keys that a task waits for, or only of `key`; of the workflow's current
    attempt unless another is given.

    Raise NotFound without the task, SignalUndeclared for a key that it does not wait for.
    """
    waits = await need(executor)
    row, wait = await _task(waits, id, task)
    keys = wait.signal_keys
    if key is not None and key not in keys:
        raise SignalUndeclared(f"Task {task[:200]!r} does not wait for signals {key[:200]!r}.")
    if attempt is None:
        (facts,) = await waits.workflow_wait_facts([(row.workflow_id, row.name)])
        attempt = facts.attempt
    limit = max(1, min(limit, MAX_LISTED))
    rows = await waits.own_workflow_signal_list(
        id,
        attempt=attempt,
        keys=keys if key is None else [key],
        cursor_id=after,
        descending=descending,
        limit=limit + 1,
    )
    more = len(rows) > limit
    return SignalPage(rows[:limit], rows[limit - 1].id if more else None)


async def _task(waits: WaitStore, id: str, task: str) -> tuple[WaitRow, Wait]:
    row = await waits.workflow_wait_get(id, task)
    if row is None or row.wait == "null":
        raise NotFound(f"Workflow {id[:128]!r} has no task {task[:200]!r} that waits for signals.")
    return row, wait_of(row)


def wait_of(row: WaitRow) -> Wait:
    """Return the wait of a task; raise WaitInvalid if its row cannot be parsed."""
    try:
        return Wait.from_object(read_json(row.wait))
    except UnreadableJson as error:
        raise WaitInvalid(f"The task's wait cannot be read: {error}") from None


def _sent(params: SignalInsertParams, found: SignalInserted | None) -> SignalRow:
    if found is None:
        raise NotFound(f"Workflow not found: {params.workflow_id[:200]}.")
    if found.signal is not None:
        return found.signal
    if params.attempt not in (None, found.attempt):
        raise SignalAttemptMismatch(params.workflow_id, params.attempt or 0, found.attempt)
    raise SignalConflict(
        f"Another signal already has the idempotency key {params.idempotency_key!r:.210}, with"
        " another payload or key."
    )


def _check_name(what: str, text: str) -> None:
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_KEY:
        raise SignalRefused(f"A signal's {what} is a text of 1 to {MAX_KEY} characters.")
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise SignalRefused(f"The signal's {what} has a character that Postgres cannot store.")


def _check_json(what: str, text: str, most: int) -> None:
    size = len(text.encode(errors="replace"))
    if size > most:
        raise SignalRefused(
            f"A signal's {what} may take {most:,} bytes of JSON; this one takes {size:,}."
        )
    try:
        value = read_json(text)
        if "\\u" in text:
            write_json(value).encode()
    except (UnreadableJson, UnicodeEncodeError) as error:
        raise SignalRefused(f"The signal's {what} cannot be stored: {error}"[:300]) from None
    if _NUL.search(text):
        raise SignalRefused(f"The signal's {what} has a NUL, which Postgres cannot store.")
