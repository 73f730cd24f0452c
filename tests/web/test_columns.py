"""Columns of the job list: which there are, what their cells say, how a choice of them travels."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from httpx2 import AsyncClient
from hypothesis import given, reject, strategies
from starlette.datastructures import QueryParams

from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Field, JsonPath
from riverui.web.search import addresses, columns, json_terms
from riverui.web.view.job_table import COLUMNS, STANDARD
from tests.factory import Make
from tests.web.html import Element, get, parse
from tests.web.stand_ins import dashboard

Htmx = Callable[..., dict[str, str]]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def headers(page: Element) -> list[str]:
    return [header.text for header in page.one("table", id="jobs-table").all("th")]


def cell(page: Element, job_id: int, name: str) -> str:
    """Return what a job's row says in the column with this class."""
    row = page.one("tbody", id=f"job-{job_id}").all("tr")[0]
    return row.one("td", class_=f"c-{name}").text


class TestNames:
    """How addresses, cookies and the chooser's form name columns."""

    @pytest.mark.parametrize(
        ("texts", "names"),
        [
            ([], STANDARD),
            ([""], STANDARD),
            (["id,kind,waited"], ("id", "kind", "waited")),
            (["id", "kind", "waited,ran"], ("id", "kind", "waited", "ran")),
            (["Waited, ID kind"], ("waited", "id", "kind")),
            (["waited"], ("kind", "waited")),
            (["id,id,kind,id"], ("id", "kind")),
            (["kind,args,args.a.b"], ("kind", "args", "args.a.b")),
            (["kind,meta.trace_id"], ("kind", "metadata.trace_id")),
            (['kind,args."a,b"."c"'], ("kind", 'args."a,b".c')),
            (["kind,args.items[].sku"], ("kind", "args.items[].sku")),
        ],
    )
    def test_what_may_be_written(self, texts: list[str], names: tuple[str, ...]) -> None:
        assert columns.read(texts) == names
        assert columns.read([columns.text_of(names)]) == names

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("nope", "Unknown column “nope”. The columns are id, kind, queue,"),
            ("id,wait ed", "Unknown column “wait”."),
            ("id;kind", "Unknown column “id;kind”."),
            ("queue.name", "Unknown column “queue.name”."),
            ("check", "Unknown column “check”."),
            ("args.", "“args.”: A part of the path is empty: write args.customer.id"),
            ("args.a[0]", "Only [] works here"),
            ('args."a', "The closing quote is missing."),
            ("args" + ".a" * 40, "nested more than 32 levels deep"),
            (",".join(f"args.k{n}" for n in range(9)), "at most 20 columns, 6 paths"),
            ("args." + "x" * 500, "at most 500 characters"),
            ("\u202e", "Unknown column “\\u202e”."),
        ],
    )
    def test_what_is_refused(self, text: str, told: str) -> None:
        with pytest.raises(BadRequest) as refused:
            columns.read([text])
        assert told in str(refused.value)
        assert columns.read_kept([text]) == STANDARD

    @given(
        strategies.lists(
            strategies.tuples(strategies.text(min_size=1, max_size=9), strategies.booleans()),
            min_size=1,
            max_size=4,
        )
    )
    def test_any_path_survives_its_name(self, steps: list[tuple[str, bool]]) -> None:
        parts = [json_terms.PathPart(name=name, each=each) for name, each in steps]
        try:
            json_terms.nest(parts, None)
        except BadRequest:
            reject()
        (_, name) = columns.read([f"args.{json_terms.path_text(parts)}"])
        assert columns.read([name]) == ("kind", name)
        keys = [key for step, each in steps for key in ((step, None) if each else (step,))]
        assert columns.paths([name]) == (JsonPath(field=Field.ARGS, keys=tuple(keys)),)


