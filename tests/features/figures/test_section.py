"""Charts as pages and as files, and the deletion of stored figures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import httpx2
import pytest
from starlette.applications import Starlette

from riverui.domain.figures import FigureColumn, Figures, Tally, Window
from riverui.features.figures.domain import HOUR, Rollup
from riverui.features.figures.store import RollupStore
from riverui.storage.interface import Driver
from tests.cases import cases
from tests.features.figures.conftest import Connection
from tests.web.html import parse
from tests.web.made_figures import MadeFigures, busy, figures

Htmx = Callable[..., dict[str, str]]


@pytest.fixture
def made(app: Starlette) -> MadeFigures:
    """Give the dashboard fixed figures; return their reader."""
    found = MadeFigures(make=busy)
    found.put_into(app.state.dashboard)
    return found


async def test_each_chart_has_a_page_and_files(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    with cases() as case:
        for chart in ("ended", "wait", "run", "flow"):
            with case(chart):
                made.asked.clear()
                answer = await client.get(
                    f"/figures/{chart}?window=24h&queue=mail+%3Cb%3E&kind=a%26b"
                )
                page = parse(answer.text)
                assert made.asked == [("24h", "mail <b>", "a&b")]
                assert page.one("figure").attributes["id"] == f"chart-{chart}"
                assert "mail <b> a&b" in page.one("h1").text
                json = page.one("figure").link("JSON")
                assert json == f"/figures/{chart}.json?window=24h&queue=mail+%3Cb%3E&kind=a%26b"
                for link in (json, page.one("figure").link("CSV")):
                    assert (await client.get(link)).status_code == 200
                hits = page.all("a", class_="chart-hit")
                assert hits[0].attributes["href"].startswith("/jobs?q=queue:%22mail%20%3Cb%3E%22")
                assert (await client.get(hits[0].attributes["href"])).status_code == 200


async def test_a_chart_as_json_says_what_it_is_of(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    answer = await client.get("/figures/ended.json?queue=mail")
    assert answer.headers["content-type"].startswith("application/json")
    found = answer.json()
    columns = found.pop("columns")
    assert found.pop("read_at").endswith("Z")
    assert found.pop("since").endswith("Z")
    assert found == {
        "chart": "ended",
        "unit": "jobs",
        "window": "1h",
        "step": 60,
        "queue": "mail",
        "kind": None,
        "complete": True,
        "source": "the rows of jobs",
        "trouble": None,
    }
    assert len(columns) == 60
    assert columns[-2].pop("at").endswith(":00Z")
    assert columns[-2] == {
        "finished": True,
        "sampled": 1,
        "completed": 10,
        "cancelled": 0,
        "retried": 2,
        "discarded": 1,
    }
    assert columns[-1]["finished"] is False


async def test_what_is_capped_or_unknown_says_so_in_files(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    def deep(window: Window, queue: str, kind: str) -> Figures:
        return figures(
            window,
            lambda n: (
                FigureColumn(at=datetime.now(UTC), tally=None, waiting=10_000, waiting_capped=True)
                if n == 59
                else None
            ),
        )

    made.make = deep
    columns = (await client.get("/figures/flow.json")).json()["columns"]
    names = ("waiting", "in", "out", "waiting_capped")
    assert [columns[-1][name] for name in names] == [10_000, None, None, True]
    assert [columns[0][name] for name in names] == [None, None, None, False]
    lines = (await client.get("/figures/flow.csv")).text.splitlines()
    assert lines[0] == "at,finished,sampled,waiting,in,out,waiting_capped"
    assert lines[-1].endswith(",false,1,10000,,,true")
    assert len(lines) == 61


async def test_a_csv_is_a_file(client: httpx2.AsyncClient, made: MadeFigures) -> None:
    answer = await client.get("/figures/wait.csv?window=6h")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="wait-6h.csv"'
    head, first, *_ = answer.text.splitlines()
    assert head == "at,finished,sampled,p50,p95,oldest"
    assert first.endswith(",")


async def test_a_chart_that_there_is_not(client: httpx2.AsyncClient, made: MadeFigures) -> None:
    for path in ("/figures/x", "/figures/ended.xml", "/figures/.json"):
        answer = await client.get(path)
        assert answer.status_code == 404
        assert "The charts are ended, wait, run, flow." in answer.text
    answer = await client.get("/figures/ended.json?window=2h")
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("Unknown window")


async def test_addresses_of_charts_are_checked(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    with cases() as case:
        for query, words in (
            ("window=1h&window=6h", "“window” can be given only once."),
            ("queue=" + "x" * 2_000, "The name of the queue is too long."),
            ("kind=" + "x" * 2_000, "The name of the kind is too long."),
        ):
            with case((query[:60], words)):
                answer = await client.get(f"/figures/ended?{query}")
                assert answer.status_code == 400
                assert words in parse(answer.text).text


@pytest.mark.usefixtures("own_tables")
async def test_stored_figures_are_deleted_once_that_is_confirmed(
    client: httpx2.AsyncClient, driver: Driver, connection: Connection, htmx: Htmx
) -> None:
    async def rows() -> int:
        return len(await (await connection.execute("select 1 from riverui_rollup")).fetchall())

    at = datetime(2026, 11, 22, 12, tzinfo=UTC)
    stored = Rollup(at=at, span=HOUR, pairs={("mail", "send"): Tally(completed=1)})
    async with driver.transaction() as transaction:
        await RollupStore(transaction).rollup_put([stored])
    assert (await client.post("/database/figures/delete")).status_code == 400
    assert await rows() == 3
    confirmed = {"confirmed": "1"}
    answer = await client.post("/database/figures/delete", data=confirmed)
    assert (answer.status_code, answer.headers["location"]) == (303, "/database")
    assert "Stored figures deleted" in (await client.get("/database")).text
    assert await rows() == 0
    answer = await client.post(
        "/database/figures/delete", data=confirmed, headers=htmx("notices", "/database")
    )
    assert answer.headers["hx-trigger"] == "database-changed"


async def test_without_the_table_there_is_nothing_to_delete(client: httpx2.AsyncClient) -> None:
    assert "own tables" not in (await client.get("/database")).text
    answer = await client.post("/database/figures/delete", data={"confirmed": "1"})
    assert answer.status_code == 501
    assert "riverui migrate-up --line riverui" in answer.text
