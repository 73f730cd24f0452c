"""What a person or a program does to queues, as River's client does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.queues import ALL_QUEUES, QueueRow
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface import Driver, Executor


async def pause(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Pauses a queue and gives the names that changed. Running jobs go on.

    `*` is every queue, unless a queue is called so: then BadRequest, as clients cannot tell which
    is meant.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        await _refuse_two_meanings(transaction, name, "paused")
        return await transaction.queue_pause(name)


async def pause_all(driver: Driver, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Pauses every queue and gives the names that changed. Running jobs go on."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_pause(ALL_QUEUES)


async def resume(
    driver: Driver, name: str, *, time_limit: timedelta | None = None
) -> Sequence[str]:
    """Resumes a queue and gives the names that changed; `*` as in `pause`."""
    async with driver.transaction(timeout=time_limit) as transaction:
        await _refuse_two_meanings(transaction, name, "resumed")
        return await transaction.queue_resume(name)


async def resume_all(driver: Driver, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Resumes every queue and gives the names that changed."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_resume(ALL_QUEUES)


async def get(executor: Executor, name: str) -> QueueRow:
    """The queue's row. NotFound where no client has served it lately."""
    row = await executor.queue_row_get(name)
    if row is None:
        raise NotFound(f"Queue not found: {name}.")
    return row


async def set_concurrency(
    driver: Driver, name: str, limits: str | None, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Sets River Pro's limits of a queue (a JSON object as text), None lifts them; all else in its
    metadata stays. NotFound.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_set_concurrency(name, limits)


async def touch(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> QueueRow:
    """What River's QueueUpdate does with nothing to update: the queue counts as seen just now.
    NotFound.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_touch(name)


async def _refuse_two_meanings(executor: Executor, name: str, done_word: str) -> None:
    if name == ALL_QUEUES and await executor.queue_row_get(name) is not None:
        raise BadRequest(
            "To River's clients “*” means every queue, so a queue of that name cannot be"
            f" {done_word} on its own. Nothing was changed."
        )