class TestAddresses:
    """`columns=` in the address of a list."""

    def read(self, text: str, **given: Any) -> tuple[addresses.Listing, bool]:
        return addresses.read(QueryParams(text), now=NOW, default_limit=100, **given)

    @pytest.mark.parametrize(
        "text",
        [
            "columns=id,kind,waited",
            "q=kind:a&state=running&limit=20&columns=kind,args.customer.id",
            "columns=kind,args.%22a%20b%22&after=42",
        ],
    )
    def test_an_address_survives(self, text: str) -> None:
        found, canonical = self.read(text)
        assert canonical
        again = found.query(cursor=found.cursor)
        assert QueryParams(again) == QueryParams(text)
        assert self.read(again) == (found, True)

    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("columns=id&columns=kind&columns=&columns=ran", "columns=id,kind,ran"),
            ("columns=waited&state=running", "state=running&columns=kind,waited"),
            (f"columns={'&columns='.join(STANDARD)}", ""),
            ("columns=", ""),
            ("columns=id,kind&limit=40", "limit=50&columns=id,kind"),
        ],
    )
    def test_addresses_have_a_canonical_form(self, text: str, address: str) -> None:
        found, canonical = self.read(text)
        assert not canonical
        assert found.query() == address

    def test_an_unknown_column_is_told_and_shows_nothing(self) -> None:
        found, canonical = self.read("columns=id,nope&state=running")
        assert canonical
        assert found.problem.startswith("Unknown column “nope”.")
        with pytest.raises(BadRequest, match="Unknown column"):
            _ = found.filter
        assert found.query() == "state=running"

    def test_what_the_browser_keeps_need_not_be_said(self) -> None:
        kept = ("id", "kind", "ran")
        found, _ = self.read("state=running", default_columns=kept)
        assert found.columns == kept
        assert found.query() == "state=running"
        assert found.query(columns=STANDARD).endswith(f"columns={','.join(STANDARD)}")

    def test_the_count_of_a_list_does_not_depend_on_its_columns(self) -> None:
        assert self.read("q=a&columns=kind,ran")[0].key == self.read("q=a&limit=20")[0].key


async def test_the_standard_table_is_as_it_was(client: AsyncClient, make: Make) -> None:
    await make.job()
    page = await get(client, "/jobs?state=available")
    assert headers(page) == ["Select", "State", "Id", "Kind", "Queue", "Args", "Pri", "Att", "Due"]
    assert [header.text for header in page.all("th", aria_sort="ascending")] == ["Due"]
    assert not page.all("th", aria_sort="descending")


async def test_the_address_chooses_the_columns(client: AsyncClient, make: Make) -> None:
    job_id = await make.job("discarded", kind="mail", queue="mailers")
    page = await get(client, "/jobs?columns=queue,kind,attempt")
    assert headers(page) == ["Select", "State", "Queue", "Kind", "Att"]
    assert cell(page, job_id, "queue") == "mailers"
    error = page.one("tr", class_="job-error").all("td")
    assert len(error) == 3
    assert error[-1].attributes["colspan"] == "3"
    assert error[-1].text == "it broke"


async def test_an_unknown_column_is_told_on_the_page(client: AsyncClient, make: Make) -> None:
    await make.job()
    page = await get(client, "/jobs?columns=id,nope", 400)
    assert "Unknown column “nope”." in page.one(class_="banner").text
    assert not page.all("tbody", class_="job")
    assert page.link("Show the list without it") == "/jobs"


async def test_how_long_jobs_waited_and_ran(client: AsyncClient, make: Make) -> None:
    now = datetime.now(UTC)
    due, started = now - timedelta(hours=2), now - timedelta(hours=1)
    ended = started + timedelta(seconds=252)
    times = {"scheduled_at": due, "attempted_at": started, "finalized_at": ended}
    done = await make.job("completed", **times)
    failed = await make.job("discarded", **times)
    running = await make.job("running", scheduled_at=due, attempted_at=started)
    available = await make.job("available", scheduled_at=started)
    retryable = await make.job("retryable", attempted_at=started)
    scheduled = await make.job("scheduled")
    # Cancelled while it waited for its second attempt: that one never began.
    given_up = await make.job(
        "cancelled",
        scheduled_at=now + timedelta(hours=1),
        attempted_at=started,
        finalized_at=now,
    )
    never = await make.job("cancelled")
    page = await get(client, "/jobs?columns=kind,waited,ran")
    told = {
        job_id: (cell(page, job_id, "waited"), cell(page, job_id, "ran"))
        for job_id in (done, failed, running, available, retryable, scheduled, given_up, never)
    }
    assert told == {
        done: ("1 h 0 m", "4 m 12 s"),
        failed: ("1 h 0 m", "4 m 12 s"),
        running: ("1 h 0 m", "1 h 0 m"),
        available: ("1 h 0 m", "–"),
        retryable: ("–", "–"),
        scheduled: ("–", "–"),
        given_up: ("–", "–"),
        never: ("–", "–"),
    }
    ticking = page.one("tbody", id=f"job-{running}").one("td", class_="c-ran").one("span")
    assert ticking.attributes["data-since"]


