"""The pages of errors: groups of real rows, decisions about them, and a retry of a whole group."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.domain.marks import Mark
from riverui.engine.feature_list import plain_pilot
from riverui.features.error_groups.domain.fingerprints import error_signature
from riverui.features.error_groups.reader import ERROR_GROUPS, ErrorGroupLimits, ErrorGroups
from riverui.features.operations.runner import OPERATIONS
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.rights import Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests.cases import cases
from tests.demo_errors import GO_REFUSED, PYTHON_TRACE
from tests.factory import attempt_error, job
from tests.operations import ended
from tests.web.html import Element, get, parse
from tests.web.stand_ins import browser, mark

Htmx = Callable[..., dict[str, str]]
Connection = AsyncConnection[dict[str, Any]]

REFUSED = error_signature(GO_REFUSED).fingerprint
PATH = f"/errors/{quote(REFUSED, safe='')}"


@pytest.fixture
def dashboard_limits() -> DashboardLimits:
    """Make every page wait for its own read."""
    limits = ErrorGroupLimits(
        fresh_seconds=0, rest=0, wait_seconds=30, program_wait_seconds=30, news_seconds=0
    )
    return DashboardLimits(features=(limits,))


@pytest.fixture
async def kept(driver: Driver, own_tables: None) -> Driver:
    """Return the driver of a database with the table of groups."""
    return driver


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def failed(
    connection: Connection,
    error: str = GO_REFUSED,
    *,
    state: str = "discarded",
    minutes: float = 5,
    trace: str = "",
    **columns: Any,
) -> int:
    """Insert a job whose last attempt failed so many minutes ago, and return its id."""
    at = ago(minutes=minutes)
    found = attempt_error(1, error, trace=trace, at=at.isoformat())
    given = {"attempt": 1, "attempted_at": at, "errors": [found]}
    if state == "discarded":
        given["finalized_at"] = at
    return await job(connection, state, **(given | columns))


async def titles(client: httpx2.AsyncClient, query: str = "") -> list[str]:
    page = await get(client, f"/errors{query}")
    return [found.one("bdi").text for found in page.all("td", class_="c-main")]


def cells(page: Element) -> list[list[str]]:
    return [
        [cell.text for cell in row.all("td") if cell.attributes["class"] != "c-spark"]
        for row in page.all("tr")
        if (row.attributes.get("id") or "").startswith("error-")
    ]


async def test_failed_jobs_come_together_by_their_errors(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    await failed(connection, minutes=90, kind="mail_send", queue="mail")
    await failed(connection, GO_REFUSED.replace("10.0.8.14", "10.9.9.9"), state="retryable")
    await failed(connection, "KeyError: 'a'", minutes=30, trace=PYTHON_TRACE)
    await failed(connection, "KeyError: 'b'", minutes=2, trace=PYTHON_TRACE)
    await failed(connection, "ValueError: b", minutes=3_000, trace=PYTHON_TRACE)
    await job(connection, "completed", errors=[attempt_error()])
    page = await get(client, "/errors")
    assert [row[:4] for row in cells(page)] == [
        ["newKeyError: <str>", "test_kind", "2", "2"],
        ["dial tcp <ip>: connect: connection refused", "test_kind, mail_send", "1", "2"],
        ["ValueError: b", "test_kind", "–", "1"],
    ]
    assert page.one("p", class_="lead").text == "1 of 3 errors is new within the last hour."
    assert "Of all 5 failed jobs" in page.one("p", class_="note").text
    assert "the tables of riverui" in page.one("p", class_="note").text
    assert not page.all("details", id="menu-state")

    lines = [svg.attributes["aria-label"] for svg in page.all("svg", class_="spark")]
    assert lines == ["2 in 24 hours, at most 2 in one", "2 in 24 hours, at most 1 in one"]
    (address,) = {link.attributes["href"] for link in page.all("a") if "tcp" in link.text}
    assert address == PATH
    found = await get(client, address or "")
    assert found.one("h2").text == "dial tcp <ip>: connect: connection refused"
    assert "2 jobs of 2 kinds in 2 queues failed with it" in found.one("p", class_="lead").text
    assert "the tables of riverui" in found.text
    assert "Resolve" not in found.text


async def test_the_page_of_a_group(client: httpx2.AsyncClient, connection: Connection) -> None:
    ids = [
        await failed(
            connection,
            f"NoStock: {n} left",
            trace=PYTHON_TRACE,
            minutes=n,
            attempted_by=["one", f"worker-{n % 2}"],
            metadata={"riverui:release": "v1.2"},
            args={"shop": 7, "order": n},
        )
        for n in range(15)
    ]
    (address,) = [
        link.attributes["href"] or ""
        for link in (await get(client, "/errors")).all("a")
        if "NoStock" in link.text
    ]
    page = await get(client, address)
    assert [item.text for item in page.one("ol", class_="frames").all("li")] == [
        "stock.py in take",
        "orders.py in work",
    ]
    # What all jobs have in common is in the first sentence.
    assert "15 jobs of test_kind in default failed with it" in page.one("p", class_="lead").text
    shares = {
        card.one("h3").text: [row.text for row in card.one("ul", class_="shares").all("li")]
        for card in page.all("section", class_="card")
        if card.all("ul", class_="shares")
    }
    assert shares == {"Hosts": ["worker-0 8", "worker-1 7"], "Releases": ["v1.2"]}
    newest, oldest = page.all("ul", class_="samples")
    assert [link.text for link in newest.all("a")] == [f"#{n}" for n in ids[:10]]
    assert [link.text for link in oldest.all("a")] == [f"#{n}" for n in ids[-3:]]
    text = newest.all("li")[0].text
    assert "NoStock: 0 left" in text
    assert '{"order": 0}' in text
    assert "Equal in all of these: shop" in page.text
    (link,) = [link for link in page.all("a") if link.text == "open all 15"]
    listed = parse_qs(urlsplit(link.attributes["href"] or "").query)["q"]
    assert listed == [f"id:{','.join(map(str, ids))}"]
    jobs = await get(client, link.attributes["href"] or "")
    assert len(jobs.all("tbody", class_="job")) == 15


async def test_the_chart_is_as_long_as_the_jobs_go_back(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    with cases() as case:
        for minutes, span, columns in (
            (5, "last hour", 60),
            (61, "last 24 hours", 96),
            (1_500, "last 7 days", 84),
            (20_000, "last 90 days", 90),
            (900_000, "last 90 days", 90),
        ):
            with case(span):
                await connection.execute("delete from river_job")
                await failed(connection, minutes=2)
                await failed(connection, minutes=minutes, state="retryable")
                page = await get(client, PATH)
                assert span in page.one(id="failed-title").text
                hits = [hit.attributes["aria-label"] or "" for hit in page.all(class_="chart-hit")]
                assert len(hits) == columns
                assert sum("retryable 1" in hit for hit in hits) == (minutes < 90 * 1_440)


async def test_new_is_what_came_with_the_newest_deploy(
    kept: Driver, app: Starlette, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await failed(connection, "an old one", minutes=200)
    await failed(connection, "one in between", minutes=90)
    await failed(connection, "the newest", minutes=5)
    found = [row[0] for row in cells(await get(client, "/errors"))]
    assert found == ["newthe newest", "one in between", "an old one"]
    deploys = [ago(minutes=each).replace(second=0, microsecond=0) for each in (120, 900)]
    mark(app, Mark(at=deploys[1], label="v1.4.1"), Mark(at=deploys[0], label="v1.4.2"))
    found = [row[0] for row in cells(await get(client, "/errors"))]
    assert found == ["newthe newest", "newone in between", "an old one"]
    page = await get(client, f"/errors/{error_signature('one in between').fingerprint}")
    assert "new since v1.4.2" in page.text
    assert len(page.all(class_="chart-mark")) == 2


async def test_an_error_of_jobs_that_have_completed_since_is_not_new(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    for minutes in (5, 90):
        await failed(connection, minutes=minutes, state="retryable")
        await connection.execute(
            "update river_job set state = 'completed', finalized_at = attempted_at"
        )
    await failed(connection, minutes=4)
    await failed(connection, "another one", minutes=3)
    page = await get(client, "/errors")
    assert [row[0] for row in cells(page)] == [
        "newanother one",
        "dial tcp <ip>: connect: connection refused",
    ]
    assert page.one("p", class_="lead").text == "1 of 2 errors is new within the last hour."
    await connection.execute("delete from river_job where errors[1] ->> 'error' like 'another%'")
    page = await get(client, "/errors")
    assert page.one("p", class_="lead").text == "None of 1 error is new within the last hour."


async def test_errors_that_differ_only_in_their_stacks_are_one_group(
    kept: Driver, client: httpx2.AsyncClient, connection: Connection
) -> None:
    moved = PYTHON_TRACE.replace("stock.py", "shelf.py")
    for n, trace in enumerate((PYTHON_TRACE, moved, moved)):
        await failed(connection, "NoStock: 3 left", trace=trace, minutes=9 - n)
    await failed(connection, "NoStock: 3 left", trace=moved, kind="another", minutes=200)
    (row,) = cells(await get(client, "/errors"))
    assert row[3] == "4"
    fingerprints = {
        error_signature("NoStock: 3 left", trace).fingerprint for trace in (PYTHON_TRACE, moved)
    }
    for fingerprint in fingerprints:
        page = await get(client, f"/errors/{fingerprint}")
        assert "Retry 4 at a pace…" in page.text
        assert [card.text for card in page.all("h3") if "Where" in card.text] == [
            "Where 3 jobs, own code, the innermost first",
            "Where 1 job",
        ]
    # A decision is about all of them, and stays if the jobs with one of the stacks are gone.
    await client.post(f"/errors/{max(fingerprints)}/ignore", data={"confirmed": "1"})
    assert await titles(client) == []
    rows = await connection.execute("select fingerprint, state from riverui_error_group")
    assert {row["fingerprint"]: row["state"] for row in await rows.fetchall()} == dict.fromkeys(
        fingerprints, "ignored"
    )
    await connection.execute("delete from river_job where errors[1] ->> 'trace' like '%shelf%'")
    assert await titles(client) == []
    left = error_signature("NoStock: 3 left", PYTHON_TRACE).fingerprint
    answer = await client.post(f"/errors/{left}/unresolve", data={"next": "/errors"})
    assert answer.status_code == 303, answer.text
    assert len(await titles(client)) == 1


async def test_an_address_leads_to_the_worst_or_the_newest_group(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    for n in range(3):
        await failed(connection, minutes=90 + n, kind="mail_send")
    await failed(connection, "another one", minutes=70, kind="mail_send")
    newest = error_signature("another one").fingerprint
    for query, fingerprint in (("worst", REFUSED), ("newest", newest)):
        answer = await client.get(f"/errors?open={query}&kind=mail_send")
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/errors/{quote(fingerprint, safe='')}"
    answer = await client.get("/errors?open=worst&kind=other")
    assert answer.headers["location"] == "/errors?kind=other"


async def test_the_table_is_taken_away(
    kept: Driver, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await failed(connection)
    assert (await client.get("/api/errors")).json()["remembered"]
    await connection.execute("alter table riverui_error_group rename column title to another")
    found = (await client.get("/api/errors")).json()
    assert (found["remembered"], found["groups"]) == (False, 1)
    await connection.execute("drop table riverui_error_group")
    found = (await client.get("/api/errors")).json()
    assert (found["remembered"], found["groups"]) == (False, 1)


async def test_filters_and_orders(client: httpx2.AsyncClient, connection: Connection) -> None:
    await failed(connection, "a broke", minutes=3, kind="x", queue="one")
    await failed(connection, "a broke", minutes=40, kind="y", queue="two")
    await failed(connection, "b broke", minutes=1, kind="y", queue="one")
    await failed(connection, "c broke", minutes=9, kind="y", queue="two")
    assert await titles(client) == ["a broke", "b broke", "c broke"]
    assert await titles(client, "?order=last") == ["b broke", "a broke", "c broke"]
    assert await titles(client, "?order=count") == ["a broke", "b broke", "c broke"]
    assert await titles(client, "?order=new") == ["b broke", "c broke", "a broke"]
    assert await titles(client, "?kind=x") == ["a broke"]
    assert await titles(client, "?queue=two") == ["a broke", "c broke"]
    assert await titles(client, "?queue=two&kind=x") == []
    assert await titles(client, "?match=B%20Br") == ["b broke"]
    assert cells(await get(client, "/errors?kind=x"))[0][3] == "1"
    empty = await get(client, "/errors?kind=none")
    assert "No such error" in empty.text
    assert "3 others are not shown" in empty.text
    for query in ("?order=best", "?open=all", "?state=dead", "?colour=red"):
        assert (await client.get(f"/errors{query}")).status_code == 400


async def test_kinds_and_queues_lead_to_their_errors(
    app: Starlette, client: httpx2.AsyncClient, reader: httpx2.AsyncClient, connection: Connection
) -> None:
    for n in range(8):
        await failed(connection, f"error {chr(97 + n)}", kind="mail_send", queue="mail")
    await failed(connection, "error c", kind="mail_send", queue="mail")
    await failed(connection, "error x", kind="another", queue="mail")
    page = await get(client, "/kinds/mail_send")
    (card,) = [
        card
        for card in page.all("section", class_="card")
        if card.attributes.get("aria-labelledby") == "title-errors"
    ]
    rows = [[cell.text for cell in row.all("td")][:2] for row in card.all("tr")[1:]]
    assert rows[0] == ["error c", "2"]
    assert len(rows) == 6
    links = [link.attributes["href"] or "" for link in card.all("a")]
    assert links[0] == "/errors?kind=mail_send"
    assert "error c" in (await get(client, links[1])).text
    page = await get(client, "/queues/mail")
    (link,) = [link for link in page.all("a") if link.text == "by error"]
    assert link.attributes["href"] == "/errors?queue=mail"
    assert len(await titles(client, "?queue=mail")) == 9
    assert "by error" in (await get(reader, "/queues/mail")).text
    only = create_app(
        app.state.dashboard.driver,
        authenticate=lambda connection: Access(rights=frozenset({"figures.read", "queues.read"})),
    )
    async with browser(only) as stranger:
        assert "error c" not in (await stranger.get("/kinds/mail_send")).text
        assert "by error" not in (await stranger.get("/queues/mail")).text
    await only.state.dashboard.close()
    await app.state.dashboard.close()


async def test_nothing_has_failed(client: httpx2.AsyncClient) -> None:
    assert "No failed jobs" in (await get(client, "/errors")).text
    assert "Error not found" in (await get(client, f"/errors/{REFUSED}", 404)).text
    for odd in ("fp1:zz", "x" * 3_000, "fp1%3A00"):
        assert (await client.get(f"/errors/{odd}")).status_code == 404


async def test_a_job_leads_to_its_group(client: httpx2.AsyncClient, connection: Connection) -> None:
    plain = await failed(connection)
    traced = await failed(connection, "NoStock: 1", trace=PYTHON_TRACE, state="retryable")
    given = await failed(connection, "any", metadata={"riverui:fingerprint": "vendor down"})
    noise = "".join(f'  File "/app/m{n}.py", line {n}, in work\n' for n in range(900))
    long = await failed(connection, "E: " + "é" * 9_000, trace=PYTHON_TRACE + noise + "E: end")
    for job_id in (plain, traced, given, long):
        page = await get(client, f"/jobs/{job_id}")
        (link,) = [link for link in page.all("a") if link.text == "same error"]
        group = await get(client, link.attributes["href"] or "")
        assert f"#{job_id}" in group.text
    done = await job(connection, "completed", errors=[attempt_error()])
    assert "same error" not in (await get(client, f"/jobs/{done}")).text


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\x01b\u202ec\u2066",
    "x" * 300_000,
    "{{ 7 * 7 }} {% raw %} %s %(a)s",
    "\n\n\n",
]


async def test_hostile_texts(client: httpx2.AsyncClient, connection: Connection) -> None:
    for text in HOSTILE:
        await failed(
            connection,
            text,
            kind="<b>kind",
            attempted_by=[text[:5_000]],
            args={"a": text},
            metadata={"riverui:release": text[:1_000]},
            trace=f'Traceback (most recent call last):\n  File "{text}", line 1, in {text}\n' * 2,
        )
    answer = await client.get("/errors")
    assert answer.status_code == 200
    assert len(answer.content) < 60_000
    links = set(re.findall(r'href="(/errors/fp1%3A[0-9a-f]{16})"', answer.text))
    assert len(links) == len(HOSTILE)
    for text in [answer.text, *[(await client.get(link)).text for link in links]]:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "<b>kind" not in text
        assert "\x01" not in text
        assert "\u202e" not in text
        assert "\u2066" not in text
        assert len(text) < 100_000


async def test_what_may_be_done_with_few_rights(
    reader: httpx2.AsyncClient, kept: Driver, connection: Connection
) -> None:
    await failed(connection)
    page = await get(reader, f"/errors/{REFUSED}")
    assert "at a pace" not in page.text
    assert "Resolve" not in page.text
    for verb in ("resolve", "ignore", "unresolve"):
        answer = await reader.post(f"/errors/{REFUSED}/{verb}", data={})
        assert answer.status_code == 403
    app = create_app(kept, authenticate=lambda connection: Access(rights=frozenset()))
    async with browser(app) as stranger:
        for path in ("/errors", f"/errors/{REFUSED}", "/api/errors"):
            assert (await stranger.get(path)).status_code == 403


async def test_a_group_is_resolved_and_comes_back(
    kept: Driver, client: httpx2.AsyncClient, connection: Connection, htmx: Htmx
) -> None:
    await failed(connection, minutes=3, metadata={"riverui:release": "v1"})
    form = parse((await client.post(f"{PATH}/resolve", data={"next": PATH})).text)
    assert [option.attributes["value"] for option in form.all("option")] == ["v1"]
    answer = await client.post(
        f"{PATH}/resolve", data={"confirmed": "1", "release": "v2", "reason": "<b>put right"}
    )
    assert answer.status_code == 303
    page = await get(client, answer.headers["location"])
    assert "Resolved: dial tcp <ip>: connect: connection refused" in page.text
    assert "Resolved in v2" in page.text
    assert "“<b>put right”" in page.text
    assert await titles(client) == []
    assert await titles(client, "?state=resolved") == await titles(client, "?state=all")
    # A release that had failed before does not reopen it; a later attempt of another does.
    await failed(connection, minutes=-0.1, metadata={"riverui:release": "v1"})
    assert await titles(client) == []
    await failed(connection, minutes=-0.2, metadata={"riverui:release": "v2"})
    (row,) = cells(await get(client, "/errors"))
    assert row[0].startswith("back")
    page = await get(client, f"/errors/{REFUSED}")
    assert "It was resolved in v2" in page.text
    assert "and came back" in page.text
    # The decision stays when its jobs are deleted.
    await connection.execute("delete from river_job")
    page = await get(client, f"/errors/{REFUSED}")
    assert "and came back" in page.text
    assert "No job has this error any more" in page.text
    assert "at a pace" not in page.text
    answer = await client.post(f"{PATH}/unresolve", headers=htmx(current=PATH), data={"next": PATH})
    assert answer.headers["HX-Trigger"] == "errors-changed"
    assert "and came back" not in (await get(client, f"/errors/{REFUSED}")).text


_WRONG = (
    {"until": "1y"},
    {"rate": "0"},
    {"total": "-1"},
    {"rate": "9" * 30},
    {"total": "x"},
    {"reason": "x" * 501},
)


async def test_a_group_is_ignored_until(
    kept: Driver, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await failed(connection)
    path = f"/errors/{REFUSED}/ignore"
    for wrong in _WRONG:
        assert (await client.post(path, data=wrong | {"confirmed": "1"})).status_code == 400
    await client.post(path, data={"confirmed": "1", "until": "1d", "rate": "100", "total": "2"})
    page = await get(client, f"/errors/{REFUSED}")
    assert "until 100 an hour until 2 more" in page.text
    assert await titles(client) == []
    assert len(await titles(client, "?state=ignored")) == 1
    await failed(connection, minutes=-0.1)
    assert await titles(client) == []
    await failed(connection, minutes=-0.1)
    assert len(await titles(client)) == 1
    assert await titles(client, "?state=ignored") == []
    rows = await connection.execute("select state, number from riverui_error_group")
    assert (await rows.fetchall()) == [{"state": "unresolved", "number": 3}]


async def test_a_whole_group_is_retried_and_nothing_else(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection
) -> None:
    ids = [await failed(connection, state=("discarded", "retryable")[n % 2]) for n in range(130)]
    other = await failed(connection, "another error")
    page = await get(client, f"/errors/{REFUSED}")
    (link,) = [link for link in page.all("a") if link.text == "Retry 130 at a pace…"]
    assert "open the newest 100" in page.text
    preview = await get(client, link.attributes["href"] or "")
    assert "Retry 130 jobs (65 retryable, 65 discarded)?" in preview.text
    assert "130 jobs with the error “dial tcp <ip>" in preview.text
    later = await failed(connection)
    fields = {
        field.attributes["name"] or "": field.attributes.get("value") or ""
        for field in preview.one("form", class_="ask").all("input")
    }
    answer = await client.post("/jobs/bulk/retry", data=fields)
    assert answer.status_code == 303
    operation = await ended(
        app.state.dashboard.get(OPERATIONS), answer.headers["location"].split("/")[-1]
    )
    assert (operation.status, operation.changed) == ("done", 130)
    rows = await connection.execute("select id from river_job where state <> 'available'")
    assert {row["id"] for row in await rows.fetchall()} == {other, later}
    page = await get(client, answer.headers["location"])
    assert "open all" not in page.text
    assert all(job_id not in (other, later) for job_id in ids)
    gone = await client.get(f"/jobs/bulk?verb=retry&group={REFUSED[:-1]}0")
    assert gone.status_code == 404


async def test_five_thousand_jobs_go_through_the_shared_operations(
    kept: Driver, connection: Connection, dashboard_limits: DashboardLimits
) -> None:
    """The text that names them all is stored, and read by the dashboard that continues."""
    await many(connection, 6_000)
    app = build_app(
        kept, SignIn(no_auth=True), pilot=plain_pilot(), options=AppOptions(limits=dashboard_limits)
    )
    async with browser(app) as client:
        (found,) = (await client.get("/api/errors")).json()["data"]
        assert found["jobs"] == 5_000
        preview = await get(client, f"/jobs/bulk?verb=retry&group={found['fingerprint']}")
        fields = {
            field.attributes["name"] or "": field.attributes.get("value") or ""
            for field in preview.one("form", class_="ask").all("input")
        }
        answer = await client.post("/jobs/bulk/retry", data=fields)
        board = app.state.dashboard
        operation = await ended(board.get(OPERATIONS), answer.headers["location"].split("/")[-1])
        assert (operation.status, operation.changed) == ("done", 5_000)
        assert len((await client.get("/operations")).text) < 40_000
    await board.get(OPERATIONS).close()
    await board.get(ERROR_GROUPS).close()
    await board.counts.close()


async def many(connection: Connection, number: int, *, errors: int = 1) -> None:
    """Insert so many failed jobs with so many different errors."""
    await connection.execute(
        """insert into river_job (kind, args, state, attempt, max_attempts, attempted_at,
             finalized_at, errors)
           select 'k' || n % 20, '{}', 'discarded', 1, 1, now() - n * interval '1 second',
             now() - n * interval '1 second',
             array[jsonb_build_object('attempt', 1, 'at', to_jsonb(now() - n * interval '1 second'),
               'error', 'broken ' || chr(97 + n % %s) || ': ' || n, 'trace', '')]
           from generate_series(1, %s) n""".replace("n % %s)", "n %% %s)").replace(
            "n % 20", "n %% 20"
        ),
        [errors, number],
    )


async def test_ten_thousand_failed_jobs(client: httpx2.AsyncClient, connection: Connection) -> None:
    await many(connection, 10_000, errors=25)
    page = await get(client, "/errors")
    assert len(cells(page)) == 25
    assert {row[3] for row in cells(page)} == {"200"}
    note = page.one("p", class_="note").text
    assert "Of the newest 5,000 failed jobs, those since" in note
    assert "there are more" in note
    # A group older than the oldest job read is not called new.
    assert "new" not in {row[0][:3] for row in cells(page)}


async def test_what_was_read_is_not_read_again(driver: Driver, connection: Connection) -> None:
    limits = ErrorGroupLimits(jobs=100, batch=30, wait_seconds=10, fresh_seconds=5)
    now = [0.0]
    groups = ErrorGroups(driver, DashboardConfig(), limits, clock=lambda: now[0])
    await many(connection, 120)
    reading = await groups.read()
    assert (reading.looked_at, reading.more, reading.complete) == (100, True, True)
    await connection.execute("update river_job set errors = '{}', kind = 'other'")
    assert await groups.read() is reading
    now[0] += 6
    again = await groups.read()
    assert again is not reading
    assert set(again.groups) == set(reading.groups)
    # A job that has failed again is no longer included, nor is a deleted one.
    await connection.execute("update river_job set attempt = 2 where id = 1")
    await connection.execute("delete from river_job where id between 2 and 90")
    groups.expire()
    last = await groups.read()
    (of,) = [group for group in last.groups.values() if "other" in group.kinds]
    assert of.jobs[-1].id in range(91, 121) or of.jobs[0].id == 1
    assert last.looked_at == 31
    await groups.close()


async def test_pages_do_not_wait_for_the_whole_reading(
    driver: Driver, connection: Connection
) -> None:
    await many(connection, 500)
    limits = ErrorGroupLimits(batch=10, wait_seconds=0, program_wait_seconds=20)
    groups = ErrorGroups(driver, DashboardConfig(), limits)
    first = await groups.read()
    assert (first.complete, first.looked_at) == (False, 0)
    whole = await groups.read(whole=True)
    assert (whole.complete, whole.looked_at) == (True, 500)
    await groups.close()


async def test_a_database_that_is_away(app: Starlette, client: httpx2.AsyncClient) -> None:
    nowhere = connect("postgres://nobody@127.0.0.1:1/none")
    app.state.dashboard.services[ERROR_GROUPS] = ErrorGroups(
        nowhere, DashboardConfig(), ErrorGroupLimits(wait_seconds=10)
    )
    page = await get(client, "/errors")
    assert "Errors could not be read" in page.text
    assert "No failed jobs" not in page.text
    assert (await client.get("/api/errors")).status_code == 503
    await nowhere.close()


async def test_a_read_only_dashboard_writes_nothing(
    kept: Driver, connection: Connection, dashboard_limits: DashboardLimits
) -> None:
    await failed(connection)
    for read_only, number in ((True, 0), (False, 1)):
        config = DashboardConfig(read_only=read_only)
        groups = ErrorGroups(kept, config, dashboard_limits.get(ErrorGroupLimits))
        assert (await groups.read()).remembered
        rows = await (await connection.execute("select * from riverui_error_group")).fetchall()
        assert len(rows) == number
        await groups.close()


async def test_two_dashboards_count_once(
    kept: Driver, connection: Connection, dashboard_limits: DashboardLimits
) -> None:
    await many(connection, 40, errors=4)
    two = [
        ErrorGroups(kept, DashboardConfig(), dashboard_limits.get(ErrorGroupLimits))
        for _ in range(2)
    ]
    for _ in range(3):
        await asyncio.gather(*[groups.read() for groups in two])
    rows = await (await connection.execute("select number from riverui_error_group")).fetchall()
    assert [row["number"] for row in rows] == [10] * 4
    for groups in two:
        await groups.close()
