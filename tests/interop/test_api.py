"""The JSON API on a database that Go River works: it shows what Go wrote, and Go acts on what it
does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from riverui import create_app
from riverui.storage.interface import Driver
from tests.interop.conftest import StartWorker
from tests.interop.worker import Peer
from tests.web.api.test_openapi import validate

pytestmark = pytest.mark.interop


@pytest.fixture
async def api(driver: Driver) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a program that speaks to the API as to River UI's: no browser, no cookies."""
    app = create_app(driver, no_auth=True)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test/api/") as client:
        yield client
    await app.state.dashboard.close()


async def get(api: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await api.get(path, params=params or None)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def send(api: httpx2.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    answer = await api.request(method, path, **({} if body is None else {"json": body}))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def started(go: Peer, kind: str, **args: Any) -> int:
    job_id = await go.insert(kind, **args)
    await go.wait("started", id=job_id)
    return job_id


@pytest.mark.short
async def test_a_whole_flow_as_a_front_end_of_river_ui_goes_through_it(
    api: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker() as go:
        features = await get(api, "features")
        assert features["extensions"]["workflow_queries"] is False
        assert not features["job_list_hide_args_by_default"]

        running = await started(go, "sleep", seconds=600)
        failed = await go.insert(
            "flaky", opts={"max_attempts": 1}, message="no <b>luck</b>", failures=1
        )
        await go.wait("job_failed", id=failed)
        waiting = await go.insert(
            "noop", opts={"scheduled_in": 3600, "tags": ["vip"], "priority": 3}
        )

        (listed,) = (await get(api, "jobs"))["data"]
        assert (listed["id"], listed["kind"], listed["state"]) == (running, "sleep", "running")
        assert listed["attempted_by"] == [go.client_id]
        assert json.loads(listed["args"])["seconds"] == 600
        for params, expected in (
            ({"state": "discarded"}, [failed]),
            ({"state": "discarded", "kinds": "noop"}, []),
            ({"state": "scheduled", "tags": "vip"}, [waiting]),
            ({"state": "scheduled", "priorities": "3", "queues": "default"}, [waiting]),
            ({"ids": str(running)}, [running]),
        ):
            assert [row["id"] for row in (await get(api, "jobs", **params))["data"]] == expected

        detail = await get(api, f"jobs/{failed}")
        validate("Job", detail)
        (error,) = detail["errors"]
        assert (error["attempt"], error["error"]) == (1, "no <b>luck</b> (attempt 1)")
        at = datetime.fromisoformat(error["at"])
        assert abs((datetime.now(UTC) - at).total_seconds()) < 60

        names = await get(api, "autocomplete", facet="job_kind", match="LEE")
        assert names == {"data": ["sleep"]}
        assert "default" in (await get(api, "autocomplete", facet="queue_name"))["data"]
        states = await get(api, "states")
        assert [states[each]["count"] for each in ("running", "discarded", "scheduled")] == [1] * 3

        assert await send(api, "POST", "jobs/cancel", {"ids": [str(running)]}) == {"status": "ok"}
        assert "cancelled remotely" in (await go.wait("interrupted", id=running)).message
        await go.wait("job_cancelled", id=running)
        await send(api, "POST", "jobs/retry", {"ids": [str(failed)]})
        assert (await go.wait("job_completed", id=failed)).attempt == 2
        await send(api, "POST", "jobs/delete", {"ids": [str(waiting)]})
        assert (await api.get(f"jobs/{waiting}")).status_code == 404

        await send(api, "PUT", "queues/default/pause")
        await go.wait("queue_paused", queue="default")
        assert (await get(api, "queues/default"))["paused_at"] is not None
        held = await go.insert("noop")
        await asyncio.sleep(0.5)
        assert (await get(api, f"jobs/{held}"))["state"] == "available"
        assert (await get(api, "queues/default"))["count_available"] == 1
        await send(api, "PUT", "queues/default/resume")
        await go.wait("job_completed", id=held)

        limits = {
            "global_limit": 10,
            "local_limit": 5,
            "partition": {"by_args": ["b", "a"], "by_kind": True},
        }
        queue = await send(api, "PATCH", "queues/default", {"concurrency": limits})
        assert queue["concurrency"]["partition"]["by_args"] == ["a", "b"]
        assert (await send(api, "PATCH", "queues/default", {"concurrency": None}))[
            "concurrency"
        ] is None


async def test_a_running_job_is_not_deleted_under_its_worker(
    api: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker() as go:
        running = await started(go, "sleep", seconds=600)
        answer = await api.post("jobs/delete", json={"ids": [running]})
        assert answer.status_code == 400
        assert "running" in answer.json()["message"]
        assert (await get(api, f"jobs/{running}"))["state"] == "running"


async def test_the_progress_of_a_batch_while_go_works_it(
    api: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker() as go:
        made = [await go.insert("noop", opts={"tags": ["batch-7"]}) for _ in range(20)]
        failed = await go.insert(
            "flaky", opts={"tags": ["batch-7"], "max_attempts": 1}, message="x", failures=1
        )
        await go.wait("job_failed", id=failed)
        for job_id in made:
            await go.wait("job_completed", id=job_id)
        found = await get(api, "progress", tag="batch-7")
        assert (found["total"], found["completed"], found["failed"], found["pending"]) == (
            21,
            20,
            1,
            0,
        )


async def test_a_query_retries_what_go_then_works(
    api: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker() as go:
        made = [
            await go.insert("flaky", opts={"max_attempts": 1}, message="no", failures=1)
            for _ in range(5)
        ]
        for job_id in made:
            await go.wait("job_failed", id=job_id)
        answer = await api.post("jobs/retry", json={"query": "kind:flaky error:no"})
        assert answer.status_code == 202
        for job_id in made:
            assert (await go.wait("job_completed", id=job_id)).attempt == 2
        lines = (await api.get("jobs/export", params={"q": "kind:flaky"})).text.splitlines()
        assert {json.loads(line)["state"] for line in lines} == {"completed"}
