"""What live regions ask for by themselves: drawn once for all who see the same, never sent to
anybody else, and new after every action.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from starlette.requests import HTTPConnection

from riverui import create_app
from riverui.engine.feature_list import plain_pilot
from riverui.errors import DatabaseUnavailable
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.rights import EVERYTHING, READ_ONLY, Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.access_log import AccessLog
from riverui.web.http.context import AppOptions
from riverui.web.http.gate import REFRESHES
from riverui.web.http.refreshes import Refreshes, RefreshKey, RefreshLimits, Rendering
from riverui.web.view.preferences import Preferences
from tests.factory import Make
from tests.test_together import until
from tests.web.stand_ins import DeadDriver, browser, dashboard

Row = AsyncConnection[DictRow]


def live(
    target: str = "section#jobs-list", seconds: int = 2, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Headers of a region that asks by itself."""
    return {
        "HX-Request": "true",
        "HX-Target": target,
        "HX-Source": target,
        "HX-Current-URL": "http://river.test/jobs",
        "Riverui-Live": str(seconds),
        **(more or {}),
    }


class Counting:
    """A dashboard whose job lists are counted as they are read."""

    def __init__(self, url: str, **options: Any) -> None:
        self.statements: list[str] = []
        self.driver = connect(url, watch=lambda name, *_: self.statements.append(name))
        self.app = create_app(self.driver, **({"no_auth": True} | options))

    @property
    def lists(self) -> int:
        return self.statements.count("job_list") + self.statements.count("job_list_merged")


@asynccontextmanager
async def counting(url: str, **options: Any) -> AsyncIterator[Counting]:
    found = Counting(url, **options)
    try:
        yield found
    finally:
        await found.app.state.dashboard.get(REFRESHES).close()
        await found.app.state.dashboard.counts.close()
        await found.driver.close()


@pytest.fixture
async def counted(database_url: str) -> AsyncIterator[Counting]:
    async with counting(database_url) as found:
        yield found


async def test_many_viewers_of_one_list_cost_one_reading(counted: Counting, make: Make) -> None:
    job = await make.job()
    async with browser(counted.app) as client:
        answers = await asyncio.gather(*(client.get("/jobs", headers=live()) for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.text for answer in answers} == {answers[0].text}
        assert f"job-{job}" in answers[0].text
        await client.get("/jobs", headers=live())
        assert counted.lists == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"HX-Request": "true", "HX-Target": "section#jobs-list"},
        {"HX-Request": "true", "Riverui-Live": "2"},
        {"HX-Target": "section#jobs-list", "Riverui-Live": "2"},
        live(seconds=0) | {"Riverui-Live": "soon"},
        live() | {"Riverui-Live": "999999999999"},
    ],
)
async def test_whoever_else_asks_reads_the_database(
    counted: Counting, make: Make, headers: Mapping[str, str]
) -> None:
    await make.job()
    async with browser(counted.app) as client:
        await client.get("/jobs", headers=live())
        job = await make.job()
        answer = await client.get("/jobs", headers=dict(headers))
        assert f"job-{job}" in answer.text
        assert "etag" not in answer.headers


async def test_each_refresh_shows_new_jobs_when_due(driver: Driver, make: Make) -> None:
    now = 0.0
    app = build_app(
        driver, SignIn(no_auth=True), pilot=plain_pilot(), options=AppOptions(clock=lambda: now)
    )
    async with browser(app) as client:
        await client.get("/jobs", headers=live())
        job = await make.job()
        assert f"job-{job}" not in (await client.get("/jobs", headers=live())).text
        now += 1
        assert f"job-{job}" not in (await client.get("/jobs", headers=live())).text
        # Who looks more often is not kept waiting by those who do not.
        assert f"job-{job}" in (await client.get("/jobs", headers=live(seconds=1))).text
        other = await make.job()
        now += 1.95
        assert f"job-{other}" in (await client.get("/jobs", headers=live())).text
    await app.state.dashboard.close()


