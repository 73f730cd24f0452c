"""What a person does to queues: pause and resume, as River's client does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.storage.interface import Driver


async def pause(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Pauses a queue, `*` every queue; the names that changed. Running jobs go on."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_pause(name)


async def resume(driver: Driver, name: str, *, time_limit: timedelta | None = None) -> Sequence[str]:
    """Resumes a queue, `*` every queue; the names that changed."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_resume(name)
