"""Moving jobs to another queue or priority: one job, ticked jobs, all that match."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.features.operations.runner import OPERATIONS
from tests.cases import cases
from tests.factory import Make
from tests.operations import idle
from tests.web.html import Element, parse

Htmx = Callable[..., dict[str, str]]
Connection = AsyncConnection[Any]


async def places(make: Make) -> dict[int, tuple[str, int]]:
    rows = await make.rows("select id, queue, priority from river_job order by id")
    return {row["id"]: (row["queue"], row["priority"]) for row in rows}


async def ask(client: AsyncClient, **data: Any) -> Element:
    """Return the form that the button of the list or of a job's page opens."""
    answer = await client.post("/jobs/move", data=data)
    assert answer.status_code == 200
    return parse(answer.text).one("form", class_="ask")


async def test_ticked_jobs_are_moved_without_scripts(client: AsyncClient, make: Make) -> None:
    await make.queue("mailers")
    await make.queue("Odd name")
    ids = [await make.job() for _ in range(2)]
    running = await make.job("running")
    form = await ask(client, ids=[str(n) for n in (*ids, running)], next="/jobs?q=kind:test_kind")
    assert "Move 3 jobs?" in form.text
    assert [option.attributes["value"] for option in form.one("datalist").all("option")] == [
        "mailers"
    ], "only names that a job may be moved to"
    choices = [option.attributes["value"] for option in form.one("select").all("option")]
    assert choices == ["", "1", "2", "3", "4"]
    data = {"ids": [str(n) for n in (*ids, running)], "confirmed": "1", "priority": "2"}
    data |= {"queue": "mailers", "next": dict(form.fields())["next"]}
    answer = await client.post(form.attributes["action"], data=data)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?q=kind:test_kind")
    text = parse((await client.get(answer.headers["location"])).text).one(id="notices").text
    assert "2 jobs moved to queue mailers, priority 2" in text
    assert f"1 skipped, still running: #{running}" in text
    assert "No client" not in text
    assert await places(make) == {
        **dict.fromkeys(ids, ("mailers", 2)),
        running: ("default", 1),
    }


async def test_a_queue_without_workers_warns(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    job_id = await make.job("scheduled")
    data = {"ids": str(job_id), "confirmed": "1", "queue": "nobody", "next": f"/jobs/{job_id}"}
    answer = await client.post("/jobs/move", data=data, headers=htmx("x", f"/jobs/{job_id}"))
    notice = parse(answer.text).one(class_="notice")
    assert "n-warning" in notice.attributes["class"]
    assert "1 job moved to queue nobody" in notice.text
    assert "No client has served queue nobody recently" in notice.text
    assert notice.link(f"Job {job_id}") == f"/jobs/{job_id}"
    # What was not moved is not warned about.
    answer = await client.post("/jobs/move", data=data, headers=htmx("x", f"/jobs/{job_id}"))
    text = parse(answer.text).one(class_="notice").text
    assert "No job was moved" in text
    assert "already there" in text
    assert "No client" not in text


async def test_the_form_warns_of_the_queue(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    job_id = await make.job()
    await make.queue("served")
    await make.queue("held", paused_at=datetime.now(UTC))
    form = await ask(client, ids=str(job_id))
    field = next(field for field in form.all("input") if field.attributes["name"] == "queue")
    assert field.attributes["hx-target"] == "#ask-caution"
    assert form.one(id="ask-caution").children == []
    address = field.attributes["hx-get"]
    for name, told in {
        "nobody": "No client has served queue nobody recently: jobs wait there until one does.",
        "held": "Queue held is paused: jobs wait there until it is resumed.",
        "served": "",
        "No name": "",
        "": "",
    }.items():
        answer = await client.get(address, params={"queue": name}, headers=htmx())
        assert answer.status_code == 200
        assert parse(answer.text).text == told
    assert await places(make) == {job_id: ("default", 1)}
    preview = parse((await client.get("/jobs/bulk?verb=move")).text)
    assert preview.one(id="ask-caution").children == []


async def test_invalid_places_move_nothing(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    job_id = await make.job()
    form = await ask(client, ids=str(job_id))
    assert form.attributes["hx-target"] == "#ask-problem"
    assert form.one(id="ask-problem").children == []
    with cases() as case:
        for given, told in (
            ({}, "Nothing would change: give a queue or a priority."),
            ({"queue": "Not a name"}, "The queue's name must be lower-case letters"),
            ({"priority": "5"}, "The priority must be a whole number from 1"),
            ({"queue": "<b>", "priority": "1"}, "The queue's name must be"),
        ):
            with case(given):
                data = {"ids": str(job_id), "confirmed": "1", **given}
                plain = await client.post("/jobs/move", data=data)
                assert plain.status_code == 400
                assert told in parse(plain.text).text
                answer = await client.post("/jobs/move", data=data, headers=htmx("ask-problem"))
                assert answer.status_code == 400
                assert (answer.headers["hx-retarget"], answer.headers["hx-reswap"]) == (
                    "#ask-problem",
                    "innerHTML",
                )
                assert told in parse(answer.text).text
                assert await places(make) == {job_id: ("default", 1)}


async def test_waiting_jobs_can_be_moved(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    for state in ("available", "pending", "retryable", "scheduled"):
        job_id = await make.job(state)
        page = parse((await client.get(f"/jobs/{job_id}")).text)
        button = page.one("button", data_verb="move")
        assert button.attributes["hx-target"] == "#dialog"
        assert button.attributes["formaction"] == "/jobs/move"
        answer = await client.post(
            "/jobs/move",
            data={"ids": str(job_id), "next": f"/jobs/{job_id}"},
            headers=htmx("dialog", f"/jobs/{job_id}"),
        )
        dialog = parse(answer.text)
        assert not dialog.all("html")
        assert f"Move job {job_id}?" in dialog.one("h2").text
        assert dialog.link("Go back") == f"/jobs/{job_id}"
    for state in ("running", "completed", "cancelled", "discarded"):
        page = parse((await client.get(f"/jobs/{await make.job(state)}")).text)
        assert not page.all("button", data_verb="move")


async def finished(app: Starlette) -> None:
    await idle(app.state.dashboard.get(OPERATIONS))


async def test_all_that_match(app: Starlette, client: AsyncClient, make: Make) -> None:
    mail = [await make.job(state, kind="mail") for state in ("available", "retryable")]
    there = await make.job(kind="mail", queue="slow", priority=4)
    spared = [await make.job("running", kind="mail"), await make.job(kind="ship")]
    answer = await client.get("/jobs/bulk?verb=move&q=kind:mail")
    form = parse(answer.text).one("form", class_="ask")
    assert "Move 3 jobs (2 available, 1 retryable)?" in form.text
    assert "running" not in form.one("dl").text
    data = dict(form.fields()) | {"queue": "slow", "priority": "4"}
    refused = await client.post(form.attributes["action"], data=data | {"queue": "!"})
    assert refused.status_code == 400
    assert await app.state.dashboard.get(OPERATIONS).list(limit=9) == []
    answer = await client.post(form.attributes["action"], data=data)
    await finished(app)
    page = parse((await client.get(answer.headers["location"])).text)
    assert "No client has served queue slow recently" in page.one(id="notices").text
    text = page.one(id="operation").text
    assert "2 jobs moved, 1 skipped" in text
    assert "QueueslowPriority4" in text
    assert f"1 already there #{there}" in text
    assert "→ queue slow, priority 4" in parse((await client.get("/operations")).text).text
    assert await places(make) == {
        **dict.fromkeys((*mail, there), ("slow", 4)),
        **dict.fromkeys(spared, ("default", 1)),
    }
