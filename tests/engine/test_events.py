"""Subscriptions to a client's events."""

from __future__ import annotations

import asyncio
import logging

import pytest

from riverui.engine.events import Event, EventKind, Events, Subscription
from riverui.engine.work.worker import Job
from tests.engine.conftest import Playground, Task

LOG = logging.getLogger("riverui.engine")
COMPLETED = Event(kind=EventKind.JOB_COMPLETED)
FAILED = Event(kind=EventKind.JOB_FAILED)


async def test_only_the_kinds_asked_for() -> None:
    events = Events(LOG)
    some = events.subscribe("job_failed", EventKind.JOB_SNOOZED)
    every = events.subscribe(*EventKind)
    assert events.wants(EventKind.JOB_FAILED)
    events.publish(COMPLETED)
    events.publish(FAILED)
    events.close()
    assert [event async for event in some] == [FAILED]
    assert [event async for event in every] == [COMPLETED, FAILED]
    assert not events.wants(EventKind.JOB_FAILED)


async def test_a_waiting_subscriber_is_woken() -> None:
    events = Events(LOG)
    subscription = events.subscribe("job_completed")
    waiting = asyncio.create_task(_next(subscription))
    await asyncio.sleep(0)
    events.publish(COMPLETED)
    assert await waiting == COMPLETED
    ending = asyncio.create_task(_next(subscription))
    await asyncio.sleep(0)
    subscription.close()
    subscription.close()
    assert await ending is None


async def test_slow_subscribers_lose_events_and_block_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events(LOG)
    with events.subscribe("job_completed", size=3) as subscription:
        for _ in range(10):
            events.publish(COMPLETED)
        assert subscription.dropped == 7
        assert len(caplog.records) == 3, "logged at the first, the second, the fourth"
    assert len([event async for event in subscription]) == 3
    assert events.subscriptions == set()


async def _next(subscription: Subscription) -> Event | None:
    return await anext(subscription, None)


@pytest.mark.parametrize(("kinds", "size"), [(("job_danced",), 1), ((), 1), (("job_failed",), 0)])
def test_subscriptions_that_cannot_be(kinds: tuple[str, ...], size: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        Events(LOG).subscribe(*kinds, size=size)


async def test_subscription_ends_with_its_client(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        pass

    play.worker(work)
    client = await play.start()
    subscription = client.subscribe("job_completed")
    row = await play.work()
    await client.stop()
    received = [event async for event in subscription]
    assert [event.job.id for event in received if event.job] == [row["id"]]
