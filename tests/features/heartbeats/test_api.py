"""Workers through the API: the running clients, and the rescue of a silent one's jobs."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection

from tests.features.heartbeats.test_section import client_row, held
from tests.web.api.test_openapi import validate

Connection = AsyncConnection[dict[str, Any]]


@pytest.mark.usefixtures("own_tables")
async def test_the_clients(api: httpx2.AsyncClient, connection: Connection) -> None:
    await client_row(connection, "alive", release="v7", loop_lag=0.5, memory=1_000)
    await client_row(connection, "silent", 2)
    job_id = await held(connection, "alive", kind="k")
    await held(connection, "go")
    answer = (await api.get("workers")).json()
    validate("Clients", answer)
    silent, alive = answer["data"]
    assert (silent["id"], silent["status"]) == ("silent", "silent")
    assert (alive["id"], alive["status"], alive["release"]) == ("alive", "alive", "v7")
    assert alive["heartbeat_interval"] == 20
    assert alive["queues"] == [
        {"name": "default", "max_workers": 10, "slots_taken": 3},
        {"name": "mail", "max_workers": 100, "slots_taken": 100},
    ]
    assert [job["id"] for job in alive["jobs"]] == [job_id]
    assert 39 < silent["silent_for"] < 60
    assert [(seen["id"], seen["running"]) for seen in answer["seen"]] == [("go", 1)]
    assert answer["heartbeats"] is True


@pytest.mark.usefixtures("own_tables")
async def test_the_rescue(api: httpx2.AsyncClient, connection: Connection) -> None:
    name = "a/b c"
    await client_row(connection, name, 2)
    await held(connection, name)
    answer = await api.post("workers/a/b%20c/rescue")
    assert answer.json() == {"client": name, "retryable": 1, "discarded": 0, "cancelled": 0}
    validate("Rescue", answer.json())
    (dead,) = (await api.get("workers")).json()["data"]
    assert (dead["status"], dead["rescued"]) == ("dead", 1)
    assert dead["rescued_at"]
    assert (await api.post("workers/a/b%20c/rescue")).status_code == 400
    missing = await api.post("workers/nobody/rescue")
    assert missing.status_code == 404
    assert missing.json()["message"].startswith("No client with this id")


async def test_without_the_table(api: httpx2.AsyncClient, connection: Connection) -> None:
    await held(connection, "go")
    answer = (await api.get("workers")).json()
    assert answer["data"] == []
    assert answer["heartbeats"] is False
    assert [seen["id"] for seen in answer["seen"]] == ["go"]
    refused = await api.post("workers/go/rescue")
    assert refused.status_code == 400
    assert "the tables of riverui" in refused.json()["message"]
