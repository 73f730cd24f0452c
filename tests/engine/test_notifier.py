"""One connection that listens for all parts of a client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from riverui.engine.notifier import CONTROL, INSERT, LEADERSHIP, Notifier
from riverui.storage.interface import Driver
from tests.engine.conftest import Playground


@pytest.fixture
async def notifier(play: Playground, driver: Driver) -> AsyncIterator[Notifier]:
    """Yield a notifier that listens."""
    logger = logging.getLogger("riverui.engine")
    notifier = Notifier(driver, logger, backoff=lambda failures: 0.01)
    await notifier.connect()
    running = asyncio.create_task(notifier.run())
    yield notifier
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await notifier.close()


async def test_each_callback_gets_its_topic(notifier: Notifier, play: Playground) -> None:
    heard: list[tuple[str, Any]] = []
    for topic in (INSERT, CONTROL, LEADERSHIP):
        notifier.subscribe(topic, lambda message, topic=topic: heard.append((topic, message)))  # type: ignore[misc]
    gone = notifier.subscribe(INSERT, lambda message: heard.append(("gone", message)))
    gone()
    gone()
    await play.notify(INSERT, '{"queue": "a"}')
    await play.notify(CONTROL, '{"action" : "cancel", "job_id" : 1, "queue" : "default"}')
    await play.notify(LEADERSHIP, '{"leader_id" : "x", "action" : "resigned"}')
    await play.notify("river_other", "{}")
    await play.until(lambda: len(heard) == 3)
    assert heard == [
        (INSERT, {"queue": "a"}),
        (CONTROL, {"action": "cancel", "job_id": 1, "queue": "default"}),
        (LEADERSHIP, {"leader_id": "x", "action": "resigned"}),
    ]


async def test_one_callback_that_fails_harms_no_other(
    notifier: Notifier, play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    notifier.subscribe(INSERT, lambda message: message["missing"])
    notifier.subscribe(INSERT, heard.append)
    await play.notify(INSERT, "{}")
    await play.notify(INSERT, "no json")
    await play.notify(INSERT, '{"queue": "a"}')
    await play.until(lambda: len(heard) == 2)
    assert heard == [{}, {"queue": "a"}]
    assert "could not be handled" in caplog.text
    assert "is not a JSON object" in caplog.text


async def test_all_callbacks_run_after_a_lost_connection(
    notifier: Notifier, play: Playground
) -> None:
    heard: list[Any] = []
    called: list[int] = []
    notifier.subscribe(INSERT, heard.append)
    notifier.on_reconnect(lambda: called.append(1))
    stopped = notifier.on_reconnect(lambda: called.append(2))
    stopped()
    for round_ in (1, 2, 3):
        await play.until(lambda: notifier.listening)
        await play.cut_connections()
        await play.until(lambda count=round_: len(called) == count)  # type: ignore[misc]
        await play.notify(INSERT, f'{{"queue": "{round_}"}}')
        await play.until(lambda count=round_: len(heard) == count)  # type: ignore[misc]
    assert called == [1, 1, 1]
    assert [message["queue"] for message in heard] == ["1", "2", "3"]
