"""Inserting a job on its page: the form, its checks, what it leaves in the database."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

import httpx2
import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import (
    Client,
    ClientConfig,
    InsertOpts,
    Job,
    JobState,
    JsonArgs,
    Unique,
    UniqueOpts,
    Workers,
    create_app,
)
from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.rights import READ_ONLY, Access
from riverui.web.auth.sign_in import SignIn
from tests.cases import cases
from tests.factory import Make
from tests.web.html import Element, parse
from tests.web.stand_ins import browser, dashboard

Connection = AsyncConnection[Any]
Htmx = Callable[..., dict[str, str]]


@dataclass
class SendMail:
    """A kind that the client of these tests works."""

    kind: ClassVar[str] = "send_mail"
    to: Annotated[str, Unique]
    copies: int = 1


@pytest.fixture
async def app(driver: Driver) -> AsyncIterator[Starlette]:
    """Yield a dashboard that knows no client."""
    app = create_app(driver, authenticate=lambda connection: Access(user="ada"))
    yield app
    await app.state.dashboard.close()


@pytest.fixture
async def embedded(driver: Driver) -> AsyncIterator[AsyncClient]:
    """Yield a browser for the dashboard of a program that works a kind."""
    workers = Workers()

    @workers.work
    async def send(job: Job[SendMail]) -> None:
        """Do nothing."""

    client = Client(driver, ClientConfig(workers=workers))
    async with dashboard(client) as found:
        yield found


async def rows(make: Make) -> list[dict[str, Any]]:
    columns = "id, kind, args::text, queue, priority, max_attempts, tags, state::text, metadata,"
    columns += " scheduled_at, unique_key, unique_states::text"
    found = await make.execute(f"select {columns} from river_job order by id")
    return list(await found.fetchall())


def filled(**more: Any) -> dict[str, Any]:
    """Return what a browser sends."""
    return {"kind": "sort", "args": "{}", "queue": "default", "priority": "1", **more}


def area(page: Element, name: str) -> str:
    """Return the text in a field of several lines."""
    return "".join(page.one("textarea", name=name).pieces()).removeprefix("\n")


def problem(answer: httpx2.Response) -> str:
    assert answer.status_code == 400, answer.text
    return parse(answer.text).one(id="new-job-problem").text


async def test_a_job_is_inserted_without_scripts(
    client: AsyncClient, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.actions")
    page = parse((await client.get("/jobs/new")).text)
    sent = dict(page.one("form", class_="new-job").fields())
    sent |= {
        "kind": "sort",
        "args": '{"of": [3, 1], "exact": 12345678901234567890.10}',
        "queue": "mailers",
        "priority": "3",
        "tags": "europe, vip_1",
        "max_attempts": "7",
        "metadata": '{"trace": "abc"}',
    }
    sent.pop("fill", None)
    answer = await client.post("/jobs/new", data=sent)
    assert answer.status_code == 303, problem(answer)
    (row,) = await rows(make)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{row['id']}")
    assert row["args"] == '{"of": [3, 1], "exact": 12345678901234567890.10}'
    assert (row["kind"], row["queue"], row["priority"]) == ("sort", "mailers", 3)
    assert (row["tags"], row["max_attempts"], row["state"]) == (["europe", "vip_1"], 7, "available")
    assert row["metadata"] == {"trace": "abc", "riverui:from": {"user": "ada"}}
    assert row["unique_key"] is None
    assert f"insert by 'ada': job {row['id']} of kind 'sort'" in caplog.text
    shown = parse((await client.get(answer.headers["location"])).text)
    assert f"Job {row['id']} inserted" in shown.one(id="notices").text


async def test_the_workers_of_the_queue_are_told(client: AsyncClient, make: Make) -> None:
    await make.execute('listen "public.river_insert"')
    await client.post("/jobs/new", data=filled(queue="mailers"))
    async with asyncio.timeout(5):
        async for told in make.connection.notifies(stop_after=1):
            assert json.loads(told.payload) == {"queue": "mailers"}
    assert len(await rows(make)) == 1


async def test_a_job_for_later(client: AsyncClient, make: Make) -> None:
    with cases() as case:
        for when, least in (
            ("10m", 599),
            ("in 2h", 7199),
            ("+1d", 86_399),
            ("2999-01-01T00:00Z", 1e9),
        ):
            with case(when):
                await make.execute("delete from river_job")
                await client.post("/jobs/new", data=filled(when=when))
                found = await make.rows(
                    "select state::text, extract(epoch from scheduled_at - now())::float as left"
                    " from river_job"
                )
                (row,) = found
                assert row["state"] == "scheduled"
                assert row["left"] > least - 30


OPTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"by_args": "1"}, {"by_args": True}),
    ({"by_queue": "1"}, {"by_queue": True}),
    ({"by_args": "1", "by_queue": "1"}, {"by_args": True, "by_queue": True}),
    ({"by_args": "1", "by_period": "24h"}, {"by_args": True, "by_period": timedelta(days=1)}),
    (
        {"by_args": "1", "state": ["completed", "retryable", "cancelled", "discarded"]},
        {
            "by_args": True,
            "by_state": list(JobState),
        },
    ),
]


async def test_a_unique_job_has_its_key(driver: Driver, client: AsyncClient, make: Make) -> None:
    with cases() as case:
        for fields, opts in OPTS:
            with case(fields):
                await make.execute("truncate river_job")
                data = {"z": {"b": 1, "a": "<ü>"}, "a": 1.50, "n": 12345678901234567890}
                inserter = Client(driver)
                args = JsonArgs("sort", data)
                await inserter.insert(args, InsertOpts(unique_opts=UniqueOpts(**opts)))
                (first,) = await rows(make)
                # As a client writes it, but for the order at the top and white space.
                text = '{ "n": 12345678901234567890, "a": 1.5,\n "z": {"a": "<ü>", "b": 1} }'
                sent = filled(args=text, unique="1", state=["completed", "retryable"]) | fields
                answer = await client.post("/jobs/new", data=sent)
                assert [row["id"] for row in await rows(make)] == [first["id"]], "it is a duplicate"
                assert answer.headers["location"] == f"/jobs/{first['id']}"
                shown = parse((await client.get(answer.headers["location"])).text).one(id="notices")
                assert f"Nothing was inserted: job {first['id']} exists already" in shown.text
                assert shown.link(f"Job {first['id']}") == f"/jobs/{first['id']}"
                # And the other way round, in a database where the dashboard comes first.
                await make.execute("truncate river_job")
                await client.post("/jobs/new", data=sent)
                (second,) = await rows(make)
                assert bytes(second["unique_key"]) == bytes(first["unique_key"])
                assert second["unique_states"] == first["unique_states"]
                again = await inserter.insert(args, InsertOpts(unique_opts=UniqueOpts(**opts)))
                assert again.unique_skipped_as_duplicate


async def test_known_kinds_check_args(embedded: AsyncClient, driver: Driver, make: Make) -> None:
    kind = {"kind": "send_mail"}
    told = problem(await embedded.post("/jobs/new", data=filled(**kind, args='{"to": 7}')))
    assert "SendMail" in told
    assert "to" in told
    wrong = '{"to": "ann", "copy": 2}'
    told = problem(await embedded.post("/jobs/new", data=filled(**kind, args=wrong)))
    assert "SendMail has no field 'copy'" in told
    assert await rows(make) == []
    # Other kinds are some other program's.
    assert (await embedded.post("/jobs/new", data=filled())).status_code == 303
    sent = filled(**kind, args='{"to": "ann"}', unique="1", by_args="1")
    assert (await embedded.post("/jobs/new", data=sent)).status_code == 303
    row = (await rows(make))[-1]
    assert json.loads(row["args"]) == {"to": "ann", "copies": 1}, "with the type's defaults"
    twin = await Client(driver).insert(
        SendMail(to="ann", copies=9),
        InsertOpts(unique_opts=UniqueOpts(by_args=True)),
    )
    assert twin.unique_skipped_as_duplicate
    assert twin.job.id == row["id"]


async def test_the_form_is_filled_in_from_the_newest_job(client: AsyncClient, make: Make) -> None:
    await make.job(kind="sort", args={"old": 1})
    newest = await make.job(
        "completed",
        kind="sort",
        args={"customer": {"id": 42}, "empty": []},
        queue="mailers",
        priority=2,
        tags=["vip"],
        max_attempts=3,
    )
    await make.job(kind="other")
    typed = await client.post("/jobs/new", data=filled(fill="1"))
    for answer in (typed, await client.get("/jobs/new?kind=sort")):
        page = parse(answer.text)
        form = page.one("form", class_="new-job")
        assert area(form, "args") == '{\n  "empty": [],\n  "customer": {\n    "id": 42\n  }\n}'
        texts = dict(form.fields())
        assert (texts["kind"], texts["queue"]) == ("sort", "mailers")
        assert form.one("option", selected="").text == "2"
        assert (texts["tags"], texts["max_attempts"]) == ("vip", "3")
        assert f"Filled in from job {newest}" in page.text
    assert len(await rows(make)) == 3, "nothing was inserted"
    page = parse((await client.get("/jobs/new?kind=nobody")).text)
    assert "There is no job of kind nobody" in page.text


async def test_edit_and_retry_inserts_another_job(client: AsyncClient, make: Make) -> None:
    old = await make.job("discarded", kind="sort", args={"to": "amm"})
    running = await make.job("running", kind="sort")
    shown = parse((await client.get(f"/jobs/{old}")).text)
    assert shown.link("New job like this") == f"/jobs/new?like={old}"
    assert "Edit and retry" not in (await client.get(f"/jobs/{running}")).text
    page = parse((await client.get(shown.link("Edit and retry…"))).text)
    assert f"Job {old} stays as it is." in page.text
    sent = dict(page.one("form", class_="new-job").fields())
    sent.pop("fill", None)
    wrong = await client.post("/jobs/new", data=sent | {"args": "{"})
    assert "Line 1, column 2" in problem(wrong)
    assert f"Job {old} stays as it is." in parse(wrong.text).text, "it is still known"
    sent = dict(parse(wrong.text).one("form", class_="new-job").fields())
    answer = await client.post("/jobs/new", data=sent | {"args": '{"to": "ann"}'})
    assert answer.status_code == 303
    before, _, after = await rows(make)
    assert (before["state"], json.loads(before["args"])) == ("discarded", {"to": "amm"})
    assert (after["state"], json.loads(after["args"])) == ("available", {"to": "ann"})
    assert after["metadata"]["riverui:from"] == {"user": "ada", "job": old}


async def test_secrets_and_large_args_are_not_filled_in(client: AsyncClient, make: Make) -> None:
    secret = await make.job(args={"password": "hunter2", "to": "ann"})
    page = parse((await client.get(f"/jobs/new?like={secret}")).text)
    assert "hunter2" not in page.text
    assert "Its secrets are not filled in" in page.text
    args = area(page, "args")
    assert json.loads(args) == {"password": "[redacted]", "to": "ann"}
    told = problem(await client.post("/jobs/new", data=filled(args=args)))
    assert "Replace each “[redacted]”" in told
    large = await make.job(args={"text": "x" * 100_001})
    answer = await client.get(f"/jobs/new?like={large}")
    assert "too long to edit" in answer.text
    assert len(answer.text) < 50_000
    assert len(await rows(make)) == 2


async def test_invalid_jobs_stay_in_the_form(client: AsyncClient, make: Make) -> None:
    with cases() as case:
        for fields, told in (
            ({"kind": ""}, "The kind must be"),
            ({"kind": "no spaces"}, "The kind must be"),
            ({"kind": "k" * 128}, "The kind must be"),
            ({"args": ""}, "Write a JSON object"),
            ({"args": "[1]"}, "must be a JSON object"),
            ({"args": '{"a": 1,\n "b" 2}'}, "Line 2, column 6: expecting ':' delimiter"),
            ({"args": '{"a": 1\n\n'}, "expecting ',' delimiter"),
            ({"args": '{"a": NaN}'}, "Line 1, column 7: NaN is not JSON"),
            ({"args": '{"a": "\\u0000"}'}, "Line 1, column 8: \\u0000 cannot be stored"),
            ({"args": '{"a": "\\ud800"}'}, "lone surrogate"),
            ({"args": '{"a": 1e99999}'}, "Line 1, column 7: this number is too large"),
            ({"args": '{"a": ' + "9" * 5000 + "}"}, "this number is too large"),
            ({"args": '{"a": ' + "[" * 5000 + "]" * 5000 + "}"}, "nested deeper than 200 levels"),
            ({"args": '{"a": "' + "x" * 300_000 + '"}'}, "at most 300,000 can be inserted"),
            ({"queue": "Not A Queue"}, "is not a valid queue name"),
            ({"priority": "5"}, "The priority must be"),
            ({"max_attempts": "0"}, "The number of attempts must be"),
            ({"max_attempts": "99999"}, "The number of attempts must be"),
            ({"tags": "a"}, "is not a valid tag"),
            ({"tags": " ".join(f"tag{n}" for n in range(101))}, "at most 100 tags"),
            ({"when": "soon"}, "“soon” is not a time"),
            ({"unique": "1", "by_period": "0.1s"}, "at least a second"),
            ({"unique": "1", "by_period": "today"}, "Write the period as a span"),
            ({"metadata": "[]"}, "must be a JSON object"),
            ({"metadata": '{"river:x": 1}'}, "The key river:x is reserved"),
            ({"metadata": '{"riverui:from": 1}'}, "The key riverui:from is reserved"),
        ):
            with case((str(fields)[:60], told)):
                answer = await client.post("/jobs/new", data=filled() | fields)
                assert told in problem(answer)
                form = parse(answer.text).one("form", class_="new-job")
                for name, value in fields.items():
                    if name in ("args", "metadata"):
                        assert area(form, name).strip() == value.strip()
                    elif name in ("kind", "queue", "tags"):
                        assert form.one("input", name=name).attributes["value"] == value
                assert await rows(make) == []


async def test_odd_args_stay_as_they_were_written(client: AsyncClient, make: Make) -> None:
    exact = "1" + "0" * 400 + ".00000000000000000000001"
    text = '{"n": ' + exact + ', "</textarea><script>": "\\u202e\\ud83d\\ude00", "deep": '
    text += "[" * 199 + "]" * 199 + "}"
    assert (await client.post("/jobs/new", data=filled(args=text))).status_code == 303
    (row,) = await rows(make)
    assert exact in row["args"]
    page = parse((await client.get(f"/jobs/new?like={row['id']}")).text)
    assert page.all("script") == parse((await client.get("/jobs/new")).text).all("script")
    again = await client.post("/jobs/new", data=filled(args=area(page, "args")))
    assert again.status_code == 303
    first, second = await rows(make)
    assert first["args"] == second["args"]


async def test_args_are_checked_while_typed(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    headers = htmx("new-job-check", "/jobs/new")
    wrong = await client.post(
        "/jobs/new/check", data=filled(kind="", args='{"a":\n x}'), headers=headers
    )
    assert parse(wrong.text).one(class_="wrong").text == "Line 2, column 2: expecting value."
    right = await client.post("/jobs/new/check", data=filled(), headers=headers)
    assert parse(right.text).one(class_="right").text == "The args are valid."
    assert await rows(make) == []


async def test_without_the_right_no_form(reader: AsyncClient, driver: Driver, make: Make) -> None:
    job_id = await make.job("discarded")
    async with dashboard(driver, read_only=True) as locked:
        for client in (reader, locked):
            page = parse((await client.get("/jobs/new")).text)
            assert "You may not insert jobs here" in page.text
            assert page.all("form", class_="new-job") == []
            assert "/jobs/new" not in (await client.get("/jobs")).text
            assert "/jobs/new" not in (await client.get(f"/jobs/{job_id}")).text
            for path in ("/jobs/new", "/jobs/new/check", "/api/jobs"):
                assert (await client.post(path, data=filled())).status_code == 403
    assert len(await rows(make)) == 1


async def test_a_right_of_its_own(driver: Driver, make: Make) -> None:
    rights = READ_ONLY | {"jobs.insert"}
    async with dashboard(driver, access=Access(user="eve", rights=rights)) as client:
        assert parse((await client.get("/jobs")).text).link("New job") == "/jobs/new"
        assert (await client.post("/jobs/new", data=filled())).status_code == 303
    assert len(await rows(make)) == 1


async def test_a_dashboard_that_cannot_insert_says_so(driver: Driver) -> None:
    async with browser(build_app(driver, SignIn(no_auth=True), pilot=plain_pilot())) as client:
        assert "/jobs/new" not in (await client.get("/jobs")).text
        answer = await client.get("/jobs/new")
        assert (answer.status_code, "cannot insert jobs" in answer.text) == (501, True)
        assert (await client.post("/jobs/new", data=filled())).status_code == 501
        answer = await client.post("/api/jobs", json={"kind": "sort", "args": {}})
        assert answer.status_code == 501
        assert answer.json() == {"message": "This dashboard cannot insert jobs."}
