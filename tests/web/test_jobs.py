"""The job list: as a page, as a fragment, without scripts; what it finds, how it is paged, and the
verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from httpx2 import AsyncClient
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.routing import Mount

from riverui.actions.job_verbs import JOB_VERBS
from riverui.domain.jobs import JobState
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.params import JobOrder
from riverui.web.search import addresses, grammar
from tests.cases import cases
from tests.factory import Make, attempt_error
from tests.web.html import Element, get, parse
from tests.web.stand_ins import SlowDriver, browser, dashboard

Htmx = Callable[..., dict[str, str]]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def ids(page: Element) -> list[int]:
    """Return the jobs in the table, from top to bottom."""
    return [
        int(body.attributes["id"].removeprefix("job-")) for body in page.all("tbody", class_="job")
    ]


def rail(page: Element) -> dict[str, str]:
    """Return the labels of the rail of states, with their counts as shown."""
    items = page.one("nav", id="jobs-states").all("li")
    return {item.one(class_="state-name").text: item.one(class_="count").text for item in items}


def notice(page: Element) -> str:
    return " | ".join(element.text for element in page.all(class_="notice"))


class TestAddresses:
    """What an address means, and that there is one for each view."""

    def read(self, text: str, limit: int = 100) -> tuple[addresses.Listing, bool]:
        return addresses.read(QueryParams(text), now=NOW, default_limit=limit)

    @pytest.mark.parametrize(
        ("states", "order"),
        [
            ((), JobOrder.ID_DESC),
            ((JobState.AVAILABLE,), JobOrder.TIME),
            ((JobState.SCHEDULED, JobState.RETRYABLE), JobOrder.TIME),
            ((JobState.RUNNING,), JobOrder.TIME),
            ((JobState.COMPLETED,), JobOrder.TIME_DESC),
            ((JobState.DISCARDED, JobState.RETRYABLE), JobOrder.ID_DESC),
        ],
    )
    def test_default_orders(self, states: tuple[JobState, ...], order: JobOrder) -> None:
        assert addresses.default_order(states) is order

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "q=kind:a%20b",
            "q=kind:mail&state=running",
            "state=scheduled&state=running&order=id",
            "limit=20",
            "state=completed&after=2026-11-21T12:00:00.000000Z~42",
            "before=42",
        ],
    )
    def test_an_address_survives(self, text: str) -> None:
        found, canonical = self.read(text)
        assert canonical
        assert found.query(cursor=found.cursor) == text

    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("kind=mail,ship&queue=&q=tag:a", "q=tag:a%20kind:mail%2Cship"),
            ("kind=new&q=kind:old", "q=kind:new"),
            ("q=state:running%20tag:a", "q=tag:a&state=running"),
            ("q=state:running&state=completed&order=id", "state=running&order=id"),
            (
                "q=-state:completed,discarded,cancelled,running",
                "".join(
                    f"{'&' * (n > 0)}state={state}"
                    for n, state in enumerate(("pending", "scheduled", "available", "retryable"))
                ),
            ),
            ("error=connection%20reset", "q=error:%22connection%20reset%22"),
            ("state=&state=running&id=", "state=running"),
            ("id=&after=nonsense", ""),
            ("tags=vip&state=completed", "q=tag:vip&state=completed"),
            (
                "id=7%2C8&kind=a,b&priority=1,2&queue=q&tags=vip",
                "q=id:7%2C8%20kind:a%2Cb%20queue:q%20priority:1%2C2%20tag:vip",
            ),
            (
                "ids=7&kinds=a&priorities=1&queues=q&states=running",
                "q=id:7%20kind:a%20queue:q%20priority:1&state=running",
            ),
            ("tags=vip&tag=vip&kind=&kind=a", "q=kind:a%20tag:vip"),
            ("limit=40", "limit=50"),
            ("limit=60&state=running", "state=running&limit=50"),
            ("limit=1", "limit=20"),
            ("limit=80", ""),
            ("limit=1000", "limit=200"),
        ],
    )
    def test_addresses_have_a_canonical_form(self, text: str, address: str) -> None:
        found, canonical = self.read(text)
        assert not canonical
        assert found.query() == address
        assert self.read(address)[1]

    @pytest.mark.parametrize(
        "text",
        ["state=nope", "order=up", "limit=1001", "limit=x", "limit=-1", "after=x", "before=x~1"],
    )
    def test_nonsense_outside_the_search_is_refused(self, text: str) -> None:
        with pytest.raises(BadRequest):
            self.read(text)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("tga=vip", "Unknown filter “tga”."),
            ("state=running&customer=42", "Unknown filter “customer”."),
            ("kind=a&kind=b", "“kind” is given more than once. Join the values with a comma"),
            ("tag=a&tags=b", "“tags” is given more than once."),
            ("q=kind:a&q=kind:b", "“q” is given more than once."),
            ("verb=delete", "Unknown filter “verb”."),
            ("%E2%80%AEx=1", "Unknown filter “"),
        ],
    )
    def test_what_is_not_understood_is_told_and_shows_nothing(self, text: str, told: str) -> None:
        found, canonical = self.read(text)
        assert canonical
        assert found.problem.startswith(told)
        with pytest.raises(BadRequest, match="is"):
            _ = found.filter

    def test_all_eight_states_are_all(self) -> None:
        assert self.read("&".join(f"state={state}" for state in JobState))[0].states == ()


async def test_the_page_shows_jobs_newest_first(client: AsyncClient, make: Make) -> None:
    first = await make.job("completed", kind="mail_send", queue="mailers", args={"customer": 42})
    second = await make.job("discarded", tags=["vip"])
    page = await get(client, "/jobs")
    assert ids(page) == [second, first]
    row = page.one("tbody", id=f"job-{first}").text
    for shown in ("mail_send", "mailers", "customer: 42", "1/25"):
        assert shown in row
    assert "it broke" in page.one("tbody", id=f"job-{second}").text
    counts = rail(page)
    assert (counts["All"], counts["Completed"], counts["Discarded"], counts["Running"]) == (
        "2",
        "1",
        "1",
        "0",
    )


async def test_fragments_of_the_page(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    job_id = await make.job()
    answer = await client.get("/jobs?state=available", headers=htmx("jobs-list"))
    assert answer.headers["vary"] == "HX-Request, HX-Target"
    fragment = parse(answer.text)
    assert not fragment.all("html")
    assert fragment.one(id="jobs-list")
    assert ids(fragment) == [job_id]
    states_only = parse((await client.get("/jobs", headers=htmx("jobs-states"))).text)
    assert not states_only.all(id="jobs-list")
    assert rail(states_only)["Available"] == "1"


async def test_first_use(client: AsyncClient) -> None:
    assert "No jobs yet" in (await get(client, "/jobs")).text
    assert "No running jobs" in (await get(client, "/jobs?state=running")).text
    assert "No job matches" in (await get(client, "/jobs?q=kind:x")).text


async def test_searching(client: AsyncClient, make: Make) -> None:
    names = {
        await make.job(
            kind="mail_send", tags=["vip"], args={"customer": {"id": 9007199254740993}}
        ): "mail",
        await make.job(kind="ship", queue="slow", priority=2, args={"list": [1, 2]}): "ship",
        await make.job("retryable", kind="mail_bounce", metadata={"trace": "abc"}): "bounce",
        await make.job(
            "completed",
            kind="mail_send",
            created_at=datetime.now(UTC) - timedelta(days=2),
        ): "old",
    }
    with cases() as case:
        for q, found in (
            ("kind:mail_send", {"mail", "old"}),
            ("mail", {"mail", "old", "bounce"}),
            ("kind:*_send,ship", {"mail", "old", "ship"}),
            ("-mail", {"ship"}),
            ("queue:slow", {"ship"}),
            ("tag:vip", {"mail"}),
            ("tag:v*", {"mail"}),
            ("priority:2", {"ship"}),
            ("args.customer.id:9007199254740993", {"mail"}),
            ("args.customer.id:9007199254740992", set()),
            ('args:{"customer":{}}', {"mail"}),
            ("args.list[]:2", {"ship"}),
            ("metadata.trace:abc", {"bounce"}),
            ("error:BROKE", {"bounce"}),
            ("attempt:>0", {"old", "bounce"}),
            ("attempt:0", {"mail", "ship"}),
            ("created:>1d", {"old"}),
            ("created:<1d mail", {"mail", "bounce"}),
            ("finished:<1h", {"old"}),
            ("state:available,retryable", {"mail", "ship", "bounce"}),
            ("worker:test_host*", {"old", "bounce"}),
        ):
            with case(q):
                answer = await client.get("/jobs", params={"q": q})
                if answer.status_code == 302:
                    answer = await client.get(answer.headers["location"])
                assert answer.status_code == 200
                assert {names[job_id] for job_id in ids(parse(answer.text))} == found


async def test_nonsense_keeps_the_text_and_the_page(client: AsyncClient, htmx: Htmx) -> None:
    text = 'knd:mail "open'
    answer = await client.get("/jobs", params={"q": text})
    assert answer.status_code == 400
    page = parse(answer.text)
    assert page.one("input", id="q").attributes["value"] == text
    assert "did you mean kind:?" in page.one(class_="banner").text
    assert page.one("form", class_="filter-panel")
    assert rail(page)["All"] == "0"
    fragment = await client.get("/jobs", params={"q": text}, headers=htmx("jobs-list"))
    assert fragment.status_code == 400
    assert "closing quote is missing" in fragment.text


async def test_the_plain_filter_form(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    job_id = await make.job(kind="mail")
    page = await get(client, "/jobs?q=tag:x&state=available")
    fields = [(name, value) for name, value in page.one("form", class_="filter-panel").fields()]
    sent: Any = [(name, {"kind": "mail", "tag": ""}.get(name, value)) for name, value in fields]
    answer = await client.get("/jobs", params=sent)
    assert answer.status_code == 302
    assert answer.headers["location"] == "/jobs?q=kind:mail&state=available"
    assert ids(await get(client, answer.headers["location"])) == [job_id]
    by_htmx = await client.get("/jobs", params=sent, headers=htmx("page"))
    assert by_htmx.status_code == 200
    assert by_htmx.headers["hx-push-url"] == "/jobs?q=kind:mail&state=available"
    assert ids(parse(by_htmx.text)) == [job_id]


async def test_chips_take_one_term_away(client: AsyncClient) -> None:
    page = await get(client, "/jobs?q=kind:a%20-tag:%22b%20c%22&state=running")
    chips = {
        chip.one("bdi").text: chip.one("a").attributes["href"] for chip in page.all(class_="chip")
    }
    assert chips == {
        "kind:a": "/jobs?q=-tag:%22b%20c%22&state=running",
        '-tag:"b c"': "/jobs?q=kind:a&state=running",
    }


async def test_the_rail_adds_states_and_the_hints_narrow_them(
    client: AsyncClient, make: Make
) -> None:
    for kind in ("mail", "mail", "odd kind"):
        await make.job("discarded", kind=kind)
    page = await get(client, "/jobs?state=discarded&q=queue:default")
    boxes = {box.attributes["aria-label"]: box.attributes for box in page.all(class_="also")}
    assert boxes["Retryable"]["href"] == ("/jobs?q=queue:default&state=retryable&state=discarded")
    assert (boxes["Discarded"]["href"], boxes["Discarded"]["aria-checked"]) == (
        "/jobs?q=queue:default",
        "true",
    )
    hints = [unquote(hint.attributes["href"]) for hint in page.all(class_="hint")]
    assert hints == [
        "/jobs?q=queue:default finished:<1h&state=discarded",
        "/jobs?q=queue:default kind:mail&state=discarded",
        '/jobs?q=queue:default kind:"odd kind"&state=discarded',
    ]
    failed = await get(client, "/jobs?state=retryable&state=discarded&q=kind:mail")
    assert [hint.attributes["title"] for hint in failed.all(class_="hint")] == ["Only started:<1h"]


@pytest.mark.parametrize(
    "address", ["/jobs?limit=20", "/jobs?state=completed&limit=20", "/jobs?order=id&limit=20"]
)
async def test_paging_forward_and_back(address: str, client: AsyncClient, make: Make) -> None:
    await make.execute(
        """insert into river_job (kind, args, state, finalized_at) select 'k', '{}', 'completed',
        now() - (n % 7) * interval '1 s' from generate_series(1, 50) n
        """
    )
    pages = []
    page = await get(client, address)
    assert "Next" in page.text
    while True:
        pages.append(ids(page))
        nexts = [link for link in page.all("a") if link.text == "Next"]
        if not nexts:
            break
        page = await get(client, nexts[0].attributes["href"])
    assert [len(found) for found in pages] == [20, 20, 10]
    assert len({job_id for found in pages for job_id in found}) == 50
    back = []
    while True:
        back.append(ids(page))
        before = [link for link in page.all("a") if link.text == "Previous"]
        if not before:
            break
        page = await get(client, before[0].attributes["href"])
    assert back == pages[::-1]
    assert page.one(id="jobs-list").attributes["hx-get"] == address


async def test_paging_holds_when_rows_vanish(client: AsyncClient, make: Make) -> None:
    await make.execute(
        "insert into river_job (kind, args) select 'k', '{}' from generate_series(1, 50)"
    )
    first = await get(client, "/jobs?limit=20")
    second = await get(client, first.link("Next"))
    third_url = second.link("Next")
    await make.execute("delete from river_job where id <= 35")
    third = await get(client, third_url)
    assert ids(third) == []
    assert "No more jobs" in third.text
    back = await get(client, third.link("Previous"))
    # Going back ends on the first page, and that is always a full one.
    assert ids(back) == list(range(50, 35, -1))
    assert back.one(id="jobs-list").attributes["hx-get"] == "/jobs?limit=20"


async def test_a_bounded_search_says_so_and_goes_on(driver: Driver, make: Make) -> None:
    await make.execute(
        """insert into river_job (kind, args, tags)
        select 'k', '{}', case when n <= 10 then '{rare}' else '{}' end::varchar[]
        from generate_series(1, 900) n"""
    )
    async with dashboard(driver, search_window=300) as client:
        page = await get(client, "/jobs?q=tag:rare")
        for _ in range(5):
            note = page.one(class_="search-note")
            assert "Searched" in note.text
            page = await get(client, note.link("Search further back"))
            if ids(page):
                break
        assert len(ids(page)) == 10


async def test_a_list_that_times_out_is_a_banner(driver: Driver, make: Make, htmx: Htmx) -> None:
    await make.job()
    slow: Any = SlowDriver(driver, "job_list")
    async with dashboard(slow) as client:
        answer = await client.get("/jobs?q=kind:a")
        assert answer.status_code == 503
        page = parse(answer.text)
        assert "timed out" in page.one(class_="banner").text
        assert rail(page)["Available"] == "1"
        assert page.one("input", id="q").attributes["value"] == "kind:a"
        fragment = await client.get("/jobs?q=kind:a", headers=htmx("jobs-list"))
        assert "timed out" in parse(fragment.text).one(id="jobs-list").text


async def test_counts_that_time_out_leave_the_list_alone(driver: Driver, make: Make) -> None:
    job_id = await make.job()
    slow: Any = SlowDriver(driver, "job_count_by_state", "job_count")
    async with dashboard(slow) as client:
        page = await get(client, "/jobs")
        assert ids(page) == [job_id]
        assert rail(page)["Available"] == "–"


async def test_verbs_fit_the_state(client: AsyncClient, reader: AsyncClient, make: Make) -> None:
    for state in JobState:
        await make.job(state)

    async def verbs(someone: AsyncClient, query: str) -> set[str]:
        page = await get(someone, f"/jobs{query}")
        return {
            button.attributes["data-verb"]
            for button in page.all("button")
            if "data-verb" in button.attributes
        }

    assert await verbs(client, "") == set(JOB_VERBS)
    assert await verbs(client, "?state=running") == {"cancel"}
    assert await verbs(client, "?state=completed") == {"retry", "delete"}
    assert await verbs(client, "?state=available") == {"cancel", "move", "delete"}
    assert await verbs(reader, "") == set()


async def test_retry_without_scripts(client: AsyncClient, make: Make) -> None:
    dead, running = await make.job("discarded"), await make.job("running")
    answer = await client.post(
        "/jobs/retry",
        data={"ids": [str(dead), str(running), "999"], "next": "/jobs?state=discarded"},
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=discarded")
    page = await get(client, "/jobs?state=discarded")
    told = notice(page)
    assert "1 job will run again now" in told
    assert f"1 skipped, still running: #{running}" in told
    assert "1 skipped, not found: #999" in told
    assert await make.states() == {dead: "available", running: "running"}
    assert notice(await get(client, "/jobs")) == ""


async def test_cancel_by_htmx(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    waiting, running = await make.job(), await make.job("running")
    answer = await client.post(
        "/jobs/cancel",
        data={"ids": [str(waiting), str(running)], "next": "/jobs"},
        headers=htmx("notices"),
    )
    assert answer.status_code == 200
    assert answer.headers["hx-trigger"] == "jobs-changed"
    assert answer.headers["hx-retarget"] == "#notices"
    assert "1 job cancelled, 1 running job asked to stop" in parse(answer.text).text
    assert await make.states() == {waiting: "cancelled", running: "running"}


async def test_a_unique_conflict_is_told_in_words(client: AsyncClient, make: Make) -> None:
    unique: dict[str, Any] = {"unique_key": b"k" * 32, "unique_states": "11110101"}
    await make.job(**unique)
    twin, other = await make.job("discarded", **unique), await make.job("discarded")
    await client.post("/jobs/retry", data={"ids": [str(twin), str(other)]})
    told = notice(await get(client, "/jobs"))
    assert "1 job will run again" in told
    assert f"another active job has the same unique properties: #{twin}" in told
    await client.post("/jobs/retry", data={"ids": [str(twin)]})
    assert "No job was retried" in notice(await get(client, "/jobs"))


async def test_delete_asks_first(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    found = [await make.job("completed", kind=f"kind_{n}") for n in range(7)]
    data = {"ids": list(map(str, found)), "next": "/jobs?state=completed"}
    asked = await client.post("/jobs/delete", data=data)
    assert asked.status_code == 200
    form = parse(asked.text).one("form", class_="ask")
    assert "Delete 7 jobs?" in form.text
    assert "kind_0" in form.text
    assert len(await make.states()) == 7

    dialog = await client.post("/jobs/delete", data=data, headers=htmx("dialog"))
    assert not parse(dialog.text).all("html")

    fields: dict[str, list[str]] = {}
    for name, value in form.fields():
        fields.setdefault(name, []).append(value)
    done = await client.post(form.attributes["action"], data=fields)
    assert (done.status_code, done.headers["location"]) == (303, "/jobs?state=completed")
    assert "7 jobs deleted" in notice(await get(client, "/jobs"))
    assert await make.states() == {}


async def test_deleting_from_the_job_page(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    one, two = await make.job(), await make.job()
    data = {"ids": str(one), "confirmed": "1", "next": f"/jobs/{one}"}
    assert (await client.post("/jobs/delete", data=data)).headers["location"] == "/jobs"
    data = {"ids": str(two), "confirmed": "1", "next": f"/jobs/{two}"}
    answer = await client.post("/jobs/delete", data=data, headers=htmx("notices", f"/jobs/{two}"))
    assert answer.headers["hx-redirect"] == "/jobs"


async def test_ids_that_are_none_are_refused(client: AsyncClient) -> None:
    with cases() as case:
        for ids_sent in (
            ["x"],
            ["-"],
            ["1.5"],
            ["9223372036854775808"],
            ["1" * 5000],
            ["1"] * 1001,
            ["1", ""],
        ):
            with case(str(ids_sent)[:40]):
                for verb in ("retry", "cancel", "move", "delete"):
                    answer = await client.post(
                        f"/jobs/{verb}", data={"ids": ids_sent, "confirmed": "1"}
                    )
                    assert answer.status_code == 400, verb


async def test_nothing_selected_is_no_error(client: AsyncClient) -> None:
    for verb in ("retry", "cancel", "move", "delete"):
        assert (await client.post(f"/jobs/{verb}", data={"next": "/jobs"})).status_code == 303
        assert "No job was selected" in notice(await get(client, "/jobs"))


async def test_a_notice_links_to_what_was_changed(client: AsyncClient, make: Make) -> None:
    found = [await make.job("discarded") for _ in range(2)]
    await client.post("/jobs/retry", data={"ids": list(map(str, found))})
    page = await get(client, "/jobs")
    link = page.link("Show them")
    assert parse_qs(urlsplit(link).query)["q"] == [f"id:{found[0]},{found[1]}"]
    assert sorted(ids(await get(client, link))) == found


async def test_counts_are_new_after_an_action(client: AsyncClient, make: Make) -> None:
    job_id = await make.job()
    assert rail(await get(client, "/jobs"))["Available"] == "1"
    await client.post("/jobs/cancel", data={"ids": str(job_id)})
    assert rail(await get(client, "/jobs"))["Cancelled"] == "1"


async def test_a_cancelled_job_shows_its_reason_alone(client: AsyncClient, make: Make) -> None:
    errors = [attempt_error(error="JobCancelError: order was withdrawn")]
    await make.job("cancelled", errors=errors)
    await make.job("discarded", errors=errors)
    page = await get(client, "/jobs?state=cancelled")
    assert page.one(class_="job-error").text == "order was withdrawn"
    page = await get(client, "/jobs?state=discarded")
    assert page.one(class_="job-error").text == "JobCancelError: order was withdrawn"


async def test_selecting_all_matching_knows_how_many(client: AsyncClient, make: Make) -> None:
    await make.execute(
        "insert into river_job (kind, args) select 'k', '{}' from generate_series(1, 60)"
    )
    page = await get(client, "/jobs?limit=20&q=kind:k")
    assert "Select all 60 matching" in page.text
    assert "Select all 60 matching" in (await get(client, "/jobs?limit=20&state=available")).text


async def test_addresses_stay_below_a_mount(app: Starlette, make: Make, htmx: Htmx) -> None:
    found = [await make.job("discarded", kind="mail", queue="a/b", tags=["vip"]) for _ in range(30)]
    host = Starlette(routes=[Mount("/admin/river", app)])
    async with browser(host) as client:
        for path in (
            "/jobs?limit=20&q=kind:mail",
            "/jobs?q=knd:x",
            f"/jobs/{found[0]}",
            "/queues",
            "/queues/a%2Fb",
            "/jobs/bulk?verb=retry",
            "/about",
            "/operations",
        ):
            answer = await client.get(f"/admin/river{path}")
            page = parse(answer.text)
            for element in page.walk():
                for name in (
                    "href",
                    "src",
                    "action",
                    "formaction",
                    "hx-get",
                    "hx-post",
                    "data-suggest",
                ):
                    address = element.attributes.get(name, "")
                    assert not address.startswith("/") or address.startswith("/admin/river/"), (
                        address
                    )
            for field in page.all("input", name="next"):
                assert field.attributes["value"].startswith("/admin/river/"), path
        moved = await client.get("/admin/river/jobs?kind=mail")
        assert moved.headers["location"] == "/admin/river/jobs?q=kind:mail"
        data = {"ids": str(found[0]), "next": "/admin/river/jobs?state=discarded"}
        answer = await client.post("/admin/river/jobs/retry", data=data)
        assert answer.headers["location"] == "/admin/river/jobs?state=discarded"
        page = parse((await client.get(answer.headers["location"])).text)
        assert page.link(f"Job {found[0]}") == f"/admin/river/jobs/{found[0]}"
        data = {"ids": str(found[1]), "next": "/jobs?state=discarded"}
        answer = await client.post("/admin/river/jobs/retry", data=data)
        assert answer.headers["location"] == "/admin/river/jobs"
        answer = await client.post(
            "/admin/river/jobs/retry",
            data={"ids": str(found[2]), "next": "/admin/river/jobs"},
            headers=htmx("notices", "/admin/river/jobs"),
        )
        assert answer.headers["hx-trigger"] == "jobs-changed"


async def test_an_empty_list_leads_to_where_jobs_are(client: AsyncClient, make: Make) -> None:
    await make.job("available")
    await make.job("available")
    await make.job("discarded", kind="mail_send")
    empty = (await get(client, "/jobs?state=running")).one(class_="empty")
    assert "No running jobs" in empty.text
    assert [link.text.strip() for link in empty.all("a")] == [
        "available2 available",
        "discarded1 discarded",
    ]
    assert empty.link("available2 available") == "/jobs?state=available"
    found = (await get(client, "/jobs?state=running&q=kind:mail_send")).one(class_="empty")
    assert "No running job matches this search" in found.text
    assert found.link("Search all states") == "/jobs?q=kind:mail_send"


async def test_a_search_text_is_read_once_and_links_are_made_without_reading_any(
    client: AsyncClient,
    make: Make,
    htmx: Htmx,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = await make.job("running", kind="mail", queue="mailers", tags=["vip", "b c"])
    texts: list[str] = []

    def counted(text: str, now: datetime, **limits: int) -> list[grammar.Part]:
        texts.append(text)
        return read(text, now, **limits)

    read = grammar.read
    monkeypatch.setattr(grammar, "read", counted)
    await get(client, "/jobs?q=kind:mail%20tag:vip&state=running&limit=20")
    assert texts == ["kind:mail tag:vip"]
    texts.clear()
    # Not even where the states move out of the text.
    await client.get("/jobs?q=state:running%20kind:mail", headers=htmx("page"))
    assert texts == ["state:running kind:mail"]
    texts.clear()
    await get(client, "/queues")
    await get(client, "/queues/mailers")
    page = await get(client, f"/jobs/{job_id}")
    assert texts == []
    assert page.link("b c") == "/jobs?q=tag:%22b%20c%22"
