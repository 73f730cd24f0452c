"""Whatever a job brings along and whatever an address holds: it is shown as text, or refused in
words.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from httpx2 import AsyncClient
from starlette.applications import Starlette

from riverui.domain.jobs import JobState
from riverui.features.error_groups.domain.fingerprints import error_signature
from tests.cases import cases
from tests.factory import Make
from tests.web.html import Element, parse
from tests.web.test_routes import ENTRIES, method, of_api, path as route_path

MARKUP = (
    """'"><script>alert(1)</script><img src=x onerror=alert(1)>"""
    "{{7*7}}{%x%}%s{0}</textarea>--><!--"
)
BIDI = "a\u202eb\u2066c\u200bd\u2028e\ufefff"
TRAVERSAL = "../../etc/passwd?x=1#y"
NASTY = (MARKUP, BIDI, TRAVERSAL)

READ = ("alt", "aria-description", "aria-label", "placeholder", "title")
"""Attributes that are shown or read aloud."""
HIDDEN = re.compile("[\x00\u200b\u2028\u202a-\u202e\u2066-\u2069\ufeff]")


@cache
def leads_here(address: str) -> bool:
    """Return whether an address is of this page or of a route."""
    here = urlsplit(address)
    routed = any(entry.path_regex.match(here.path) for entry in ENTRIES)
    return not here.scheme and not here.netloc and (not here.path or routed)


def check(page: Element) -> None:
    """No element, attribute or address of the job's making."""
    for element in page.walk():
        if element.tag == "img":
            assert element.attributes["src"].endswith("/favicon.svg")
        assert element.tag not in ("iframe", "object", "embed", "base", "style", "x"), element.tag
        if element.tag == "script":
            assert element.attributes.get("src", "").startswith("/static/")
            assert not element.text
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name != "style"
            if name in ("href", "action", "formaction", "src", "hx-get", "hx-post"):
                assert leads_here(value), (element.tag, name, value)
    assert not hidden_in(page)


def hidden_in(page: Element) -> list[str]:
    """Return the texts of a page, those of attributes that are read among them, in which there is a
    character that nobody sees.
    """
    shown = [*page.pieces()]
    for element in page.walk():
        shown += [element.attributes.get(name, "") for name in READ]
    return [f"{text.strip()[:200]!a}" for text in shown if HIDDEN.search(text)]


async def get(client: AsyncClient, path: str, **given: Any) -> Element:
    answer = await client.get(path, **given)
    assert answer.status_code in (200, 400), (path, answer.status_code)
    page = parse(answer.text)
    check(page)
    return page


async def fill(make: Make, text: str) -> list[int]:
    """Insert jobs that hold the text in every field that a job brings along."""
    await make.queue(text, metadata={text: text})
    await make.leader(text[:120])
    return [
        await make.job(
            state,
            kind=text,
            queue=text,
            tags=[text, "plain"],
            args={text: {text: [text]}},
            metadata={
                text: text,
                "output": {text: text},
                "river:log": [{"attempt": 1, "log": f"ERROR {text}\n{text}"}],
            },
            errors=[
                {
                    "at": text,
                    "attempt": 1,
                    "error": f"{text}\n{text}",
                    "trace": f"{text}\n\t{text}:1\n",
                }
            ],
            attempt=1,
            attempted_by=[text],
        )
        for state in ("available", "running", "retryable", "discarded")
    ]


@pytest.mark.parametrize("text", NASTY, ids=["markup", "bidi", "path"])
async def test_fields_of_jobs_are_text(text: str, client: AsyncClient, make: Make) -> None:
    ids = await fill(make, text)
    list_page = await get(client, "/jobs")
    if text == MARKUP:
        assert "{{7*7}}" in list_page.text
        assert "<script>alert(1)</script>" in list_page.text
    links: dict[str, list[int]] = {}
    for job_id in ids:
        page = await get(client, f"/jobs/{job_id}")
        for link in page.one(id="job").all("a"):
            links.setdefault(link.attributes["href"], []).append(job_id)
    # Every link leads somewhere sensible, and finds its jobs again where it is a search.
    for href, linked in links.items():
        answer = await client.get(href)
        assert answer.status_code == 200, href
        if "?q=" in href:
            for job_id in linked:
                assert f'id="job-{job_id}"' in answer.text, href
        if answer.headers["content-type"].startswith("text/html"):
            check(parse(answer.text))
    pages = ("/about", "/errors", "/operations", "/queues", "/workers")
    for path in (*pages, f"/queues/{quote(text, safe='')}"):
        await get(client, path)
    for q in ("kind:", "queue:", "tag:", "worker:", "args.", "metadata.", ""):
        await get(client, "/suggest", params={"q": q + ("" if q else text[:20])})
    for verb in ("retry", "cancel", "move", "delete"):
        await get(client, "/jobs/bulk", params={"verb": verb, "next": "/jobs?q=" + text})
    asked = await client.post(
        "/jobs/delete", data={"ids": [str(job_id) for job_id in ids], "next": text}
    )
    check(parse(asked.text))
    await client.post("/queues/pause", data={"name": text})
    told = await get(client, "/queues")
    assert "paused" in told.one(class_="notice").text


