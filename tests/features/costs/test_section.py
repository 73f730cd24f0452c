"""The costs of kinds: their table, the card of a kind, and the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.domain.figures import OTHER, Figures, Tally, Window
from tests.factory import Make
from tests.web.api.test_openapi import validate
from tests.web.html import parse
from tests.web.made_figures import MadeFigures, figures, tally

Connection = AsyncConnection[Any]


def made(window: Window, queue: str, kind: str) -> Figures:
    """Return three kinds: a slow one, one whose processor time is known, and all others."""
    quick = tally(8, run=0.01)
    quick.cpu_us, quick.cpu_attempts = 320, 4
    tallies = {"slow": tally(2, run=60), "quick": quick, OTHER: tally(1, run=1)}
    shown = {name: each for name, each in tallies.items() if kind in ("", name)}
    found = figures(window, lambda n: Tally())
    return replace(found, pairs={("default", name): each for name, each in shown.items()})


@pytest.fixture
async def read(client: httpx2.AsyncClient, app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a browser for a dashboard with these figures."""
    MadeFigures(make=made).put_into(app.state.dashboard)
    yield client
    await app.state.dashboard.close()


def kinds(text: str) -> list[str]:
    return [row.text.split()[0] for row in parse(text).one("tbody").all("tr")]


async def test_the_costliest_kind_comes_first(read: httpx2.AsyncClient, make: Make) -> None:
    for n in range(12):
        await make.job(kind="quick", args={"text": f"{n}" * 300})
    page = (await read.get("/costs")).text
    assert kinds(page) == ["slow", "all", "quick"]
    assert kinds((await read.get("/costs?order=cpu")).text)[0] == "quick"
    assert kinds((await read.get("/costs?order=args")).text)[0] == "quick"
    assert (await read.get("/costs?order=age")).status_code == 400
    slow, _, quick = [row.text for row in parse(page).one("tbody").all("tr")]
    # No row of the kind is left, and none of its jobs was measured.
    assert slow.count("?") == 6
    assert slow.count("1 m 0 s") == 1
    assert "?" in quick
    assert "640 µs" in quick
    assert "80 µs" in quick
    assert "Database time needs pg_stat_statements" in page


async def test_a_kind_says_what_it_costs(read: httpx2.AsyncClient, make: Make) -> None:
    for kind in ("slow", "quick"):
        await make.job(kind=kind)
    page = parse((await read.get("/kinds/quick")).text)
    card = next(each for each in page.all("section") if "Costs" in each.text[:20]).text
    assert "80 µs" in card
    assert "3 row versions a job" in card
    assert "CPU is measured only" not in card
    assert "CPU is measured only" in parse((await read.get("/kinds/slow")).text).text


async def test_programs_are_answered_the_same(read: httpx2.AsyncClient, make: Make) -> None:
    await make.job(kind="quick")
    answer = (await read.get("/api/kind-costs")).json()
    validate("Costs", answer)
    assert (answer["window"], answer["wal_source"]) == ("1h", "rows")
    slow, others, quick = answer["data"]
    assert (slow["kind"], slow["worker_seconds"], slow["wal_bytes"]) == ("slow", 120.0, None)
    assert others["kind"] == "*"
    assert (quick["jobs"], quick["cpu_seconds"], quick["rows"]) == (8, 0.00064, 3.0)
    assert quick["wal_bytes"] > 1_000
    (one,) = (await read.get("/api/kind-costs?kind=quick&window=24h")).json()["data"]
    assert one["kind"] == "quick"


async def test_odd_documents_hide_no_other_kind(
    read: httpx2.AsyncClient, make: Make, connection: Connection
) -> None:
    for kind in ("slow", "quick"):
        await make.job(kind=kind)
    nested = f"{'[' * 5_000}{']' * 5_000}"
    await connection.execute(
        "update river_job set args = %s, metadata = '[]' where kind = 'slow'", [nested]
    )
    data = (await read.get("/api/kind-costs")).json()["data"]
    assert [cost["wal_bytes"] is None for cost in data] == [False, True, False]


async def test_no_jobs_ended(client: httpx2.AsyncClient, app: Starlette) -> None:
    assert "No jobs ended in the last hour" in (await client.get("/costs")).text

    def unread(window: Window, queue: str, kind: str) -> Figures:
        return figures(window, lambda n: None, read_at=None, trouble="The database is away.")

    MadeFigures(make=unread).put_into(app.state.dashboard)
    page = (await client.get("/costs")).text
    assert "The database is away." in page
    assert "No jobs ended" not in page
    await app.state.dashboard.close()
