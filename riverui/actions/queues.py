"""What a person or a program does to queues, as River's client does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.queues import QueueRow
from riverui.errors import NotFound
from riverui.storage.interface import Driver, Executor


async def pause(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Pauses a queue, `*` every queue; the names that changed. Running jobs go on."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_pause(name)


async def resume(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Resumes a queue, `*` every queue; the names that changed."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_resume(name)


async def get(executor: Executor, name: str) -> QueueRow:
    """The queue's row. NotFound where no client has served it lately."""
    row = await executor.queue_row_get(name)
    if row is None:
        raise NotFound(f"There is no queue “{name}” that a client has served.")
    return row


async def set_concurrency(
    driver: Driver, name: str, limits: str | None, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Sets River Pro's limits of a queue (a JSON object as text), None lifts them; all else in its metadata
    stays. NotFound.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_set_concurrency(name, limits)


async def touch(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> QueueRow:
    """What River's QueueUpdate does with nothing to update: the queue counts as seen just now. NotFound."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_touch(name)
