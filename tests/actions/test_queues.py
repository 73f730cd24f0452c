"""Pausing and resuming queues."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions import queues
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface import Driver
from tests.factory import queue


async def test_pause_and_resume_name_what_they_changed(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    for name in ("a", "b"):
        await queue(connection, name)
    assert await queues.pause(driver, "a") == ["a"]
    assert await queues.pause(driver, "a") == []
    assert await queues.pause(driver, "*") == ["b"]
    assert sorted(await queues.resume(driver, "*")) == ["a", "b"]


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_queue_called_as_all_of_them_cannot_be_paused_alone(
    driver: Driver, connection: AsyncConnection[Any], verb: str
) -> None:
    for name in ("a", "b", "*"):
        await queue(connection, name)
    await queues.pause(driver, "b")
    with pytest.raises(BadRequest, match="means every queue"):
        await getattr(queues, verb)(driver, "*")
    assert await queues.resume_all(driver) == ["b"], "nothing else was paused"
    assert sorted(await queues.pause_all(driver)) == ["*", "a", "b"]


async def test_a_queue_that_nobody_serves_cannot_be_paused(driver: Driver) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await queues.pause(driver, "nowhere")
