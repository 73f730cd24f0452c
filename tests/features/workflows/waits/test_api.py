"""Signals and waits of riverui's own workflows through the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import httpx2
import pytest
from psycopg import AsyncConnection

from riverui import create_app
from riverui.engine.client import Client
from riverui.features.workflows.engine.workflow import Workflow
from riverui.features.workflows.waits.domain import SignalTerm, Term, TimerTerm, Wait
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.web.auth.rights import READ_ONLY, Access
from tests.cases import cases
from tests.pro_tables import PRO_TABLES
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate
from tests.web.stand_ins import browser

WAIT = Wait(
    "(approved && small) || late",
    [
        SignalTerm("approved", "approval", "payload.ok", "Approved", 2),
        Term("small", "deps['check'].output.amount < 100"),
        TimerTerm("late", after=timedelta(hours=1)),
    ],
)


@dataclass
class Step:
    kind: ClassVar[str] = "step"


@pytest.fixture
async def ada(driver: Driver) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of the API with a name."""
    app = create_app(driver, authenticate=lambda connection: Access(user="ada <b>"))
    async with browser(app, base_url="http://river.test/api/") as client:
        yield client
    await app.state.dashboard.close()


@pytest.fixture
async def workflow(own_tables: None, driver: Driver) -> Workflow:
    """Return a workflow with a task that waits."""
    workflow = Client(driver).workflows.new("Order 42", id="w")
    check = workflow.add("check", Step())
    workflow.add("a/b", Step(), deps=[check], wait=WAIT)
    await workflow.insert()
    return workflow


async def test_a_signal_is_sent_and_listed(
    workflow: Workflow, ada: httpx2.AsyncClient, get: Get
) -> None:
    body = '{"key": "approval", "payload": {"ok": true, "n": 1970670598291982290, "f": 1.50}}'
    answer = await ada.post("workflows/w/signals", content=body)
    assert answer.status_code == 200, answer.text
    validate("Signal", answer.json())
    sent = answer.json()
    assert sent["payload"] == {"ok": True, "n": 1970670598291982290, "f": 1.5}
    assert (sent["key"], sent["attempt"], sent["source"]) == ("approval", 1, {"user": "ada <b>"})
    again = {"key": "approval", "idempotency_key": "7", "source": {"user": "eve", "ip": "::1"}}
    ids = [(await ada.post("workflows/w/signals", json=again)).json()["id"] for _ in range(2)]
    assert ids[0] == ids[1] == sent["id"] + 1
    found = await get("pro/workflows/w/task-signals", task_name="a/b")
    validate("Signals", found)
    assert [row["id"] for row in found["signals"]] == [ids[0], sent["id"]]
    assert found["signals"][0]["source"] == {"ip": "::1", "user": "ada <b>"}
    page = await get("pro/workflows/w/task-signals", task_name="a/b", desc="false", limit=1)
    assert (page["has_more"], page["next_cursor_id"]) == (True, sent["id"])
    named = await get("pro/workflows/w/task-signals", task_name="a/b", term_name="approved")
    assert len(named["signals"]) == 2
    for status, params in (
        (400, {}),
        (404, {"task_name": "unknown"}),
        (400, {"task_name": "check"}),
        (400, {"task_name": "a/b", "key": "undeclared"}),
        (400, {"task_name": "a/b", "term_name": "late"}),
        (400, {"task_name": "a/b", "scope": "evidence"}),
    ):
        await get("pro/workflows/w/task-signals", status, **params)
    await get("pro/workflows/nowhere/task-signals", 404, task_name="a/b")


async def test_what_is_wrong_with_a_signal_is_told(
    workflow: Workflow, ada: httpx2.AsyncClient
) -> None:
    there = {"key": "there", "idempotency_key": "there"}
    assert (await ada.post("workflows/w/signals", json=there)).status_code == 200
    with cases() as case:
        for body, status, words in (
            ("{}", 400, "`key` is missing"),
            ('{"key": 7}', 400, "`key` is missing"),
            ('{"key": ""}', 400, "`key` is missing"),
            ('{"key": "' + "k" * 201 + '"}', 400, "1 to 200 characters"),
            ('{"key": "\\u0000"}', 400, "cannot store"),
            ('{"key": "\\ud800"}', 400, ""),
            ('{"key": "k", "payload": "\\u0000"}', 400, "NUL"),
            ('{"key": "k", "payload": "\\ud800"}', 400, "not valid JSON"),
            ('{"key": "k", "payload": ' + "[" * 600 + "]" * 600 + "}", 400, "nested too deeply"),
            ('{"key": "k", "payload": 1e}', 400, "not valid JSON"),
            ('{"key": "k", "payload": "' + "x" * 1_000_001 + '"}', 400, "may take 1,000,000 bytes"),
            ('{"key": "k", "payload": "' + "x" * 10_000_000 + '"}', 413, ""),
            ('{"key": "k", "source": 7}', 400, "`source` must be a JSON object"),
            (
                '{"key": "k", "source": {"x": "' + "x" * 10_000 + '"}}',
                400,
                "source may take 10,000",
            ),
            ('{"key": "k", "attempt": 0}', 400, "`attempt` must be"),
            ('{"key": "k", "attempt": 2}', 409, "is in attempt 1"),
            ('{"key": "k", "attempt": 99999999999}', 400, "`attempt` must be"),
            ('{"key": "other", "idempotency_key": "there"}', 409, "'there'"),
        ):
            with case((body[:40], words)):
                answer = await ada.post("workflows/w/signals", content=body)
                assert answer.status_code == status, answer.text[:500]
                assert words in answer.json()["message"]
                text = await ada.post(
                    "workflows/w/signals", content='{"key": "k", "payload": "\\\\u0000 ä"}'
                )
                assert text.json()["payload"] == "\\u0000 ä"