async def test_an_action_shows_at_once_whoever_did_it(counted: Counting, make: Make) -> None:
    job = await make.job()
    path, headers = "/jobs?state=cancelled", live()
    async with browser(counted.app) as onlooker, browser(counted.app) as actor:
        assert f"job-{job}" not in (await onlooker.get(path, headers=headers)).text
        done = await actor.post("/jobs/cancel", data={"ids": str(job), "next": "/jobs"})
        assert done.status_code == 303
        assert f"job-{job}" in (await onlooker.get(path, headers=headers)).text
        # What was refused changed nothing, and nothing is drawn for it.
        before = counted.lists
        assert (await actor.post("/jobs/cancel", data={})).status_code == 400
        await onlooker.get(path, headers=headers)
        assert counted.lists == before


async def test_nothing_new_is_told_in_a_few_bytes(counted: Counting, make: Make) -> None:
    job = await make.job()
    async with browser(counted.app) as client:
        first = await client.get("/jobs", headers=live())
        name = first.headers["etag"]
        again = await client.get("/jobs", headers=live(more={"If-None-Match": name}))
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == name
        assert again.headers["cache-control"] == "no-store"
        assert "content-encoding" not in again.headers
        counted.app.state.dashboard.get(REFRESHES).expire()
        # Drawn anew, later, and the same but for how long ago everything was.
        await make.execute("update river_job set created_at = created_at where id = %s", [job])
        later = await client.get("/jobs", headers=live(more={"If-None-Match": name}))
        assert later.status_code == 304
        counted.app.state.dashboard.get(REFRESHES).expire()
        await make.execute("update river_job set priority = 4 where id = %s", [job])
        changed = await client.get("/jobs", headers=live(more={"If-None-Match": name}))
        assert changed.status_code == 200
        assert changed.headers["etag"] != name


async def test_fragments_are_compressed(counted: Counting, make: Make) -> None:
    await make.job()
    async with browser(counted.app) as client:
        plain = await client.get("/jobs", headers=live(more={"Accept-Encoding": "identity"}))
        assert "content-encoding" not in plain.headers
        zipped = await client.get("/jobs", headers=live(more={"Accept-Encoding": "br, gzip"}))
        assert zipped.headers["content-encoding"] == "gzip"
        assert int(zipped.headers["content-length"]) < len(plain.content)
        assert zipped.text == plain.text
        assert zipped.headers["etag"] == plain.headers["etag"]
        assert "Accept-Encoding" in zipped.headers["vary"]


REGION = re.compile(r'<(\w+)\s+id="([^"]+)"[^>]*\sdata-region="(?!error)[^>]*\shx-get="([^"]+)"')
CLOCKS = re.compile(r"(in )?(\d+ (s|m|h|ms) ?)+(ago)?|now|counted[^\"]*")


async def test_shared_drawings_hold_nothing_of_a_viewer(driver: Driver, make: Make) -> None:
    """Every live page there is, for a viewer with a name, a cookie, a password and a notice."""
    job = await make.job("running")
    await make.queue()
    await make.leader()
    app = create_app(
        driver,
        authenticate=lambda _: Access(user="grace-the-viewer"),
        config=DashboardConfig(env_name="env-badge", charts=False),
    )
    pages = ["/jobs", "/jobs?state=running", f"/jobs/{job}", "/queues", "/queues/default"]
    pages += ["/operations", "/about", "/jobs?q=kind%3Atest_kind"]
    secrets = {
        "Authorization": "Basic c2VjcmV0LXVzZXI6c2VjcmV0LXBhc3M=",
        "Cookie": "session=secret-session; riverui_notice=secret-notice",
        "User-Agent": "secret-agent",
        "Referer": "http://river.test/secret-referer",
        "X-Request-Id": "secret-id",
    }
    shared_keys: list[RefreshKey] = []
    refreshes = app.state.dashboard.get(REFRESHES)
    answer = refreshes.answer

    async def seen(key: RefreshKey, *rest: Any, **more: Any) -> Any:
        shared_keys.append(key)
        return await answer(key, *rest, **more)

    refreshes.answer = seen
    async with browser(app) as client:
        for path in pages:
            page = await client.get(path, headers=secrets)
            region = REGION.search(page.text)
            assert region is not None, path
            target = f"{region[1]}#{region[2]}"
            asked = region[3].replace("&amp;", "&")
            own_headers = {k: v for k, v in live(target).items() if k != "Riverui-Live"}
            own = await client.get(asked, headers=own_headers | secrets)
            got = await client.get(asked, headers=live(target) | secrets)
            assert (own.status_code, got.status_code) == (200, 200)
            assert CLOCKS.sub("·", got.text) == CLOCKS.sub("·", own.text), path
            for word in ("grace-the-viewer", "secret"):
                assert word not in got.text, path
                assert word not in repr(got.headers.multi_items()), path
            assert "set-cookie" not in got.headers
        assert len(shared_keys) == len(pages)
        assert "secret" not in repr(shared_keys)
        assert "grace" not in repr(shared_keys)
    await app.state.dashboard.close()


