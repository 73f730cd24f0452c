"""The signals of a workflow on its pages: listed, and sent with the right for it."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from psycopg import AsyncConnection

from riverui import Client, create_app
from riverui.engine.args.job_args import JsonArgs
from riverui.features.workflows.engine.workflow import Workflow
from riverui.features.workflows.waits.domain import SignalTerm, Wait
from riverui.features.workflows.waits.engine.service import WaitEvaluator
from riverui.storage.interface import Driver
from riverui.web.auth.rights import EVERYTHING, Access
from tests.cases import cases
from tests.features.conftest import service_context
from tests.web.html import Element, get, parse
from tests.web.stand_ins import browser

Connection = AsyncConnection[dict[str, Any]]
ODD = "a/b?c=d&e <b>\u202e\x07é"
APPROVED = Wait("approved", [SignalTerm("approved", "approval", label="Approved")])


@pytest.fixture
async def ada(
    connection: Connection, driver: Driver, own_tables: None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a browser with all rights, on a database with the tables."""
    app = create_app(driver, authenticate=lambda _: Access(user="ada", rights=EVERYTHING))
    async with browser(app) as client:
        yield client
    await app.state.dashboard.close()


@pytest.fixture
async def order(ada: httpx2.AsyncClient, driver: Driver) -> Workflow:
    """Return a workflow with a task that waits for an approval, after another task."""
    workflow = Client(driver).workflows.new("Order 42", id="w1")
    workflow.add("ship", JsonArgs("ship", {}), wait=APPROVED)
    await workflow.insert()
    return workflow


def listed(page: Element) -> Sequence[tuple[str, str, str]]:
    """Return key, payload and sender of each signal of a page."""
    found = (
        page.one("table", class_="wf-signals").one("tbody")
        if page.all(class_="wf-signals")
        else None
    )

    def cell(row: Element, css: str) -> str:
        return " ".join(row.one(class_=css).text.split())

    return [
        (cell(row, "c-key"), cell(row, "c-payload"), cell(row, "c-by"))
        for row in (found.all("tr") if found else ())
    ]


def fields(page: Element) -> dict[str, str]:
    form = page.one(id="send").one("form")
    typed = {each.attributes["name"]: each.text.removeprefix("\n") for each in form.all("textarea")}
    return dict(form.fields()) | typed


async def rows(connection: Connection) -> list[dict[str, Any]]:
    cursor = await connection.execute(
        "select key, payload, source, attempt from riverui_workflow_signal order by id"
    )
    return await cursor.fetchall()


async def test_a_signal_is_sent_from_the_page_of_the_task_that_waits(
    ada: httpx2.AsyncClient, order: Workflow, connection: Connection, driver: Driver
) -> None:
    page = await get(ada, "/workflows/w1?task=ship")
    card = page.one(id="wf-signal-card")
    assert "No signals yet." in card.text
    form = await get(ada, card.link("approval"))
    filled = fields(form)
    assert (filled["key"], filled["task"], filled["attempt"]) == ("approval", "ship", "1")
    assert "ship waits for approval" in " ".join(form.one(id="send").text.split())
    address = form.one(id="send").one("form").attributes["action"]
    answer = await ada.post(address, data=filled | {"payload": '{"ok": true, "n": 1.50}'})
    assert (answer.status_code, answer.headers["location"]) == (303, "/workflows/w1?task=ship")
    page = await get(ada, answer.headers["location"])
    assert "Signal approval sent" in page.one(id="notices").text
    assert "ship waits for it and will check it." in page.one(id="notices").text
    assert listed(page) == [("approval", '{"n": 1.50, "ok": true}', "ada")]
    (row,) = await rows(connection)
    assert row["source"] == {"user": "ada"}
    # The same form sent twice makes one signal; a new form makes another.
    same = filled | {"payload": '{"n": 1.5, "ok": true}'}
    assert (await ada.post(address, data=same)).status_code == 303
    assert len(await rows(connection)) == 1
    # The page shows it before the wait is evaluated, and then counts it.
    task = page.one(id="wf-task")
    assert "has not been evaluated yet" in task.text
    evaluator = WaitEvaluator(
        service_context(driver),
        interval=timedelta(seconds=1),
    )
    await evaluator.run_once()
    evaluator.close()
    task = (await get(ada, "/workflows/w1?task=ship")).one(id="wf-task")
    assert "1 of 1 signals “approval”" in task.text
    assert "has not been evaluated yet" not in task.text


