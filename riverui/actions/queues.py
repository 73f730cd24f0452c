"""The verbs on queues, one record each, and other changes to queues and to the leader."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from riverui.actions.verbs import QueueVerb
from riverui.domain.queues import ALL_QUEUES, MAX_NOTE, NO_REASON, QueueRow, Reason
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface import Driver, Executor

_ALLOWS = "pause and resume queues"
"""The description of the right to both."""

PAUSE = QueueVerb(
    name="pause",
    label="Pause",
    label_all="Pause all queues",
    icon="pause",
    right="queues.pause",
    allows=_ALLOWS,
    fits=lambda queue: queue.served and queue.paused_at is None,
    call=lambda executor, name, reason: executor.queues.pause(name, reason),
    done="paused",
    hint="Running jobs finish; no new ones start.",
    unchanged="already paused",
    unchanged_all="All queues were already paused",
    summary="Pauses a queue: running jobs finish, no new ones start.",
    asks=True,
)

RESUME = QueueVerb(
    name="resume",
    label="Resume",
    label_all="Resume all queues",
    icon="play",
    tone="primary",
    right="queues.pause",
    allows=_ALLOWS,
    fits=lambda queue: queue.paused_at is not None,
    call=lambda executor, name, reason: executor.queues.resume(name, reason.by),
    done="resumed",
    hint="",
    unchanged="not paused",
    unchanged_all="No queue was paused",
    summary="Resumes a queue.",
)

QUEUE_VERBS: Mapping[str, QueueVerb] = {verb.name: verb for verb in (PAUSE, RESUME)}
"""Every verb on queues by its name."""


def reason(by: str, note: str) -> Reason:
    """Return who pauses a queue and why. Raise BadRequest if the note is too long to be kept."""
    note = note.strip()
    if len(note) > MAX_NOTE or "\0" in note:
        raise BadRequest(f"The note has at most {MAX_NOTE} characters, none of them NUL.")
    return Reason(by=by[:MAX_NOTE], note=note)


async def apply(
    driver: Driver,
    verb: QueueVerb,
    name: str,
    reason: Reason = NO_REASON,
    *,
    time_limit: timedelta | None = None,
) -> Sequence[str]:
    """Apply a verb to a queue, `*` for every queue; return the names that changed.

    Raise NotFound if the queue does not exist, BadRequest for `*` if a queue has that name, as it
    would be ambiguous to clients.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        if name == ALL_QUEUES and await transaction.queues.row_get(name) is not None:
            raise BadRequest(
                "To River's clients “*” means every queue, so a queue of that name cannot be"
                f" {verb.done} on its own. Nothing was changed."
            )
        return await verb.call(transaction, name, reason)


async def apply_all(
    driver: Driver,
    verb: QueueVerb,
    reason: Reason = NO_REASON,
    *,
    time_limit: timedelta | None = None,
) -> Sequence[str]:
    """Apply a verb to every queue; return the names that changed."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await verb.call(transaction, ALL_QUEUES, reason)


async def get(executor: Executor, name: str) -> QueueRow:
    """Return the queue's row; raise NotFound if no client has served it recently."""
    row = await executor.queues.row_get(name)
    if row is None:
        raise NotFound(f"Queue not found: {name}.")
    return row


async def set_metadata_key(
    driver: Driver, name: str, key: str, value: str | None, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Set a key of a queue's metadata to a value (JSON as text), or remove it for None; return the
    queue's row.

    All else in its metadata stays. Raise NotFound if the queue has no row.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queues.set_metadata_key(name, key, value)


async def touch(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> QueueRow:
    """Set the queue's update time, as River's QueueUpdate does without changes.

    Return its row; raise NotFound if it has none.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queues.touch(name)


async def request_resign(executor: Executor) -> None:
    """Request that the leader resigns; clients without a listener do not receive the request."""
    message = {"action": "request_resign", "leader_id": ""}
    await executor.notify_many("river_leadership", [json.dumps(message, separators=(",", ":"))])