async def test_no_page_shows_what_turns_or_hides_text(
    own_tables: None, app: Starlette, client: AsyncClient, make: Make
) -> None:
    """Every text of River's tables, in every state and after hours in it, in queues that are
    paused, served by nobody, and without a row: whatever points out that a job is stuck or a queue
    is late names them as well.
    """
    now, hours = datetime.now(UTC), timedelta(hours=3)
    limits = {BIDI: BIDI, "concurrency": {"global_limit": 1}}
    paused, forsaken, unknown = BIDI, f"{BIDI}2", f"{BIDI}3"
    await make.queue(paused, paused_at=now - hours, metadata=limits)
    await make.queue(forsaken, updated_at=now - hours)
    await make.leader(BIDI)
    ids = [
        await make.job(
            state,
            kind=BIDI,
            queue=name,
            tags=[BIDI],
            args={BIDI: {BIDI: [BIDI]}, "text": BIDI},
            metadata={
                BIDI: BIDI,
                "cancel_attempted_at": BIDI,
                "output": {BIDI: BIDI},
                "river:log": [{"attempt": 1, "log": f"ERROR {BIDI}\n{BIDI}"}],
                "river:rescue_count": BIDI,
                "unique_key_conflict": BIDI,
                "workflow_id": BIDI,
                "task": BIDI,
            },
            errors=[{"at": BIDI, "attempt": 1, "error": BIDI, "trace": f"{BIDI}\n\t{BIDI}:1"}],
            attempt=1,
            attempted_by=[BIDI],
            attempted_at=now - hours,
            scheduled_at=now - hours,
        )
        for state in JobState
        for name in (paused, forsaken, unknown)
    ]
    await make.execute(
        "insert into riverui_client (id, host, language, version, release, queues, periodic,"
        " heartbeat_interval, heartbeat_at) select t, t, t, t, t, jsonb_build_object(t,"
        " '[5, 5]'::jsonb), jsonb_build_object(t, t), interval '1 second',"
        " now() - h * interval '1 hour' from (select %s::text as t) t, generate_series(0, 1) h",
        [BIDI],
    )
    await app.state.dashboard.figures.collector.tick()
    found, name = [], quote(BIDI, safe="")
    params = {"name": name, "kind": name, "fingerprint": error_signature(BIDI).fingerprint}
    for entry in ENTRIES:
        for job_id in ids if entry.name == "jobs.show" else ids[:1]:
            if method(entry) != "GET" or of_api(entry):
                continue
            answer = await client.get(route_path(entry, **params, id=job_id))
            if answer.headers.get("content-type", "").startswith("text/html"):
                hidden = hidden_in(parse(answer.text))
                found += [f"{entry.path} of {job_id}: {text}" for text in hidden]
    assert not found, "\n".join(found)


async def test_every_parameter_is_text(client: AsyncClient, make: Make) -> None:
    await make.job()
    with cases() as case:
        for text in (
            *NASTY,
            "javascript:alert(1)",
            "%00",
            "é" * 300,
            "\\" * 200,
            '"' * 199,
        ):
            with case(text[:30]):
                for name in (
                    "q",
                    "state",
                    "order",
                    "limit",
                    "after",
                    "before",
                    "kind",
                    "args",
                    "error",
                    "created",
                    "id",
                ):
                    answer = await client.get("/jobs", params={name: text})
                    if answer.status_code == 302:
                        answer = await client.get(answer.headers["location"])
                    assert answer.status_code in (200, 400), name
                    check(parse(answer.text))
                for path, name in (
                    ("/jobs/bulk", "verb"),
                    ("/jobs/bulk?verb=retry", "next"),
                    ("/queues", "match"),
                    ("/queues", "order"),
                    ("/suggest", "q"),
                    ("/suggest?q=a", "at"),
                ):
                    await get(client, str(httpx2.URL(path).copy_merge_params({name: text})))
                for folder in ("/operations", "/jobs/1/raw", "/queues"):
                    answer = await client.get(f"{folder}/{quote(text, safe='')}")
                    assert answer.status_code in (400, 404)
                    check(parse(answer.text))