async def test_what_is_wrong_is_told_and_nothing_typed_is_lost(
    ada: httpx2.AsyncClient, order: Workflow, driver: Driver, connection: Connection
) -> None:
    await Client(driver).workflows.signal("w1", "approval", 7, idempotency_key="taken")
    with cases() as case:
        for given, status, words, field in (
            ({"key": ""}, 400, "key is a text of 1 to 200 characters", "key"),
            ({"key": "k" * 201}, 400, "key is a text of 1 to 200 characters", "key"),
            ({"payload": '{"ok": tru}'}, 400, "payload cannot be stored", "payload"),
            ({"payload": "[" * 5_000}, 400, "payload cannot be stored", "payload"),
            ({"payload": '"\\u0000"'}, 400, "NUL", "payload"),
            ({"payload": '"\\ud800"'}, 400, "payload cannot be stored", "payload"),
            ({"payload": json.dumps("x" * 300_000)}, 400, "more than the 300,000", "payload"),
            ({"idempotency_key": "i" * 201}, 400, "idempotency key is a text", "idempotency_key"),
            ({"idempotency_key": "taken"}, 409, "has the idempotency key", "idempotency_key"),
            ({"attempt": "7"}, 409, "is in attempt 1, not in attempt 7", ""),
        ):
            with case((str(given)[:60], words)):
                typed = {
                    "key": "approval",
                    "payload": '{"ok":\n  true}',
                    "task": "ship",
                    "once": "x",
                } | given
                answer = await ada.post("/workflows/w1/signals", data=typed)
                assert answer.status_code == status, answer.text[:500]
                page = parse(answer.text)
                assert words in page.one(id="signal-problem").text
                again = fields(page)
                assert again["key"] == typed["key"]
                assert f">\n{html.escape(typed['payload'])}</textarea>" in answer.text.replace(
                    "&#34;", "&quot;"
                )
                assert again["idempotency_key"] == given.get("idempotency_key", "")
                assert (again["task"], again["attempt"]) == ("ship", "1")
                marked = [each.attributes["name"] for each in page.all(aria_invalid="true")]
                assert marked == ([field] if field else [])
                assert len(await rows(connection)) == 1


async def test_a_form_that_was_sent_can_send_another_once_that_is_meant(
    ada: httpx2.AsyncClient, order: Workflow, connection: Connection
) -> None:
    filled = fields(await get(ada, "/workflows/w1/signals")) | {"key": "approval"}
    assert (await ada.post("/workflows/w1/signals", data=filled)).status_code == 303
    answer = await ada.post("/workflows/w1/signals", data=filled | {"payload": "7"})
    assert answer.status_code == 409
    assert "Send again for one more." in answer.text
    again = fields(parse(answer.text))
    assert (await ada.post("/workflows/w1/signals", data=again)).status_code == 303
    assert [row["payload"] for row in await rows(connection)] == [None, 7]


async def test_bodies_that_are_enormous_or_no_forms_are_refused_in_words(
    ada: httpx2.AsyncClient, order: Workflow, connection: Connection
) -> None:
    huge = await ada.post("/workflows/w1/signals", data={"key": "k", "payload": "1" * 10_000_000})
    assert huge.status_code == 413
    assert "larger than" in huge.text
    form = await ada.post("/workflows/w1/signals", json={"key": "k"})
    assert form.status_code == 400
    wrong = await ada.post("/workflows/w1/signals", data={"key": "k", "attempt": "x"})
    assert wrong.status_code == 400
    assert (await ada.post("/workflows/nowhere/signals", data={"key": "k"})).status_code == 404
    assert await rows(connection) == []