@pytest.mark.parametrize("edge", ["infinity", "-infinity"])
async def test_out_of_range_times_are_no_spans(edge: str, client: AsyncClient, make: Make) -> None:
    job_id = await make.job("completed", finalized_at=edge, scheduled_at=edge)
    page = await get(client, "/jobs?columns=kind,waited,ran")
    assert (cell(page, job_id, "waited"), cell(page, job_id, "ran")) == ("–", "–")


async def test_a_value_inside_the_args_is_a_column(client: AsyncClient, make: Make) -> None:
    cases: dict[str, Any] = {
        "42": {"customer": {"id": 42}},
        "9007199254740993123": {"customer": {"id": 9007199254740993123}},
        "ada": {"customer": {"id": "ada"}},
        "": {"customer": {"id": ""}},
        "true": {"customer": {"id": True}},
        '{"a": [1]}': {"customer": {"id": {"a": [1]}}},
        "–": {"customer": {}},
        "x" * 60: {"customer": {"id": "x" * 201}},
        "...": {"customer": {"id": 1}, "blob": _incompressible(60_000)},
    }
    ids = {await make.job(args=args): told for told, args in cases.items()}
    page = await get(client, "/jobs?columns=kind,args.customer.id")
    assert headers(page)[-1] == "customer.id"
    assert {job_id: cell(page, job_id, "json") for job_id in ids} == ids
    assert page.one("bdi", title="x" * 200 + "…")


async def test_paths_into_metadata_arrays_and_odd_keys(client: AsyncClient, make: Make) -> None:
    job_id = await make.job(
        args={"items": [{"sku": "a"}, {"sku": "b"}, 3], "a.b, %s": {'"': "odd"}},
        metadata={"trace": "abc"},
    )
    other = await make.job(args=[1], metadata={})
    path = 'args."a.b, %s"."\\""'
    address = f"/jobs?columns=kind,args.items[].sku,metadata.trace,{path}".replace("%", "%25")
    page = await get(client, address)
    assert headers(page)[-3:] == ["items[].sku", "metadata.trace", '"a.b, %s"."\\""']

    def values(row: int) -> list[str]:
        return [td.text for td in page.one(id=f"job-{row}").all("td", class_="c-json")]

    assert values(job_id) == ['["a", "b"]', "abc", "odd"]
    assert values(other) == ["[]", "–", "–"]


async def test_paths_and_values_are_text(client: AsyncClient, make: Make) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e\"'&%s %(id)s{{ 7*7 }}"
    job_id = await make.job(args={hostile: hostile})
    path = f"args.{json_terms.quoted(hostile)}"
    answer = await client.get("/jobs", params={"columns": f"kind,{path}", "q": "kind:test_kind"})
    assert answer.status_code == 200
    assert "<img src=x" not in answer.text
    page = parse(answer.text)
    assert not page.all("img", src="x")
    for element in page.one("table", id="jobs-table").walk():
        assert "\u202e" not in element.text
        assert "\u202e" not in element.attributes.get("title", "")
    assert "\\u202e" in cell(page, job_id, "json")
    assert cell(page, job_id, "json").endswith("{{ 7*7 }}")