async def test_what_drawings_depend_on(database_url: str, make: Make) -> None:
    job = await make.job("available", args={"customer": 42})

    def who(asker: HTTPConnection) -> Access:
        name = asker.headers.get("x-user", "")
        return Access(user=name, rights=READ_ONLY if name == "reader" else EVERYTHING)

    async with counting(database_url, no_auth=False, authenticate=who) as counted:
        async with browser(counted.app) as client:
            everything = await client.get("/jobs", headers=live(more={"x-user": "a"}))
            same = await client.get("/jobs", headers=live(more={"x-user": "b"}))
            assert same.text == everything.text
            assert "data-bulk" in everything.text
            read = await client.get("/jobs", headers=live(more={"x-user": "reader"}))
            assert "data-bulk" not in read.text
            assert counted.lists == 2
            assert "customer" in everything.text
        async with browser(counted.app) as hiding:
            await hiding.post(
                "/preferences",
                data={"show_args": "0", "next": "/jobs"},
                headers={"x-user": "a"},
            )
            hidden = await hiding.get("/jobs", headers=live(more={"x-user": "a"}))
            assert "customer" not in hidden.text
        async with browser(counted.app) as client:
            assert (
                "customer" in (await client.get("/jobs", headers=live(more={"x-user": "a"}))).text
            )
            states = await client.get("/jobs", headers=live("nav#jobs-states"))
            assert f"job-{job}" not in states.text
        async with browser(counted.app, root_path="/river") as mounted:
            below = await mounted.get("/river/jobs", headers=live())
            assert f'href="/river/jobs/{job}"' in below.text


async def test_who_may_not_see_it_gets_no_kept_drawing(database_url: str, make: Make) -> None:
    job = await make.job()

    def who(asker: HTTPConnection) -> Access | None:
        name = asker.headers.get("x-user")
        if name is None:
            return None
        return Access(user=name, rights=EVERYTHING if name == "ada" else frozenset())

    async with (
        counting(database_url, no_auth=False, authenticate=who) as counted,
        browser(counted.app) as client,
    ):
        shown = await client.get("/jobs", headers=live(more={"x-user": "ada"}))
        assert f"job-{job}" in shown.text
        name = {"If-None-Match": shown.headers["etag"]}
        for headers in (live(more=name), live(more={"x-user": "eve", **name})):
            refused = await client.get("/jobs", headers=headers)
            assert refused.status_code == 403
            assert f"job-{job}" not in refused.text
            assert "etag" not in refused.headers


async def test_a_whole_page_is_never_shared(counted: Counting, make: Make) -> None:
    await make.job()
    async with browser(counted.app) as client:
        page = await client.get("/jobs", headers=live("div#page"))
        assert "<!doctype html>" in page.text.lower()
        assert "etag" not in page.headers
        assert counted.app.state.dashboard.get(REFRESHES).kept == {}