async def test_signals_are_listed_by_attempt_and_key_and_paged(
    ada: httpx2.AsyncClient, order: Workflow, connection: Connection
) -> None:
    await connection.execute(
        "insert into riverui_workflow_signal (workflow_id, attempt, key, payload)"
        " select 'w1', 1, case when n % 2 = 0 then 'even' else 'odd' end, to_jsonb(n)"
        " from generate_series(1, 120) n"
    )
    await connection.execute("update riverui_workflow set attempt = 2 where id = 'w1'")
    page = await get(ada, "/workflows/w1/signals")
    assert listed(page) == []
    assert page.link("Attempt 1") == "/workflows/w1/signals?attempt=1"
    found, path = [], "/workflows/w1/signals?attempt=1"
    for size in (50, 50, 20):
        page = await get(ada, path)
        assert len(listed(page)) == size
        found += [int(payload) for _, payload, _ in listed(page)]
        links = [each.attributes["href"] for each in page.all("a") if "Earlier" in each.text]
        path = links[0] if links else ""
    assert (found, path) == ([*range(120, 0, -1)], "")
    page = await get(ada, "/workflows/w1/signals?attempt=1&key=odd")
    assert [payload for _, payload, _ in listed(page)][:2] == ["119", "117"]
    for wrong in (
        "attempt=x",
        "before=-1",
        "before=1e9",
        "page=2",
        "key=%00",
        "attempt=" + "9" * 30,
    ):
        assert (await ada.get(f"/workflows/w1/signals?{wrong}")).status_code == 400, wrong
    for fine in ("attempt=99", "before=9223372036854775807", "key=none"):
        assert listed(await get(ada, f"/workflows/w1/signals?{fine}")) == [], fine
    await get(ada, "/workflows/nowhere/signals", 404)


async def test_odd_and_enormous_signals_are_shown_as_what_they_are(
    ada: httpx2.AsyncClient, order: Workflow, driver: Driver, connection: Connection
) -> None:
    client = Client(driver)
    hostile = "<script>alert(1)</script>\u202e"
    await client.workflows.signal("w1", hostile, {hostile: hostile}, source={"by": hostile})
    await client.workflows.signal("w1", ODD, hostile * 100, source={"user": hostile, "ip": "::1"})
    await client.workflows.signal("w1", "big", "x" * 900_000)
    for n in range(120):
        await client.workflows.signal("w1", f"key {n:03}")
    for path in ("/workflows/w1", "/workflows/w1?task=ship", "/workflows/w1/signals"):
        answer = await ada.get(path)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        assert len(answer.text) < 300_000
    page = await get(ada, "/workflows/w1/signals")
    assert "Signals with the first 100 keys" in page.text
    page = await get(ada, "/workflows/w1/signals?key=big")
    ((key, payload, by),) = listed(page)
    assert (key, payload, by) == ("big", "900,006 bytes, too large for a list", "–")
    (odd,) = listed(await get(ada, f"/workflows/w1/signals?key={quote(ODD)}"))
    assert "::1" in odd[2]
    assert odd[0].startswith("a/b?c=d&e <b>")


async def test_who_may_only_look_sees_signals_and_no_form(
    reader: httpx2.AsyncClient, order: Workflow, driver: Driver
) -> None:
    await Client(driver).workflows.signal("w1", "approval", {"ok": True})
    page = await get(reader, "/workflows/w1/signals")
    assert len(listed(page)) == 1
    assert not page.all(id="send")
    card = (await get(reader, "/workflows/w1")).one(id="wf-signal-card")
    assert "Send…" not in card.text
    assert len(listed(card)) == 1
    assert "ship waits for approval" in " ".join(card.text.split())
    answer = await reader.post("/workflows/w1/signals", data={"key": "approval"})
    assert answer.status_code == 403


async def test_workflows_without_waits_and_signals_have_no_card(
    ada: httpx2.AsyncClient, driver: Driver
) -> None:
    workflow = Client(driver).workflows.new("plain", id="w2")
    workflow.add("a", JsonArgs("a", {}))
    await workflow.insert()
    assert not (await get(ada, "/workflows/w2")).all(id="wf-signal-card")
    await get(ada, "/workflows/w2/signals")


async def test_without_their_table_it_is_said_which_migration_lacks(
    ada: httpx2.AsyncClient, order: Workflow, connection: Connection
) -> None:
    await connection.execute("drop table riverui_workflow_signal")
    assert not (await get(ada, "/workflows/w1?task=ship")).all(id="wf-signal-card")
    answer = await ada.get("/workflows/w1/signals")
    assert answer.status_code == 404
    assert "the tables of riverui" in answer.text
    assert (await ada.post("/workflows/w1/signals", data={"key": "k"})).status_code == 404
