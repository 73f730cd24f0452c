"""Actions on all jobs that match a query, through the API."""

from __future__ import annotations

from typing import Any

import httpx2
from psycopg import AsyncConnection

from tests import factory
from tests.cases import cases
from tests.operations import until_operation

Connection = AsyncConnection[dict[str, Any]]


async def states(connection: Connection) -> dict[int, str]:
    rows = await (await connection.execute("select id, state::text from river_job")).fetchall()
    return {row["id"]: row["state"] for row in rows}


async def ended(api: httpx2.AsyncClient, operation_id: str) -> dict[str, Any]:
    """Return the operation once it has ended."""
    return await until_operation(api, f"operations/{operation_id}")


async def test_a_query_acts_on_what_matched_when_it_was_sent(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    made = [await factory.job(connection, "discarded", kind="mail") for _ in range(3)]
    other = await factory.job(connection, "discarded", kind="other")
    answer = await api.post("jobs/retry", json={"query": "kind:mail"})
    assert answer.status_code == 202
    begun = answer.json()["operation"]
    assert (begun["verb"], begun["total"], begun["total_exact"]) == ("retry", 3, True)
    assert "kind:mail" in begun["query"]
    later = await factory.job(connection, "discarded", kind="mail")
    found = await ended(api, begun["id"])
    assert (found["status"], found["changed"], found["error"]) == ("done", 3, "")
    assert await states(connection) == dict.fromkeys(made, "available") | {
        other: "discarded",
        later: "discarded",
    }
    assert [row["id"] for row in (await api.get("operations")).json()["data"]] == [begun["id"]]


async def test_states_beside_the_query(api: httpx2.AsyncClient, connection: Connection) -> None:
    with cases() as case:
        for verb, body, left in (
            ("delete", {"query": "", "state": ["completed"]}, {"available", "running"}),
            ("delete", {"query": ""}, {"running"}),
            ("cancel", {"query": "state:available"}, {"cancelled", "running", "completed"}),
            (
                "cancel",
                {"query": "", "state": ["available"]},
                {"cancelled", "running", "completed"},
            ),
            # Without a state, what failed is retried: completed jobs only by name.
            ("retry", {"query": ""}, {"available", "running", "completed"}),
            ("retry", {"query": "state:completed"}, {"available", "running"}),
            ("move", {"query": "", "queue": "slow"}, {"available", "running", "completed"}),
        ):
            with case((verb, body)):
                await connection.execute("delete from river_job")
                for state in ("available", "running", "completed"):
                    await factory.job(connection, state)
                answer = await api.post(f"jobs/{verb}", json=body)
                found = await ended(api, answer.json()["operation"]["id"])
                given = {"queue": "slow"} if verb == "move" else {}
                assert (found["verb"], found["parameters"]) == (verb, given)
                assert set((await states(connection)).values()) == left


async def test_queries_that_make_no_sense(api: httpx2.AsyncClient, connection: Connection) -> None:
    await factory.job(connection, "completed")
    with cases() as case:
        for body in (
            {"query": "kind:"},
            {"query": 7},
            {"query": None},
            {"query": "", "state": "completed"},
            {"query": "", "state": ["finished"]},
            {"query": "", "state": [["completed"]]},
            {"query": "", "state": ["completed"]},
            {"state": ["available"]},
            {"query": "kind:test_kind", "tags": ["vip"]},
            {"query": "", "ids": [1]},
            {"ids": [1], "state": ["available"]},
        ):
            with case(body):
                answer = await api.post("jobs/cancel", json=body)
                assert answer.status_code == 400
                assert answer.json()["message"]
                assert (await api.get("operations")).json() == {"data": []}