async def test_nul_is_refused_before_the_database_sees_it(client: AsyncClient) -> None:
    for path in (
        "/jobs?q=%00",
        "/jobs?q=kind:a%00b",
        '/jobs?q=args:{"a":"%5Cu0000"}',
        "/jobs?kind=%00",
    ):
        answer = await client.get(path, follow_redirects=True)
        assert answer.status_code == 400, path
    for path in ("/queues?match=%00", "/suggest?q=kind:%00", "/suggest?q=%00"):
        assert (await client.get(path)).status_code in (200, 400), path
    assert (await client.post("/queues/pause", data={"name": "\0"})).status_code == 400
    assert (await client.get("/queues/%00")).status_code in (400, 404)


async def test_bytes_that_are_not_utf8(client: AsyncClient) -> None:
    for path in (
        "/jobs?q=%ff",
        "/jobs?q=%ed%a0%80",
        "/queues/%ff",
        "/queues?match=%ff",
        "/suggest?q=%ff",
    ):
        assert (await client.get(path)).status_code in (200, 400, 404), path


async def test_long_searches_end_soon(client: AsyncClient, make: Make) -> None:
    await make.job()
    for q in (
        "a " * 49,
        "kind:" + ",".join(f"*{n}*" for n in range(100)),
        "args." + "a." * 30 + "b:1",
        "args:" + "[" * 1_900,
        '"' * 1_999,
        "-" * 1_999,
        "kind:" + "*" * 1_900,
        "error:" + "%" * 1_900,
        "x" * 50_000,
    ):
        answer = await client.get("/jobs", params={"q": q})
        assert answer.status_code in (200, 400), q[:20]
        assert answer.elapsed.total_seconds() < 5


async def test_long_parameters_are_not_repeated(
    client: AsyncClient,
) -> None:
    with cases() as case:
        for path, status in (
            ("/jobs?q={x}", 400),
            ("/jobs?kind={x}", 400),
            ("/jobs?q=a&error={x}", 400),
            ("/jobs?q=" + "kind:a," * 8_000, 400),
            ("/jobs?" + "state=running&" * 4_000, 200),
            ("/jobs?state={x}", 400),
            ("/jobs?other={x}", 400),
            ("/jobs/bulk?verb=cancel&q={x}", 400),
            ("/jobs/bulk?verb=cancel&q=a&next=/jobs?q={x}", 200),
            ("/jobs/{x}", 404),
            ("/jobs/" + "9" * 5_000, 404),
            ("/queues?match={x}", 200),
            ("/queues/{x}", 404),
            ("/about?{x}", 200),
            ("/help?{x}", 200),
            ("/{x}", 404),
        ):
            with case(path[:50]):
                answer = await client.get(path.format(x="x" * 50_000))
                assert answer.status_code == status
                assert len(answer.content) < 50_000


async def test_a_search_that_is_too_long(
    client: AsyncClient,
) -> None:
    answer = await client.get("/jobs", params={"q": "kind:" + "y" * 50_000})
    page = parse(answer.text)
    told = "This search is not valid. A search takes at most 2,000 characters."
    assert page.one(class_="banner").text == told
    box = page.one("input", id="q").attributes["value"]
    assert box.startswith("kind:yyy")
    assert len(box) < 3_000
    # Sent again as it stands in the box, it is still too long.
    assert (await client.get("/jobs", params={"q": box})).status_code == 400
    assert page.link("Running0") == "/jobs?state=running"
    region = page.one(id="jobs-list").attributes
    assert region["data-final"] == "1"
    assert (await client.get(region["hx-get"])).status_code == 400
    assert not [link for link in page.all("a") if "/bulk" in link.attributes["href"]]
