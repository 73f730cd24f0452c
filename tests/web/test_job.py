"""One job's page, its raw texts and its logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from httpx2 import AsyncClient
from starlette.applications import Starlette

from tests.cases import cases
from tests.factory import WORKER, Make, attempt_error
from tests.web.html import get, parse
from tests.web.made_figures import MadeFigures, figures, tally

Htmx = Callable[..., dict[str, str]]


async def test_the_page_tells_everything(client: AsyncClient, make: Make) -> None:
    job_id = await make.job(
        "retryable",
        kind="mail_send",
        queue="mailers",
        tags=["vip"],
        args='{"id": 9007199254740993, "price": 1.10}',
        metadata={
            "output": {"sent": True},
            "river:log": [{"attempt": 1, "log": "12:00 INFO connecting\n"}],
            "trace_id": "abc",
        },
        errors=[attempt_error(error="ConnectionResetError\nmore", trace="main.go:12")],
    )
    page = await get(client, f"/jobs/{job_id}")
    text = page.one(id="job").text
    for shown in (
        "mail_send",
        "9007199254740993",
        "1.10",
        "ConnectionResetError",
        "main.go:12",
        "INFO connecting",
        "sent",
        "trace_id",
        WORKER,
        "There is no leader at the moment",
        "No client has ever served",
    ):
        assert shown in text, shown
    assert "Log 1 line " in f"{text} "
    assert "1 lines" not in text
    links = {link.attributes["href"] for link in page.one(id="job").all("a")}
    assert {
        "/jobs?q=kind:mail_send",
        "/queues/mailers",
        "/jobs?q=tag:vip",
        f"/jobs?q=worker:{WORKER}",
    } <= links
    verbs = [
        button.attributes["data-verb"]
        for button in page.all("button")
        if "data-verb" in button.attributes
    ]
    assert verbs == ["retry", "cancel", "move", "delete"]


async def test_the_fragment(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    job_id = await make.job("running")
    fragment = parse((await client.get(f"/jobs/{job_id}", headers=htmx("job"))).text)
    assert not fragment.all("html")
    assert fragment.one(id="job").attributes["data-final"] == "0"
    ended = await make.job("completed")
    fragment = parse((await client.get(f"/jobs/{ended}", headers=htmx("job"))).text)
    assert fragment.one(id="job").attributes["data-final"] == "1"


async def test_total_and_running_time(client: AsyncClient, make: Make) -> None:
    now = datetime.now(UTC)
    ended = await make.job(
        "completed",
        created_at=now - timedelta(seconds=4.3),
        attempted_at=now - timedelta(seconds=3.2),
        finalized_at=now,
    )
    page = await get(client, f"/jobs/{ended}")
    attempt, completed = (page.one(class_=f"step-{name}") for name in ("attempt", "completed"))
    assert "3.2 s" in attempt.text
    assert "in total" not in attempt.text
    assert "4.3 s in total" in completed.text


async def test_a_reader_sees_no_verbs(reader: AsyncClient, make: Make) -> None:
    page = await get(reader, f"/jobs/{await make.job('retryable')}")
    assert not [button for button in page.all("button") if "data-verb" in button.attributes]


async def test_why_it_waits_and_why_it_looks_stuck(client: AsyncClient, make: Make) -> None:
    await make.queue("paused", paused_at=datetime.now(UTC))
    await make.leader()
    waiting = await make.job(queue="paused")
    page = await get(client, f"/jobs/{waiting}")
    assert "Its queue has been paused" in page.one(class_="job-why").text
    assert "Its queue has been paused" not in page.one(id="explain").text
    await make.queue("default")
    stuck = await make.job("running", attempted_at=datetime.now(UTC) - timedelta(hours=3))
    assert "running for 3 h" in (await get(client, f"/jobs/{stuck}")).one(class_="job-why").text
    well = await make.job("running")
    assert not (await get(client, f"/jobs/{well}")).all(class_="job-why")


async def test_each_fact_is_told_once(client: AsyncClient, make: Make) -> None:
    now = datetime.now(UTC)
    await make.queue("default")
    await make.leader()
    job = await make.job(
        "retryable",
        attempt=4,
        attempted_at=now - timedelta(minutes=5),
        scheduled_at=now + timedelta(minutes=7.5),
        errors=[
            {
                "at": f"2026-11-21T10:0{n}:00Z",
                "attempt": n,
                "error": "no route",
                "trace": "",
            }
            for n in range(1, 5)
        ],
    )
    text = " ".join((await get(client, f"/jobs/{job}")).one(id="job").text.split())
    assert "Attempt 4 of 25 failed, next run in 7 m" in text
    assert text.count("in 7 m") == 1
    assert text.count("no route") == 1
    assert "Attempts 1–3: the same error" in text


async def test_an_unknown_job_is_a_friendly_page(client: AsyncClient) -> None:
    with cases() as case:
        for path in ("/jobs/7", f"/jobs/{2**63}", "/jobs/7/raw/args", "/jobs/7/log/1"):
            with case(path):
                page = await get(client, path, 404)
                assert page.all("nav")
                assert "not found" in page.text


async def test_raw_texts(client: AsyncClient, make: Make) -> None:
    job_id = await make.job(
        "discarded",
        args='{"id": 12345678901234567890, "html": "</script>"}',
        metadata={"output": [1], "a": 1},
    )
    answer = await client.get(f"/jobs/{job_id}/raw/args")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "12345678901234567890" in answer.text
    assert (await client.get(f"/jobs/{job_id}/raw/output")).json() == [1]
    assert (await client.get(f"/jobs/{job_id}/raw/metadata")).json()["a"] == 1
    assert len((await client.get(f"/jobs/{job_id}/raw/errors")).json()) == 25
    assert json.loads((await client.get(f"/jobs/{job_id}/raw/job")).text)["kind"] == "test_kind"
    assert (await client.get(f"/jobs/{job_id}/raw/kind")).status_code == 404
    plain = await make.job()
    assert (await client.get(f"/jobs/{plain}/raw/output")).status_code == 404


async def test_long_logs_are_cut_on_the_page(client: AsyncClient, make: Make) -> None:
    log = "".join(f"line {n} {'x' * 80}\n" for n in range(24_000))
    assert len(log) > 2_000_000
    job_id = await make.job(
        "completed",
        metadata={"river:log": [{"attempt": 1, "log": "first\n"}, {"attempt": 1, "log": log}]},
    )
    answer = await client.get(f"/jobs/{job_id}")
    assert answer.status_code == 200
    assert len(answer.text) < 1_500_000
    assert "line 23999" in answer.text
    whole = await client.get(f"/jobs/{job_id}/log/1")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.text == "first\n" + log
    assert (await client.get(f"/jobs/{job_id}/log/2")).status_code == 404
    assert (await client.get(f"/jobs/{job_id}/log/{2**64}")).status_code == 404


async def test_negative_ids(client: AsyncClient, make: Make) -> None:
    for job_id in (-(2**63), *range(-105, 5)):
        await make.job(id=job_id)
    seen: list[int] = []
    place = "/jobs?state=available&order=-id"
    while place:
        listed = await get(client, place)
        seen += [
            int(row.attributes["id"].removeprefix("job-"))
            for row in listed.all("tbody", class_="job")
        ]
        following = [link for link in listed.all("a") if link.text == "Next"]
        place = following[0].attributes["href"] if following else ""
    assert seen == [*range(4, -106, -1), -(2**63)]
    for job_id in (-(2**63), -5, 0):
        assert (await get(client, f"/jobs/{job_id}")).one(id="job")
        assert (await client.get(f"/jobs/{job_id}/raw/job")).json()["id"] == job_id
        assert len((await get(client, f"/jobs?q=id:{job_id}")).all("tbody", class_="job")) == 1
        answer = await client.post("/jobs/cancel", data={"ids": str(job_id), "confirmed": "1"})
        assert answer.status_code == 303
        assert "cancelled" in (await get(client, f"/jobs/{job_id}")).one(id="job").text


async def test_a_negative_id_that_no_job_has_is_not_there(client: AsyncClient) -> None:
    with cases() as case:
        for path in ("/jobs/-200", "/jobs/-200/raw/job", "/jobs/-200/log/1", "/jobs/1/log/-1"):
            with case(path):
                assert "There is nothing at this address" not in (await get(client, path, 404)).text


async def test_usual_durations_are_shown(app: Starlette, client: AsyncClient, make: Make) -> None:
    now = datetime.now(UTC)
    made = MadeFigures(
        make=lambda window, queue, kind: figures(window, lambda n: tally(1, wait=3, run=2))
    )
    app.state.dashboard.figures = made

    async def told(state: str, **columns: Any) -> tuple[str, list[str], list[str]]:
        number = await make.job(state, kind="mail", **columns)
        page = await get(client, f"/jobs/{number}")
        notes = [note.text for note in page.all(class_="step-note")]
        head = page.one(class_="job-words")
        usual = [part.text.strip() for part in head.all("span") if "sually up to" in part.text]
        return head.text, usual, notes

    done = {
        "scheduled_at": now - timedelta(seconds=100),
        "attempted_at": now - timedelta(seconds=40),
        "finalized_at": now - timedelta(seconds=37),
    }
    _, head, notes = await told("completed", **done)
    assert " ".join(head[0].split()) == "It waited 1 m 0 s, usually up to 3.0 s."
    assert (len(head), [" ".join(note.split()) for note in notes]) == (1, ["usually up to 2.0 s"])
    assert made.asked == [("1h", "", "mail")]
    words, head, _ = await told("available", scheduled_at=now - timedelta(seconds=200))
    assert "Due 3 m 2" in words
    assert head[0].startswith("Usually")
    # When it is next due, how long it had waited before is gone.
    assert (await told("retryable"))[1:] == ([], [])
    made.make = lambda window, queue, kind: figures(window, lambda n: None if n else tally(1))
    assert (await told("completed", **done))[1:] == ([], []), "one job is no measure"
