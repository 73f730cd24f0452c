"""Pausing and resuming queues."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions import queues
from riverui.errors import NotFound
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


async def test_a_queue_that_nobody_serves_cannot_be_paused(driver: Driver) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await queues.pause(driver, "nowhere")
