"""Queues as River UI's API gives and changes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui.storage.postgres.driver import PostgresDriver
from tests.cases import cases
from tests.factory import Make
from tests.web.api.conftest import Get

Connection = AsyncConnection[dict[str, Any]]
AT = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)
LIMITS = {
    "global_limit": 10,
    "local_limit": 5,
    "partition": {"by_args": ["a", "b"], "by_kind": True},
}


NO_LIMITS: tuple[Any, ...] = (
    7,
    "x",
    [],
    {"global_limit": 2**31},
    {"global_limit": 1.5},
    {"local_limit": "5"},
    {"partition": []},
    {"partition": {"by_args": "a"}},
    {"partition": {"by_args": [1]}},
    {"partition": {"by_args": ["a\0b"]}},
    {"partition": {"by_kind": 1}},
    {"global_limit": -1},
    {"local_limit": -1},
    {"partition": {"by_args": [""]}},
    {"partition": {"by_args": ["x" * 201]}},
    {"partition": {"by_args": ["a\u200eb"]}},
    {"partition": {"by_args": [f"arg{number}" for number in range(11)]}},
)


NO_RATES = ({"limit": 0}, {"limit": "x"}, {"burst": 2}, 5, {"limit": 5, "per_seconds": -1})


async def metadata(make: Make) -> Any:
    (row,) = await make.rows("select metadata from river_queue")
    return row["metadata"]


async def test_limits_are_read_from_the_metadata(get: Get, make: Make) -> None:
    with cases() as case:
        for stored, shown in (
            ({}, None),
            ({"concurrency": None}, None),
            (
                {"concurrency": {}},
                {
                    "global_limit": 0,
                    "local_limit": 0,
                    "partition": {"by_args": None, "by_kind": False},
                },
            ),
            ({"concurrency": LIMITS, "more": 1}, LIMITS),
            ({"concurrency": {"global_limit": "many"}}, None),
            ({"concurrency": 7}, None),
            (["no object"], None),
        ):
            with case(stored):
                await make.execute("delete from river_queue")
                await make.queue(metadata=stored)
                assert (await get("queues/default"))["concurrency"] == shown


async def test_limits_are_set_and_lifted_and_the_other_metadata_stays(
    api: AsyncClient, make: Make, driver: PostgresDriver
) -> None:
    await make.queue(created_at=AT, updated_at=AT, metadata='{"owner": "team", "share": 1.10}')
    listener = await driver.listener()
    await listener.listen("river_control")
    unsorted = {**LIMITS, "partition": {"by_args": ["b", "a"], "by_kind": True}}
    answer = await api.patch("queues/default", json={"concurrency": unsorted})
    assert answer.status_code == 200
    assert answer.json()["concurrency"] == LIMITS
    assert answer.json()["updated_at"] > "2026-11-21T09:00:00Z"
    assert await metadata(make) == {"owner": "team", "share": 1.1, "concurrency": LIMITS}
    _, told = await anext(listener.notifications())
    assert json.loads(told) == {
        "action": "metadata_changed",
        "metadata": {"owner": "team", "share": 1.1, "concurrency": LIMITS},
        "queue": "default",
    }
    answer = await api.patch("queues/default", json={})
    assert answer.json()["concurrency"] == LIMITS
    answer = await api.patch("queues/default", json={"concurrency": {"global_limit": 3}})
    assert answer.json()["concurrency"]["partition"] == {"by_args": None, "by_kind": False}
    answer = await api.patch("queues/default", json={"concurrency": None})
    assert answer.json()["concurrency"] is None
    assert await metadata(make) == {"owner": "team", "share": 1.1}
    await listener.close()


async def test_invalid_limits_change_nothing(api: AsyncClient, make: Make) -> None:
    await make.queue()
    bodies: list[dict[str, Any]] = [{"concurrency": limits} for limits in NO_LIMITS]
    bodies += [{"rate_limit": rate} for rate in NO_RATES]
    bodies += [{"rate_limit": {"limit": 5}, "concurrency": {"global_limit": -1}}]
    with cases() as case:
        for body in bodies:
            with case(body):
                answer = await api.patch("queues/default", json=body)
                assert answer.status_code == 400
                assert any(name in answer.text for name in (*body, "NUL"))
                assert await metadata(make) == {}


async def test_a_name_is_whatever_stands_in_the_path(api: AsyncClient, make: Make) -> None:
    with cases() as case:
        for name in (
            "default",
            "a/b",
            "a b",
            "é",
            "a?b#c",
            "**",
            "~x",
            "+",
            "a%2Fb",
            "pause",
            "x/pause",
        ):
            with case(name):
                await make.queue(name)
                path = f"queues/{quote(name, safe='')}"
                assert (await api.get(path)).json()["name"] == name
                for verb, paused in (
                    ("pause", True),
                    ("pause", True),
                    ("resume", False),
                    ("resume", False),
                ):
                    answer = await api.put(f"{path}/{verb}")
                    assert (answer.status_code, answer.text) == (200, '{"status":"ok"}')
                    assert ((await api.get(path)).json()["paused_at"] is not None) is paused


async def test_a_star_means_every_queue(api: AsyncClient, make: Make) -> None:
    for name in ("a", "b"):
        await make.queue(name)
    for verb, paused in (("pause", True), ("resume", False)):
        assert (await api.put(f"queues/*/{verb}")).status_code == 200
        found = (await api.get("queues")).json()["data"]
        assert {row["paused_at"] is not None for row in found} == {paused}


async def test_a_queue_called_as_all_of_them_pauses_no_other(api: AsyncClient, make: Make) -> None:
    for name in ("a", "*"):
        await make.queue(name)
    assert (await api.get("queues/*")).json()["name"] == "*"
    for verb in ("pause", "resume"):
        answer = await api.put(f"queues/*/{verb}")
        assert answer.status_code == 400
        assert "means every queue" in answer.json()["message"]
    assert {row["paused_at"] for row in (await api.get("queues")).json()["data"]} == {None}


async def test_the_rate_limit_is_set_and_lifted(api: AsyncClient, make: Make) -> None:
    await make.queue(metadata={"team": "mail"})
    rate = {"limit": 5, "per_seconds": 60, "burst": 2}
    answer = await api.patch("queues/default", json={"rate_limit": rate})
    assert answer.status_code == 200, answer.text
    assert await metadata(make) == {"team": "mail", "riverui:rate_limit": rate}
    both = {"rate_limit": {"limit": 9}, "concurrency": {"global_limit": 3}}
    assert (await api.patch("queues/default", json=both)).status_code == 200
    found = await metadata(make)
    assert found["riverui:rate_limit"] == {"limit": 9.0}
    assert found["concurrency"]["global_limit"] == 3
    none = {"rate_limit": None, "concurrency": None}
    assert (await api.patch("queues/default", json=none)).status_code == 200
    assert await metadata(make) == {"team": "mail"}
