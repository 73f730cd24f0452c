"""Odd, enormous and invalid workflows on pages and in the API: bounded, with clear errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from psycopg import AsyncConnection

from riverui import Client
from riverui.engine.args.job_args import JsonArgs
from riverui.features.workflows.waits.domain import AnyTerm, SignalTerm, Term, Wait
from riverui.features.workflows.waits.engine.service import WaitEvaluator
from riverui.storage.interface import Driver
from tests import factory
from tests.features.conftest import service_context
from tests.web.html import get, parse
from tests.workflows import DIAMOND, workflow

Connection = AsyncConnection[dict[str, Any]]
HOSTILE = "<script>alert(1)</script>"
GARBAGE = (
    *("%00", "%ff%fe", "..%2f..%2f", "~", "~~", "~%2500", "%E2%80%AE", "'%22%3E", "a" * 5_000),
    *("%0d%0aX:%20y", "-1", "null", "1e9", "%5C", "%F3%A0%80%81", "*"),
)
"""Unusual ids in addresses."""
EDGES = {
    "chain": (3_000, "select n, n + 1 from generate_series(1, 2999) n"),
    "ring": (3_000, "select n, n %% 3000 + 1 from generate_series(1, 3000) n"),
    "join": (3_000, "select n, 3000 from generate_series(1, 2999) n"),
    "dense": (3_000, "select a, 100 + b from generate_series(1, 100) a, generate_series(1, 250) b"),
    "tangle": (10_000, "select n, 1 + n * 7919 %% 10000 from generate_series(1, 10000) n"),
}
"""How many tasks there are, which are more than a graph can show, and which waits for which, by
number.
"""
_MANY = (
    "insert into riverui_workflow (id, name, open) values (%(id)s, %(id)s, %(count)s)",
    "insert into river_job (id, kind, args, state, max_attempts, metadata)"
    " select 1000000 + n, 'step', '{}', 'pending', 25, jsonb_build_object("
    " 'riverui:workflow', '{}'::jsonb, 'workflow_id', %(id)s::text, 'task', 't' || n)"
    " from generate_series(1, %(count)s) n",
    "insert into riverui_workflow_task (workflow_id, name, job_id, waits_for)"
    " select %(id)s, 't' || n, 1000000 + n, 1 from generate_series(1, %(count)s) n",
)


async def many(own: Connection, edges: str, *, id: str, count: int) -> None:
    """Insert a workflow of so many tasks."""
    values = {"id": id, "count": count}
    for statement in _MANY:
        await own.execute(statement.encode(), values)
    await own.execute(
        "insert into riverui_workflow_edge (workflow_id, dependency, task)"
        f" select distinct %(id)s, 't' || a, 't' || b from ({edges}) as e (a, b)".encode(),
        values,
    )


@pytest.mark.long
@pytest.mark.parametrize("shape", EDGES)
async def test_thousands_of_tasks_are_shown(
    pages: httpx2.AsyncClient, own: Connection, shape: str
) -> None:
    tasks, edges = EDGES[shape]
    await many(own, edges, id=shape, count=tasks)
    middle = tasks // 2
    for path in ("", f"?each=1&zoom=fit&task=t{middle}", f"?show=pending&from={tasks - 50}"):
        answer = await pages.get(f"/workflows/{shape}{path}")
        assert answer.status_code == 200, path
        assert len(answer.content) < 1_500_000, path
    page = parse(answer.text)
    assert len(page.one(id="wf-list").one("tbody").all("tr")) == 50
    assert 1 <= len(page.all("a", class_="wf-box")) <= 2_000
    job = await get(pages, f"/jobs/{1_000_000 + middle}")
    assert job.one("section", aria_labelledby="workflow-title").link(shape)
    answer = await pages.get(f"/api/pro/workflows/{shape}")
    assert len(answer.json()["tasks"]) == tasks


async def test_garbage_in_the_place_of_an_id(pages: httpx2.AsyncClient, own: Connection) -> None:
    await workflow(own, DIAMOND, id="w1")
    sent = {"confirmed": "1", "mode": "all", "key": "k"}
    for given in GARBAGE:
        one, api = f"/workflows/{given}", f"/api/pro/workflows/{given}"
        asked = [await pages.get(path) for path in (one, f"{one}/signals", api)]
        for verb in ("cancel", "retry", "signals"):
            asked.append(await pages.post(f"{one}/{verb}", data=sent))
        asked.append(await pages.post(f"/api/workflows/{given}/signals", json={"key": "k"}))
        for name in ("task-signals", "task-wait-diagnostics"):
            asked.append(await pages.get(f"{api}/{name}?task_name=x"))
            asked.append(await pages.get(f"/api/pro/workflows/w1/{name}?task_name={given}"))
        assert {answer.status_code for answer in asked} <= {400, 404}, given[:100]
        # Like River UI's API: nothing was cancelled.
        for verb in ("cancel", "retry"):
            answer = await pages.post(f"{api}/{verb}", json={})
            assert answer.status_code in (200, 400, 404)
            assert '"id"' not in answer.text
        for path in ("/w1?task=", "/w1?selected=", "?match=", "?match=kind:", "?after="):
            answer = await pages.get(f"/workflows{path}{given}")
            assert answer.status_code in (200, 400), (path, given[:100])
    cursor = await own.execute("select count(*) as number from river_job where state = 'cancelled'")
    assert await cursor.fetchone() == {"number": 0}


async def test_a_wait_with_everything_in_it(
    pages: httpx2.AsyncClient, own: Connection, driver: Driver
) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    terms: list[AnyTerm] = [
        SignalTerm(f"s{n}", f"{n} {hostile}", "payload.x", hostile, 10_000) for n in range(25)
    ]
    terms += [Term(f"t{n}", "true" + " || true" * 100, f"{n} {hostile}") for n in range(25)]
    client = Client(driver)
    made = client.workflows.new(hostile, id="w1")
    made.add(hostile, JsonArgs("ship", {}), wait=Wait(" && ".join(t.name for t in terms), terms))
    await made.insert()
    context = service_context(driver)
    await client.workflows.signal("w1", f"3 {hostile}", {"y": hostile})
    evaluator = WaitEvaluator(context, interval=timedelta(seconds=1))
    assert await evaluator.run_once() == 0
    evaluator.close()
    for path in ("/workflows", "/workflows/w1/signals", f"/workflows/w1?task={quote(hostile)}"):
        answer = await pages.get(path)
        assert answer.status_code == 200
        assert "<img src=x" not in answer.text
        assert "\u202e" not in answer.text
    task = parse(answer.text).one(id="wf-task")
    assert "0 of 10,000 signals" in task.text
    assert "there is no 'x'" in task.text
    assert sum("holds" in line.text for line in task.all("dd")) == 25


@pytest.mark.parametrize(
    "metadata",
    [
        {"workflow_id": 7, "task": ["x"], "deps": {"a": 1}},
        {"workflow_id": "w1" * 5_000, "task": "t" * 10_000, "deps": ["d"] * 2_000},
        {"workflow_id": "", "task": "", "deps": None},
        {"workflow_id": "w1", "task": HOSTILE, "deps": [HOSTILE], "river:workflow_wait": "[" * 900},
        {"workflow_id": "nowhere", "riverui:workflow": 7, "river:workflow_wait": {"terms": 7}},
    ],
)
async def test_metadata_that_only_look_like_a_task(
    pages: httpx2.AsyncClient, own: Connection, metadata: dict[str, Any]
) -> None:
    await workflow(own, DIAMOND, id="w1")
    job_id = await factory.job(own, "pending", metadata=metadata)
    answer = await pages.get(f"/jobs/{job_id}")
    assert answer.status_code == 200
    assert HOSTILE not in answer.text
    assert not parse(answer.text).all(id="workflow-title")
    page = await get(pages, "/workflows/w1")
    assert len(page.all("a", class_="wf-box")) == 4
    for path in ("", "/w1", "/w1/task-wait-diagnostics?task_name=ship"):
        assert (await pages.get(f"/api/pro/workflows{path}")).status_code in (200, 404)