async def test_links_and_forms_keep_columns(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    await make.execute(
        "insert into river_job (kind, args) select 'k', '{}' from generate_series(1, 60)"
    )
    address = "/jobs?q=kind:k&state=available&limit=20&columns=kind,ran,args.a"
    page = await get(client, address)
    assert page.one(id="jobs-list").attributes["hx-get"] == address
    lists = [
        link.attributes["href"]
        for link in page.all("a")
        if urlsplit(link.attributes.get("href", "")).path == "/jobs"
        and not link.attributes.get("data-section")
    ]
    assert len(lists) > 15
    others = {"/jobs?q=kind:k&state=available&limit=20"}
    assert {one for one in lists if "columns=kind,ran,args.a" not in one} == others, (
        "the link to the standard columns alone"
    )
    for form in page.all("form", action="/jobs"):
        sent = [value for name, value in form.fields() if name == "columns"]
        chooser = "columns-panel" in form.attributes["class"]
        assert sent == (["kind", ""] if chooser else ["kind,ran,args.a"])
    assert page.one("form", id="jobs-form").one("input", name="next").attributes["value"] == address
    (bulk,) = {a.attributes["href"] for a in page.all("a", data_verb="cancel")}
    assert parse_qs(urlsplit(bulk).query)["next"] == [address]
    second = await get(client, page.link("Next"))
    assert headers(second)[2:] == ["Kind", "Ran", "a"]
    live = await client.get(address, headers=htmx("jobs-list"))
    assert headers(parse(live.text))[2:] == ["Kind", "Ran", "a"]


async def test_search_steps_keep_the_columns(driver: Driver, make: Make, htmx: Htmx) -> None:
    await make.execute(
        """insert into river_job (kind, args, tags)
        select 'k', '{"n": 7}', case when n <= 10 then '{rare}' else '{}' end::varchar[]
        from generate_series(1, 500) n"""
    )
    async with dashboard(driver, search_window=300) as client:
        page = await get(client, "/jobs?q=tag:rare&columns=kind,args.n")
        step = page.one(id="search-note").attributes["hx-get"]
        found = parse((await client.get(step, headers=htmx("search-note"))).text)
        assert [td.text for td in found.all("td", class_="c-json")] == ["7"] * 10


def chosen(page: Element) -> tuple[list[str], list[str]]:
    """Return the columns that the chooser offers as shown, and as not shown."""
    boxes = page.one("form", class_="columns-panel").all("label", class_="check")
    shown = [box.text for box in boxes if box.all("input", checked="")]
    return shown, [box.text for box in boxes if box.text not in shown]


async def test_the_chooser_works_as_a_plain_form(client: AsyncClient, make: Make) -> None:
    await make.job(args={"to": "ada"})
    page = await get(client, "/jobs?state=available&limit=20")
    assert chosen(page) == (
        ["Id", "Queue", "Args and tags", "Priority", "Attempt", "Time"],
        ["Waited", "Ran"],
    )
    form = page.one("form", class_="columns-panel")
    sent: Any = [pair for pair in form.fields() if pair[0] != "columns"]
    sent += [("columns", name) for name in ("id", "kind", "waited", "args.to")]
    answer = await client.get(form.attributes["action"], params=sent)
    assert answer.status_code == 302
    address = answer.headers["location"]
    assert address == "/jobs?state=available&limit=20&columns=id,kind,waited,args.to"
    page = await get(client, address)
    assert chosen(page)[0] == ["Id", "Waited", "args.to"]
    assert page.link("Standard") == "/jobs?state=available&limit=20"


async def test_the_browser_keeps_a_choice(client: AsyncClient, make: Make) -> None:
    await make.job(args={"to": "ada"})
    page = await get(client, "/jobs?state=available")
    keep = page.one("form", class_="columns-panel").one("button", formmethod="post").attributes
    sent: Any = {
        "state": "available",
        "columns": ["id", "kind", "ran", "args.to"],
        keep["name"]: keep["value"],
    }
    answer = await client.post(keep["formaction"], data=sent)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/jobs?state=available"
    page = await get(client, "/jobs?state=available")
    assert headers(page)[2:] == ["Id", "Kind", "Ran", "to"]
    standard = page.link("Standard")
    assert standard == f"/jobs?state=available&columns={','.join(STANDARD)}"
    page = await get(client, standard)
    assert headers(page)[2:5] == ["Id", "Kind", "Queue"]
    # Another preference leaves this one alone.
    await client.post("/preferences", data={"theme": "dark"})
    assert headers(await get(client, "/jobs"))[2:] == ["Id", "Kind", "Ran", "to"]
    refused = await client.post("/preferences", data={"columns": "nope"})
    assert refused.status_code == 400


async def test_hidden_args_stay_hidden(driver: Driver, make: Make) -> None:
    job_id = await make.job(args={"to": "ada"}, tags=["vip"])
    async with dashboard(driver, hide_args=True) as client:
        page = await get(client, "/jobs?columns=kind,args,ran")
        assert headers(page)[2:] == ["Kind", "Tags", "Ran"]
        assert cell(page, job_id, "args") == "vip"
        page = await get(client, "/jobs?columns=kind,args.to")
        assert cell(page, job_id, "json") == "ada"


async def test_every_column_can_be_shown_of_every_job(client: AsyncClient, make: Make) -> None:
    for state in ("available", "running", "completed", "retryable", "discarded", "pending"):
        await make.job(state)
    page = await get(client, f"/jobs?columns={','.join(COLUMNS)}")
    for row in page.all("tbody", class_="job"):
        assert len(row.all("tr")[0].all("td")) == len(COLUMNS) + 2


def _incompressible(size: int) -> str:
    from random import Random

    return Random(1).randbytes(size // 2).hex()
