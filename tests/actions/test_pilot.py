"""Features that take part in retry, cancel and delete, with a client or without."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.actions import jobs
from riverui.actions.job_part import Inner
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.engine.feature_list import plain_pilot
from riverui.engine.pilot import Feature, Pilot
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.job_actions import JobChanges
from tests.factory import Make


class Retrying(Feature):
    """Takes part in retries when it is switched on."""

    def __init__(self, name: str, heard: list[str]) -> None:
        self.on = False
        self._name = name
        self._heard = heard

    async def takes_part(self, executor: Executor) -> bool:
        return self.on

    async def retry(self, executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
        self._heard.append(f"{self._name} before")
        changes = await do_inner(ids)
        self._heard.append(f"{self._name} after")
        return changes


class Deleting(Retrying):
    """Takes part in deletions, too."""

    async def delete(self, executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
        return await self.retry(executor, ids, do_inner)


async def test_a_feature_is_asked_each_time_whether_it_takes_part(
    driver: Driver, make: Make
) -> None:
    heard: list[str] = []
    outer, inner = Deleting("outer", heard), Retrying("inner", heard)
    pilot = Pilot([outer, inner])
    ended = await make.job("completed")
    await jobs.apply(driver, CANCEL, [ended], pilot=pilot)
    assert heard == []

    outer.on = inner.on = True
    changes = await jobs.apply(driver, RETRY, [ended], pilot=pilot)
    assert changes.changed == (ended,)
    assert heard == ["outer before", "inner before", "inner after", "outer after"]

    heard.clear()
    await jobs.apply(driver, CANCEL, [ended], pilot=pilot)
    assert heard == []
    await jobs.apply(driver, DELETE, [ended], pilot=pilot)
    assert heard == ["outer before", "outer after"]


async def test_deleting_is_storage_s_call_unless_a_feature_takes_part(driver: Driver) -> None:
    deleting = Deleting("one", [])
    pilot = Pilot([deleting])
    async with driver.transaction() as executor:
        assert await Pilot().deletes_plainly(executor)
        assert await plain_pilot().deletes_plainly(executor)
        assert await pilot.deletes_plainly(executor)
    deleting.on = True
    async with driver.transaction() as executor:
        assert not await pilot.deletes_plainly(executor)
