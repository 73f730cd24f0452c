"""The pages of workflows: the list, the graph, the selected task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import Client, create_app
from riverui.engine.args.job_args import JsonArgs
from riverui.features.workflows.waits.domain import AnyTerm, SignalTerm, Term, TimerTerm, Wait
from riverui.features.workflows.waits.engine.service import WaitEvaluator
from riverui.storage.interface import Driver
from tests import factory
from tests.drivers import connect
from tests.features.conftest import service_context
from tests.own_tables import OWN_TABLES
from tests.web.html import Element, get, parse
from tests.web.stand_ins import browser
from tests.workflows import DIAMOND, fan, workflow

Connection = AsyncConnection[dict[str, Any]]
HOSTILE = "<script>alert(1)</script>"


def names(page: Element) -> list[str]:
    return [
        row.one(class_="c-main").all("a")[0].text
        for row in page.one(id="workflows-list").one("tbody").all("tr")
    ]


async def test_the_list_tells_how_far_each_is(pages: httpx2.AsyncClient, own: Connection) -> None:
    await workflow(own, DIAMOND, id="w1", name="Order 42")
    await workflow(own, {"a": ("discarded", ()), "b": ("cancelled", ("a",))}, id="w2")
    page = await get(pages, "/workflows")
    assert names(page) == ["w2", "Order 42"]
    second = page.one(id="workflow-2")
    assert second.one(class_="c-status").text == "active"
    assert second.one(class_="c-progress").one("svg").attributes["aria-label"] == (
        "2 completed, 1 pending, 1 running"
    )
    assert "2 of 4 done" in second.text
    first = page.one(id="workflow-1")
    assert (first.one(class_="c-status").text, "2 failed" in first.text) == ("failed", True)
    assert second.link("Order 42") == "/workflows/w1"


async def test_the_list_is_searched_filtered_and_paged(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    for n in range(23):
        state = "completed" if n % 2 else "running"
        await workflow(own, {"a": (state, ())}, id=f"w{n:02}", name=f"Order {n}")
    page = await get(pages, "/workflows")
    assert names(page)[:2] == ["Order 22", "Order 21"]
    older = await get(pages, page.link("Older"))
    assert names(older) == ["Order 2", "Order 1", "Order 0"]
    assert older.link("First") == "/workflows"
    found = await get(pages, "/workflows?match=order+1&state=active")
    assert names(found) == [f"Order {n}" for n in (18, 16, 14, 12, 10)]
    assert found.link("Ended") == "/workflows?match=order+1&state=inactive"
    assert names(await get(pages, "/workflows?match=kind:step"))[0] == "Order 22"
    nothing = await get(pages, "/workflows?match=kind:other")
    assert "No such workflow" in nothing.text
    done = await get(pages, "/workflows?state=completed&match=order+1")
    assert names(done)[:2] == ["Order 19", "Order 17"]
    assert done.link("Failed") == "/workflows?match=order+1&state=failed"
    assert "No workflow is failed" in (await get(pages, "/workflows?state=failed")).text
    # As in River UI's own addresses.
    assert (await pages.get("/workflows?limit=40&state=inactive")).status_code == 200
    for wrong in ("state=some", "sort=name", "state=active&state=inactive"):
        assert (await pages.get(f"/workflows?{wrong}")).status_code == 400


async def test_without_workflows_it_says_how_one_is_made(pages: httpx2.AsyncClient) -> None:
    page = await get(pages, "/workflows")
    assert "No workflows yet" in page.text
    assert 'client.workflows.new(name="Order 42")' in page.text


async def test_the_navigation_has_them_where_there_is_a_table(
    app: Starlette, connection: Connection
) -> None:
    async with browser(app) as client:
        assert not (await get(client, "/")).all("a", href="/workflows")
        answer = await client.get("/workflows")
        assert answer.headers["location"] == "/jobs"
        page = await get(client, "/jobs")
        assert "the tables of riverui" in page.one(id="notices").text
        await connection.execute(OWN_TABLES)
        app.state.dashboard.own_tables.ask_again()
        assert (await get(client, "/")).all("a", href="/workflows")
        assert (await client.get("/workflows")).status_code == 200


async def test_a_workflow_is_drawn(pages: httpx2.AsyncClient, own: Connection) -> None:
    made = await workflow(own, DIAMOND, id="w1", name="Order 42")
    page = await get(pages, "/workflows/w1")
    boxes = page.all("a", class_="wf-box")
    assert [box.one(class_="wf-name").text for box in boxes] == ["charge", "pack", "read", "ship"]
    assert boxes[1].attributes["href"] == "/workflows/w1?task=pack"
    assert boxes[1].attributes["id"] == f"task-{made['pack']}"
    assert "s-running" in boxes[1].attributes["class"]
    assert boxes[3].one("title").text == "ship: pending, waits for 1 task"
    assert len(page.all("path", class_="wf-line")) == 4
    listed = page.one(id="wf-list").one("tbody").all("tr")
    assert [row.all("a")[0].text for row in listed] == ["read", "charge", "pack", "ship"]
    assert page.one(id="workflow").attributes["data-final"] == "0"
    await get(pages, "/workflows/nowhere", 404)


async def test_the_task_that_is_looked_at(pages: httpx2.AsyncClient, own: Connection) -> None:
    made = await workflow(own, DIAMOND, id="w1", name="Order 42")
    for address in ("task=ship", f"selected={made['ship']}"):
        page = await get(pages, f"/workflows/w1?{address}")
        task = page.one(id="wf-task")
        assert task.one("h3").text.endswith("ship")
        assert "It waits for pack (running)." in task.text
        assert task.link(f"#{made['ship']}") == f"/jobs/{made['ship']}"
        assert task.link("pack") == "/workflows/w1?task=pack"
        (box,) = page.all("a", class_="on")
        assert box.attributes["aria-current"] == "true"
    assert "Waits for 2 tasks" in task.text
    assert "waits for it" not in task.text
    assert "no such task" in (await get(pages, "/workflows/w1?task=x")).one(id="wf-task").text


async def test_like_tasks_are_one_box(pages: httpx2.AsyncClient, own: Connection) -> None:
    await fan(own, 998, id="fan", name="Scan")
    page = await get(pages, "/workflows/fan")
    boxes = page.all("a", class_="wf-box")
    assert [box.one(class_="wf-name").text for box in boxes] == ["join", "998 × page", "split"]
    assert boxes[1].one("title").text == "998 × page: 798 of 998 done, 1 failed"
    each = await get(pages, page.link("Each task"))
    assert len(each.all("a", class_="wf-box")) == 1_000
    one = await get(pages, "/workflows/fan?task=page-0997")
    task = one.one(id="wf-task")
    assert "998 × page" in task.text
    assert task.one("details").all("a")[0].text == "page-0997"
    assert len(one.all("a", class_="on")) == 1
    further = await get(pages, page.link("Further"))
    assert "101–200 of 1,000" in further.one(id="wf-list").text
    failed = await get(pages, page.link("Discarded"))
    assert [row.all("a")[0].text for row in failed.one(id="wf-list").one("tbody").all("tr")] == [
        "page-0997"
    ]


async def test_names_out_of_jobs_are_never_markup(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    odd = ["' onload='x", '"><img src=x>', "\u202eback", "שלום", "n" * 200, "a/b?c#d&e"]
    tasks: dict[str, tuple[str, list[str]]] = {HOSTILE: ("completed", [])}
    tasks |= {name: ("pending", [HOSTILE]) for name in odd}
    identity = '../"><b>/\n~'
    await workflow(
        own,
        tasks,
        id=identity,
        name=HOSTILE,
        jobs={name: {"kind": HOSTILE} for name in tasks},
    )
    found = await get(pages, "/workflows")
    address = found.one(id="workflow-1").all("a")[0].attributes["href"]
    for name in tasks:
        answer = await pages.get(f"{address}?task={quote(name)}")
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        assert "\u202e" not in answer.text
        page = parse(answer.text)
        assert not [each for each in page.walk() if "onload" in each.attributes]
        assert len(page.all("a", class_="on")) == 1
    for box in page.all("a", class_="wf-box"):
        link = await get(pages, box.attributes["href"])
        assert len(link.all("a", class_="on")) == 1


async def test_links_lead_through_a_wide_graph(pages: httpx2.AsyncClient, own: Connection) -> None:
    chain = {
        f"s{n:02}": ("completed" if n < 20 else "pending", [f"s{n - 1:02}"] if n else [])
        for n in range(25)
    }
    made = await workflow(own, chain, id="w")
    page = await get(pages, "/workflows/w")
    places = page.one("nav", aria_label="Go to").all("a")
    assert [(link.text, link.attributes["href"]) for link in places] == [
        ("first pending", f"#task-{made['s20']}"),
        ("first completed", f"#task-{made['s00']}"),
    ]
    assert not (await get(pages, "/workflows/w?zoom=fit")).all("nav", aria_label="Go to")


async def test_addresses_that_make_no_sense(pages: httpx2.AsyncClient, own: Connection) -> None:
    await workflow(own, DIAMOND, id="w1")
    for wrong in ("zoom=7", "show=some", "each=2", "from=x", "from=-1", "page=2"):
        assert (await pages.get(f"/workflows/w1?{wrong}")).status_code == 400, wrong
    for fine in ("zoom=fit", "zoom=150", "show=running", "from=900", "selected=x"):
        assert (await pages.get(f"/workflows/w1?{fine}")).status_code == 200, fine


async def test_edges_that_make_no_sense_are_drawn_all_the_same(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    await workflow(own, {"a": ("pending", ["b", "a", "gone"]), "b": ("pending", ["a"])}, id="w")
    page = await get(pages, "/workflows/w?task=a")
    assert len(page.all("a", class_="wf-box")) == 2


async def test_a_workflow_whose_jobs_are_gone(pages: httpx2.AsyncClient, own: Connection) -> None:
    await workflow(own, {"a": ("completed", ()), "b": ("running", ("a",))}, id="w")
    await own.execute("delete from river_job")
    page = await get(pages, "/workflows/w?task=a")
    assert "was removed" in page.one(id="wf-task").text
    (second,) = (box for box in page.all("a", class_="wf-box") if "s-deleted" in str(box))
    assert second.one("title").text == "b: deleted, deleted"


async def test_a_job_shows_its_workflow(pages: httpx2.AsyncClient, own: Connection) -> None:
    made = await workflow(own, DIAMOND, id="w1", name=HOSTILE)
    page = await get(pages, f"/jobs/{made['ship']}")
    card = page.one("section", aria_labelledby="workflow-title")
    assert card.link(HOSTILE) == "/workflows/w1?task=ship"
    assert card.link("pack") == f"/jobs/{made['pack']}"
    assert "It waits for “pack” (running)" in page.one(class_="job-why").text
    other = await factory.job(own, metadata={"workflow_id": "w1"})
    assert not (await get(pages, f"/jobs/{other}")).all(id="workflow-title")


async def states(own: Connection) -> dict[str, str]:
    cursor = await own.execute(
        "select metadata->>'task' as task, state::text as state from river_job order by id"
    )
    return {row["task"]: row["state"] for row in await cursor.fetchall()}


async def test_a_workflow_is_cancelled_once_that_is_confirmed(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    await workflow(own, DIAMOND, id="a/b", name="Order 42")
    page = await get(pages, "/workflows/~a%252Fb")
    (button,) = (each for each in page.all("form") if each.text == "Cancel 2 tasks…")
    address = button.attributes["action"]
    asked = parse((await pages.post(address, data=dict(button.fields()))).text)
    assert (await states(own))["ship"] == "pending"
    ask = asked.one("form", class_="ask")
    assert "2 tasks of 4 have not ended and are cancelled." in ask.text
    assert "1 task of them runs and is asked to stop" in ask.text
    answer = await pages.post(address, data=dict(ask.fields()))
    assert answer.status_code == 303
    page = await get(pages, answer.headers["location"])
    assert "1 task of Order 42 cancelled" in page.one(id="notices").text
    assert "1 running task was asked to stop" in page.one(id="notices").text
    assert (await states(own))["ship"] == "cancelled"


FAILED = {
    "read": ("completed", ()),
    "charge": ("discarded", ("read",)),
    "pack": ("completed", ("read",)),
    "ship": ("cancelled", ("charge", "pack")),
    "mail": ("completed", ("charge",)),
}


async def test_a_retry_says_what_would_run_again_and_that_runs(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    await workflow(own, FAILED, id="w", name="Order 41")
    page = await get(pages, "/workflows/w")
    lead = page.one("p", class_="lead")
    assert "charge failed; 1 task was cancelled because of it. 3 of 5 tasks done" in lead.text
    assert lead.link("charge") == "/workflows/w?task=charge"
    assert "cancelled because of charge" in page.one(id="wf-list").text
    (row,) = (await get(pages, "/workflows")).one(id="workflows-list").one("tbody").all("tr")
    assert row.link("3 of 5 done, 1 failed, 1 cancelled because of it") == (
        "/workflows/w?selected=failed"
    )
    selected = await get(pages, "/workflows/w?selected=failed")
    assert selected.one(id="task-title").text.endswith("charge")
    (button,) = (each for each in page.all("form") if each.text == "Retry 2 tasks…")
    asked = parse((await pages.post("/workflows/w/retry", data=dict(button.fields()))).text)
    modes = {
        label.one("input").attributes["value"]: label.one(class_="wf-mode-counts").text
        for label in asked.all("label", class_="wf-mode")
    }
    assert modes == {
        mode: f"{count} tasks run again: 1 at once, {count - 1} once others of them have completed"
        for mode, count in (("failed_only", 2), ("failed_and_downstream", 3), ("all", 5))
    }
    sent = dict(asked.one("form", class_="ask").fields())
    assert (await pages.post("/workflows/w/retry", data=sent | {"mode": "x"})).status_code == 400
    answer = await pages.post("/workflows/w/retry", data=sent | {"mode": "failed_only"})
    assert answer.status_code == 303, answer.text
    found = list((await states(own)).values())
    assert found == ["completed", "available", "completed", "pending", "completed"]
    again = await get(pages, "/workflows/w")
    assert "2 tasks of Order 41 run again" in again.one(id="notices").text
    assert "attempt 2" in again.text


async def test_an_active_workflow_is_not_retried(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    await workflow(own, DIAMOND, id="w")
    answer = await pages.post("/workflows/w/retry", data={"confirmed": "1", "mode": "all"})
    assert answer.status_code == 400
    assert (await states(own))["pack"] == "running"
    assert (await pages.post("/workflows/x/cancel", data={"next": ""})).status_code == 404


async def test_who_may_only_look_is_offered_nothing(
    reader: httpx2.AsyncClient, own: Connection
) -> None:
    await workflow(own, DIAMOND, id="w")
    page = await get(reader, "/workflows/w")
    assert not page.all("form", class_="job-actions")
    assert (await reader.post("/workflows/w/cancel", data={"next": ""})).status_code == 403


async def test_what_a_task_waits_for_of_its_own(
    pages: httpx2.AsyncClient, own: Connection, driver: Driver
) -> None:
    client, evaluator = (
        Client(driver),
        WaitEvaluator(
            service_context(driver),
            interval=timedelta(seconds=1),
        ),
    )
    made = client.workflows.new("Order 42", id="w1")
    terms: list[AnyTerm] = [
        SignalTerm("approved", f"key {HOSTILE}", "payload.ok", f"Approved {HOSTILE}", 2),
        TimerTerm("late", after=timedelta(hours=1), label="Nobody answered"),
        Term("odd", "workflow.name == 7"),
        Term("named", "workflow.name == 'Order 42'"),
    ]
    made.add("ship", JsonArgs("ship", {}), wait=Wait("(approved && named) || late || odd", terms))
    await made.insert()

    async def fields() -> dict[str, str]:
        task = (await get(pages, "/workflows/w1?task=ship")).one(id="wf-task")
        assert "Its own wait: waiting" in task.text
        return {
            line.one("dt").text.strip(): " ".join(line.one("dd").text.split())
            for line in task.all("dl")[-1].all("div")
        }

    assert (await fields())["Nobody answered"] == "fires"
    await client.workflows.signal("w1", f"key {HOSTILE}", {"ok": True})
    await client.workflows.signal("w1", f"key {HOSTILE}", {})
    await evaluator.run_once()
    found = await fields()
    assert found[f"Approved {HOSTILE}"] == f"1 of 2 signals “key {HOSTILE}”"
    assert found["Nobody answered"].startswith("fires in ")
    assert (found["odd"], found["named"]) == ("does not hold", "holds")
    assert found["Over when"] == "(approved && named) || late || odd"
    assert "there is no 'ok'" in found["Error"]
    evaluator.close()
    task = (await get(pages, "/workflows/w1?task=ship")).one(id="wf-task")
    assert not task.all("script")
    await own.execute("update riverui_workflow_task set wait = '[]'")
    task = (await get(pages, "/workflows/w1?task=ship")).one(id="wf-task")
    assert "It is not the wait of a task" in task.text


async def test_without_a_database_nobody_is_told_that_a_table_is_missing() -> None:
    nowhere = connect("postgres://nobody@127.0.0.1:1/none")
    async with browser(create_app(nowhere, no_auth=True)) as client:
        for path in ("/workflows", "/workflows/w1"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert "The database cannot be reached" in answer.text
    await nowhere.close()
