"""Pausing and resuming queues."""

from __future__ import annotations

import pytest

from riverui.actions import queues
from riverui.actions.verbs import QueueVerb
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface import Driver
from tests.factory import Make


async def test_pause_and_resume_name_what_they_changed(driver: Driver, make: Make) -> None:
    for name in ("a", "b"):
        await make.queue(name)
    assert await queues.apply(driver, queues.PAUSE, "a") == ["a"]
    assert await queues.apply(driver, queues.PAUSE, "a") == []
    assert await queues.apply(driver, queues.PAUSE, "*") == ["b"]
    assert sorted(await queues.apply(driver, queues.RESUME, "*")) == ["a", "b"]


@pytest.mark.parametrize("verb", queues.QUEUE_VERBS.values(), ids=list(queues.QUEUE_VERBS))
async def test_a_queue_named_star_is_not_paused(
    driver: Driver, make: Make, verb: QueueVerb
) -> None:
    for name in ("a", "b", "*"):
        await make.queue(name)
    await queues.apply(driver, queues.PAUSE, "b")
    with pytest.raises(BadRequest, match="means every queue"):
        await queues.apply(driver, verb, "*")
    assert await queues.apply_all(driver, queues.RESUME) == ["b"], "nothing else was paused"
    assert sorted(await queues.apply_all(driver, queues.PAUSE)) == ["*", "a", "b"]


async def test_a_queue_that_nobody_serves_cannot_be_paused(driver: Driver) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await queues.apply(driver, queues.PAUSE, "nowhere")