async def test_searches_by_steps_are_not_shared(database_url: str, make: Make) -> None:
    await make.execute(
        "insert into river_job (kind, args) select 'k', '{}' from generate_series(1, 850)"
    )
    config = DashboardConfig(search_window=300)
    async with (
        counting(database_url, config=config) as counted,
        browser(counted.app) as client,
    ):
        path = "/jobs?q=tag%3Anobody"
        first, second = await asyncio.gather(*(client.get(path, headers=live()) for _ in range(2)))
        searches = {re.findall(r"search=([0-9a-f]{8})", one.text)[0] for one in (first, second)}
        assert len(searches) == 2


async def test_failures_are_told_to_all_who_wait_and_not_kept() -> None:
    driver = DeadDriver(DatabaseUnavailable("no route to it"))
    async with dashboard(driver) as client:
        answers = await asyncio.gather(*(client.get("/jobs", headers=live()) for _ in range(3)))
        assert {answer.status_code for answer in answers} == {503}
        assert all("cannot be reached" in answer.text for answer in answers)
        assert all("etag" not in answer.headers for answer in answers)
        driver.error = DatabaseUnavailable("still away")
        assert "still away" in (await client.get("/jobs", headers=live())).text


async def test_the_log_tells_of_refreshes_only_in_detail_or_where_they_fail(
    counted: Counting, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    await make.job()
    caplog.set_level(logging.DEBUG, logger="riverui.http")
    async with browser(AccessLog(counted.app)) as client:
        await client.get("/jobs")
        await client.get("/jobs", headers=live())
        await client.get("/jobs/999", headers=live("section#job"))
    assert [
        (record.levelname, record.__dict__["path"], record.__dict__["status"])
        for record in caplog.records
        if record.name == "riverui.http"
    ] == [("INFO", "/jobs", 200), ("DEBUG", "/jobs", 200), ("INFO", "/jobs/999", 404)]


def key(path: str = "/jobs") -> RefreshKey:
    return RefreshKey(
        base="",
        path=path,
        query=b"",
        target=b"section#jobs-list",
        rights=READ_ONLY,
        read_only="",
        preferences=Preferences(),
    )


def rendering(body: bytes = b"<p>jobs</p>", status: int = 200) -> Rendering:
    return Rendering(status, (), body, route="jobs.index")


class Draughtsman:
    """Draws when it is told to, and counts."""

    def __init__(self) -> None:
        self.drawn = 0
        self.begun = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> Rendering:
        self.begun += 1
        await self.go.wait()
        if self.error:
            raise self.error
        self.drawn += 1
        return rendering(b"drawing %d" % self.drawn)


async def begun(draw: Draughtsman, number: int = 1) -> None:
    await until(lambda: draw.begun >= number)


async def test_who_gives_up_waiting_takes_the_drawing_from_nobody() -> None:
    refreshes, draw = Refreshes(), Draughtsman()
    first = asyncio.create_task(refreshes.answer(key(), draw, 2))
    second = asyncio.create_task(refreshes.answer(key(), draw, 2))
    await begun(draw)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    draw.go.set()
    found = await second
    assert found is not None
    assert found.body == b"drawing 1"
    assert await refreshes.answer(key(), draw, 2) is found
    assert draw.begun == 1


async def test_what_was_begun_before_an_action_is_not_given_to_who_asks_after_it() -> None:
    refreshes, draw = Refreshes(), Draughtsman()
    before = asyncio.create_task(refreshes.answer(key(), draw, 2))
    await begun(draw)
    refreshes.expire()
    after = asyncio.create_task(refreshes.answer(key(), draw, 2))
    await begun(draw, 2)
    draw.go.set()
    early, late = await before, await after
    assert early is not None
    assert late is not None
    assert early is not late
    # The later of the two is kept, whichever ended last.
    assert await refreshes.answer(key(), draw, 2) is late


async def test_actions_that_come_fast_do_not_have_everything_drawn_all_the_time() -> None:
    refreshes, draw = Refreshes(), Draughtsman()
    draw.go.set()
    began = asyncio.get_running_loop().time()
    for _ in range(4):
        refreshes.expire()
        await asyncio.gather(*(refreshes.answer(key(), draw, 2) for _ in range(20)))
    assert draw.begun == 4
    assert asyncio.get_running_loop().time() - began > 0.7


async def test_a_slow_drawing_is_kept_for_longer() -> None:
    now = 0.0
    refreshes = Refreshes(clock=lambda: now)

    async def make() -> Rendering:
        nonlocal now
        now += 3
        return rendering()

    found = await refreshes.answer(key(), make, 2)
    now += 2.9
    assert await refreshes.answer(key(), make, 2) is found
    now += 0.2
    assert await refreshes.answer(key(), make, 2) is not found


async def test_where_all_is_slow_who_asks_gets_the_old_one_while_the_new_one_is_made() -> None:
    now = 0.0
    refreshes, draw = Refreshes(clock=lambda: now), Draughtsman()
    draw.go.set()
    first = await refreshes.answer(key(), draw, 2)
    draw.go.clear()
    now += 3
    assert await refreshes.answer(key(), draw, 2, slow=True) is first
    await begun(draw, 2)
    assert await refreshes.answer(key(), draw, 2, slow=True) is first
    waiting = asyncio.create_task(refreshes.answer(key(), draw, 2))
    draw.go.set()
    second = await waiting
    assert second is not first
    assert draw.begun == 2
    assert await refreshes.answer(key(), draw, 2, slow=True) is second
    # Neither what an action made old nor what nobody would take for new.
    refreshes.expire()
    now += 1
    third = await refreshes.answer(key(), draw, 2, slow=True)
    assert third is not second
    now += 6
    assert await refreshes.answer(key(), draw, 2, slow=True) is not third


async def test_memory_is_bounded_by_number_and_by_bytes() -> None:
    async def ask(refreshes: Refreshes, path: str, body: bytes) -> None:
        async def make() -> Rendering:
            return rendering(body)

        await refreshes.answer(key(path), make, 2)

    few = Refreshes(RefreshLimits(entries=3))
    for number in range(10):
        await ask(few, f"/{number}", b"x")
    assert [one.path for one in few.kept] == ["/7", "/8", "/9"]
    small = Refreshes(RefreshLimits(bytes=100_000))
    for number in range(10):
        await ask(small, f"/{number}", b"x" * 20_000)
    kept = len(small.kept)
    assert 1 <= kept <= 5
    assert sum(one.size for one in small.kept.values()) <= 100_000
    await ask(small, "/large", b"x" * 200_000)
    assert key("/large") not in small.kept
    # Whatever came and went, there is room for as many as at first.
    for number in range(100):
        await ask(small, f"/{number % 7}", b"x" * 20_000)
    assert len(small.kept) == kept


async def test_what_is_long_over_leaves_the_memory() -> None:
    now = 0.0
    refreshes = Refreshes(clock=lambda: now)

    async def make() -> Rendering:
        return rendering()

    await refreshes.answer(key("/old"), make, 2)
    now += 61
    await refreshes.answer(key("/new"), make, 2)
    assert list(refreshes.kept) == [key("/new")]


async def test_a_drawing_under_way_ends_with_the_dashboard() -> None:
    refreshes, draw = Refreshes(), Draughtsman()
    waiting = asyncio.create_task(refreshes.answer(key(), draw, 2))
    await begun(draw)
    await refreshes.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_times_that_tick_are_no_news() -> None:
    row = '<tr id="job-{}"><td><time datetime="2026-11-21T09:00:00Z" title="t">{}</time></td></tr>'
    names = {rendering(row.format(1, ago).encode()).etag for ago in ("3 s ago", "1 m ago", "")}
    assert len(names) == 1
    assert rendering(row.format(2, "3 s ago").encode()).etag not in names
    assert gzip.decompress(rendering(b"<p>jobs</p>").zipped) == b"<p>jobs</p>"
