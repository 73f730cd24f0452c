"""Inserting a job through the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui import Client, InsertOpts, JsonArgs, UniqueOpts
from riverui.storage.interface import Driver
from riverui.web.auth.rights import Access
from tests.cases import cases
from tests.factory import Make
from tests.web.api.test_openapi import validate
from tests.web.stand_ins import dashboard

Connection = AsyncConnection[dict[str, Any]]


@pytest.fixture
async def api(driver: Driver) -> AsyncIterator[AsyncClient]:
    """Yield a client of the API of a dashboard that can insert."""
    async with dashboard(
        driver, access=Access(user="ci"), base_url="http://river.test/api/"
    ) as client:
        yield client


async def test_a_job_with_everything(api: AsyncClient, make: Make) -> None:
    body = (
        '{"kind": "sort", "args": {"exact": 12345678901234567890.10}, "queue": "mailers",'
        ' "priority": 2, "max_attempts": 3, "tags": ["vip"], "metadata": {"n": 1},'
        ' "scheduled_at": "2999-01-01T01:00:00+01:00"}'
    )
    answer = await api.post("jobs", content=body)
    assert answer.status_code == 200, answer.text
    validate("InsertedJob", answer.json())
    found = await make.rows("select *, args::text as text from river_job")
    (row,) = found
    assert answer.json() == {
        "id": row["id"],
        "state": "scheduled",
        "unique_skipped_as_duplicate": False,
    }
    assert row["text"] == '{"exact": 12345678901234567890.10}'
    assert (row["kind"], row["queue"], row["priority"]) == ("sort", "mailers", 2)
    assert (row["max_attempts"], row["tags"]) == (3, ["vip"])
    assert row["metadata"] == {"n": 1, "riverui:from": {"user": "ci"}}
    assert row["scheduled_at"].isoformat() == "2999-01-01T00:00:00+00:00"


async def test_a_unique_job_is_inserted_once(api: AsyncClient, driver: Driver, make: Make) -> None:
    with cases() as case:
        for opts in ({"by_args": True}, {"by_args": ["a"]}, {"by_queue": True, "by_period": 3600}):
            with case(opts):
                await make.execute("delete from river_job")
                args = {"b": 1, "a": [1.5, None]}
                body = {"kind": "sort", "args": args, "unique_opts": opts}
                first = (await api.post("jobs", json=body)).json()
                assert not first["unique_skipped_as_duplicate"]
                again = (await api.post("jobs", json=body)).json()
                assert again == first | {"unique_skipped_as_duplicate": True}
                unique = UniqueOpts(**opts)
                twin = await Client(driver).insert(
                    JsonArgs("sort", args), InsertOpts(unique_opts=unique)
                )
                assert (twin.job.id, twin.unique_skipped_as_duplicate) == (first["id"], True)


async def test_what_cannot_be_inserted(api: AsyncClient, make: Make) -> None:
    with cases() as case:
        for body, told in (
            ("", "`kind` is missing, or no text."),
            ("{", "The body is not valid JSON."),
            ("[" * 100_000, "The body must be a JSON object."),
            ('{"kind": "sort"}', "`args` is missing: give a JSON object."),
            ('{"kind": "sort", "args": []}', "`args`: This must be a JSON object: {…}."),
            ('{"kind": "a b", "args": {}}', "`kind`: The kind must be"),
            ('{"kind": "sort", "args": {"a": "\\u0000"}}', "`args`: Line 1, column 8"),
            ('{"kind": "sort", "args": {"a": "\\ud800"}}', "half of a surrogate pair"),
            ('{"kind": "sort", "args": {}, "priority": 5}', "`priority` must be"),
            ('{"kind": "sort", "args": {}, "max_attempts": 0}', "`max_attempts` must be"),
            ('{"kind": "sort", "args": {}, "queue": "No Queue"}', "not a valid queue name"),
            ('{"kind": "sort", "args": {}, "tags": ["a"]}', "not a valid tag"),
            ('{"kind": "sort", "args": {}, "tags": [1]}', "`tags` must be a list of texts."),
            (
                '{"kind": "sort", "args": {}, "scheduled_at": "2026-01-01T00:00"}',
                "`scheduled_at` must",
            ),
            ('{"kind": "sort", "args": {}, "scheduled_at": "0001-01-01T00:00:00+05:00"}', "exist"),
            (
                '{"kind": "sort", "args": {}, "unique_opts": {"by_state": ["completed"]}}',
                "by_state",
            ),
            ('{"kind": "sort", "args": {}, "unique_opts": {"by_args": ["1"]}}', "list index"),
            ('{"kind": "sort", "args": {}, "metadata": {"river:a": 1}}', "`metadata`: The key"),
        ):
            with case((body[:60], told)):
                answer = await api.post("jobs", content=body.encode("utf-8", "surrogatepass"))
                assert answer.status_code == 400, answer.text
                validate("Error", answer.json())
                assert told in answer.json()["message"]
                (row,) = await make.rows("select count(*) as n from river_job")
                assert row["n"] == 0


async def test_too_much_at_once(api: AsyncClient) -> None:
    args = {"a": "x" * 300_000}
    answer = await api.post("jobs", json={"kind": "sort", "args": args})
    assert (answer.status_code, "300,000" in answer.json()["message"]) == (400, True)
    args = {"a": "x" * 1_100_000}
    assert (await api.post("jobs", json={"kind": "sort", "args": args})).status_code == 413
