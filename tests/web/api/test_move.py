"""Moving jobs through the API: chosen ones, all or none; or all that match a query."""

from __future__ import annotations

import re
from typing import Any

from httpx2 import AsyncClient
from psycopg import AsyncConnection

from tests.cases import cases
from tests.factory import Make

Connection = AsyncConnection[dict[str, Any]]
NO_PLACES: tuple[dict[str, Any], ...] = (
    {},
    {"queue": "No name"},
    {"queue": 5},
    {"priority": 0},
    {"priority": "high"},
    {"queue": []},
)


async def places(make: Make) -> dict[int, tuple[str, int]]:
    rows = await make.rows("select id, queue, priority from river_job")
    return {row["id"]: (row["queue"], row["priority"]) for row in rows}


async def test_chosen_jobs(api: AsyncClient, make: Make) -> None:
    ids = [await make.job(), await make.job("scheduled")]
    body = {"ids": [ids[0], str(ids[1])], "queue": "mailers", "priority": 3}
    answer = await api.post("jobs/move", json=body)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert await places(make) == dict.fromkeys(ids, ("mailers", 3))
    # Once more, and one thing alone: what is there already is no error.
    assert (await api.post("jobs/move", json=body)).status_code == 200
    assert (await api.post("jobs/move", json={"ids": ids, "priority": 1})).status_code == 200
    assert await places(make) == dict.fromkeys(ids, ("mailers", 1))


async def test_jobs_are_moved_all_or_none(api: AsyncClient, make: Make) -> None:
    with cases() as case:
        for state, told in (("running", "is running"), ("completed", "has finished")):
            with case(state):
                await make.execute("delete from river_job")
                ids = [await make.job(), await make.job(state)]
                answer = await api.post("jobs/move", json={"ids": ids, "queue": "other"})
                assert answer.status_code == 400
                assert (
                    answer.json()["message"]
                    == f"Job {ids[1]} {told}: only jobs that wait can be moved."
                )
                answer = await api.post(
                    "jobs/move", json={"ids": [ids[0], 999_999], "queue": "other"}
                )
                assert (answer.status_code, answer.json()) == (
                    404,
                    {"message": "Job not found: 999999."},
                )
                assert await places(make) == dict.fromkeys(ids, ("default", 1))


async def test_places_that_are_none(api: AsyncClient, make: Make) -> None:
    job_id = await make.job()
    with cases() as case:
        for given in NO_PLACES:
            for jobs in ({"ids": [1]}, {"query": ""}):
                with case((given, jobs)):
                    answer = await api.post("jobs/move", json=jobs | given)
                    assert answer.status_code == 400, answer.text
                    assert re.search(r"(a|The) (queue|priority)", answer.json()["message"])
                    assert await places(make) == {job_id: ("default", 1)}
                    assert (await api.get("operations")).json() == {"data": []}


async def test_what_else_is_beside_a_query_is_not_passed_over(api: AsyncClient, make: Make) -> None:
    body = {"query": "", "queue": "slow", "kinds": ["mail"]}
    answer = await api.post("jobs/move", json=body)
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        "With a `query`, only `state`, `queue`, `priority`, `per_minute` may be given, not `kinds`."
    )
    answer = await api.post("jobs/retry", json={"query": "", "queue": "slow"})
    assert answer.json()["message"] == (
        "With a `query`, only `state`, `per_minute`, `canary`, `stop_failing` may be given, not"
        " `queue`."
    )


async def test_the_reference_tells_what_it_takes(api: AsyncClient) -> None:
    document = (await api.get("openapi.json")).json()
    operation = document["paths"]["/api/jobs/move"]["post"]
    assert operation["x-right"] == "jobs.move"
    for body in operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]:
        described = document["components"]["schemas"][body["$ref"].rpartition("/")[2]]
        properties = described["properties"]
        assert properties["queue"]["maxLength"] == 64
        assert (properties["priority"]["minimum"], properties["priority"]["maximum"]) == (1, 4)
