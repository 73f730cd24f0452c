"""Names to choose from."""

from __future__ import annotations

from random import Random

import pytest

from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.stores.suggestions import SuggestionStore
from tests.factory import Make
from tests.features.both import (
    SqliteMake,
    database,
    driver,
    driver_url,
    file,
    make,
)

__all__ = ["database", "driver", "driver_url", "file", "make"]


async def test_kinds(driver: Driver, make: Make | SqliteMake) -> None:
    for kind in ("mail_send", "MAIL_bounce", "other", "other", "a%b"):
        await make.job(kind=kind)
    async with driver.reading() as executor:
        assert await executor.jobs.kind_list() == ["MAIL_bounce", "a%b", "mail_send", "other"]
        assert await executor.jobs.kind_list(match="mail") == ["MAIL_bounce", "mail_send"]
        assert await executor.jobs.kind_list(match="%") == ["a%b"]
        assert await executor.jobs.kind_list(match="*mail*") == ["MAIL_bounce", "mail_send"]
        assert await executor.jobs.kind_list(limit=1) == ["MAIL_bounce"]
        assert await executor.jobs.kind_list(match="\0") == []
        assert await executor.jobs.kind_list(match="\ud800") == []


async def test_tags(driver: Driver, make: Make | SqliteMake) -> None:
    await make.job(tags=["vip", "daily"])
    await make.job(tags=["vip", "Tenant 1"])
    async with driver.reading() as executor:
        assert sorted(await SuggestionStore(executor).job_tag_list()) == [
            "Tenant 1",
            "daily",
            "vip",
        ]
        assert await SuggestionStore(executor).job_tag_list(match="TEN") == ["Tenant 1"]


async def test_workers(driver: Driver, make: Make | SqliteMake) -> None:
    await make.job("running", attempted_by=["former", "host_1"])
    await make.job("completed", attempted_by=["host_2"])
    await make.job("discarded", attempted_by=["host_3"])
    await make.job("available", attempted_by=None)
    async with driver.reading() as executor:
        assert await SuggestionStore(executor).job_worker_list() == ["host_1", "host_2", "host_3"]
        assert await SuggestionStore(executor).job_worker_list(match="_2") == ["host_2"]


async def test_paths(driver: Driver, make: Make | SqliteMake) -> None:
    noise = Random(1).randbytes(20_000).hex()
    await make.job(
        args={
            "customer": {"id": 1, "name": {"first": "x"}},
            "n": None,
            "list": [{"in": 1}],
            "a.b": 1,
        }
    )
    await make.job(args=[1], metadata={"trace": 1, "output": {"rows": 1}, "river:log": []})
    await make.job(
        args={"deep": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}, "big": {"blob": noise}}
    )
    async with driver.reading() as executor:
        assert list(await SuggestionStore(executor).job_path_list("args")) == [
            "customer.id",
            "customer.name.first",
            "list",
            "n",
        ]
        assert list(await SuggestionStore(executor).job_path_list("args", match="NAME")) == [
            "customer.name.first"
        ]
        assert list(await SuggestionStore(executor).job_path_list("metadata")) == [
            "output.rows",
            "trace",
        ]
        with pytest.raises(BadRequest):
            await SuggestionStore(executor).job_path_list("tags")


async def test_of_an_empty_table(driver: Driver) -> None:
    async with driver.reading() as executor:
        names = SuggestionStore(executor)
        assert list(await executor.jobs.kind_list()) == []
        assert list(await executor.queues.name_list()) == []
        assert list(await names.job_tag_list()) == []
        assert list(await names.job_worker_list()) == []
        assert list(await SuggestionStore(executor).job_path_list("args")) == []