async def test_signals_need_a_workflow_a_right_and_the_table(
    workflow: Workflow, driver: Driver, ada: httpx2.AsyncClient
) -> None:
    assert (await ada.post("workflows/nowhere/signals", json={"key": "k"})).status_code == 404
    reads = create_app(driver, authenticate=lambda connection: Access(user="bob", rights=READ_ONLY))
    async with browser(reads, base_url="http://river.test/api/") as bob:
        assert (await bob.post("workflows/w/signals", json={"key": "k"})).status_code == 403
        path = "pro/workflows/w/task-signals?task_name=a/b"
        assert (await bob.get(path)).json()["signals"] == []
    await reads.state.dashboard.close()
    await migrate(driver, "down", line="riverui", target_version=8)
    # A dashboard caches for a minute that the tables exist, unless a statement fails.
    assert (await ada.post("workflows/w/signals", json={"key": "k"})).status_code == 503
    answer = await ada.post("workflows/w/signals", json={"key": "k"})
    assert answer.status_code == 501
    assert "need the tables of riverui" in answer.json()["message"]


async def test_what_a_task_waits_for_is_evaluated(
    workflow: Workflow,
    ada: httpx2.AsyncClient,
    get: Get,
    connection: AsyncConnection[Any],
) -> None:
    path = "pro/workflows/w/task-wait-diagnostics"
    found = await get(path, task_name="a/b")
    validate("Diagnostics", found)
    assert (found["phase"], found["workflow_attempt"]) == ("not_started", 1)
    assert found["inputs"]["deps"] == [
        {"available": False, "state": "available", "task_name": "check"}
    ]
    assert "there is no 'output'" in found["eval_error"]
    await connection.execute(
        "update river_job set state = 'completed', finalized_at = now(),"
        """ metadata = metadata || '{"output": {"amount": 7}}'"""
        " where metadata ->> 'task' = 'check'"
    )
    await connection.execute(
        "update riverui_workflow_task set state = 'completed', ended_at = now()"
        " where name = 'check'"
    )
    await connection.execute("update riverui_workflow_task set state = 'wait' where name = 'a/b'")
    for ok in (True, False, True):
        await ada.post("workflows/w/signals", json={"key": "approval", "payload": {"ok": ok}})
    before = await (await connection.execute("select * from riverui_workflow_task")).fetchall()
    found = await get(path, task_name="a/b")
    validate("Diagnostics", found)
    assert (found["phase"], found["eval_error"], found["truncated"]) == ("waiting", "", False)
    assert (found["signal_scan_count"], found["signal_scan_limit"]) == (3, 10_000)
    (check,) = found["inputs"]["deps"]
    assert (check["available"], check["state"]) == (True, "completed")
    assert found["inputs"]["signals"] == [{"included_count": 3, "key": "approval", "last_id": 3}]
    (timer,) = found["inputs"]["timers"]
    assert (timer["name"], timer["fired"]) == ("late", False)
    assert {term["name"]: term for term in found["terms"]} == {
        "approved": {
            "name": "approved",
            "matched_count": 2,
            "required_count": 2,
            "satisfied": True,
            "last_matched_id": 3,
        },
        "small": {"name": "small", "matched_count": 1, "required_count": 1, "satisfied": True},
        "late": {"name": "late", "matched_count": 0, "required_count": 1, "satisfied": False},
    }
    after = await (await connection.execute("select * from riverui_workflow_task")).fetchall()
    assert after == before
    await get(path, 404, task_name="unknown")
    await get(path, 404, task_name="check")
    await get("pro/workflows/nowhere/task-wait-diagnostics", 404, task_name="a/b")


async def test_beside_river_pros_tables_each_workflow_is_found_where_it_is(
    workflow: Workflow, ada: httpx2.AsyncClient, get: Get, connection: AsyncConnection[Any]
) -> None:
    await connection.execute(PRO_TABLES)
    await ada.post("workflows/w/signals", json={"key": "approval"})
    found = await get("pro/workflows/w/task-signals", task_name="a/b")
    assert len(found["signals"]) == 1
    await get("pro/workflows/nowhere/task-signals", 404, task_name="a/b")
