"""The page of the database, its part of the API, and `riverui doctor`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import psycopg
import pytest
from httpx2 import AsyncClient

from riverui import Access
from riverui.domain.figures import Tally
from riverui.features.figures.domain import HOUR, Rollup
from riverui.features.figures.store import RollupStore
from riverui.storage.interface import Driver
from tests.cli.conftest import Ways, shop, ways
from tests.factory import Make
from tests.test_cli import Run, run
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, dashboard

__all__ = ["run", "shop", "ways"]


async def test_a_healthy_database_and_a_faulty_one(client: AsyncClient, make: Make) -> None:
    page = parse((await client.get("/database")).text).one(id="database")
    assert page.one("h2", class_="standing-words").text == "Nothing is wrong with the database."
    assert not page.all("pre")
    await make.execute("drop index river_job_kind")
    await make.execute("create index twin on river_job using btree (id)")
    page = parse((await client.get("/database")).text).one(id="database")
    assert "Index river_job_kind is missing." in page.one("h2", class_="standing-words").text
    statement = "create index concurrently river_job_kind on public.river_job using btree (kind);"
    assert page.one("pre", id="statement-missing_indexes").text == statement
    assert "twin is the same as river_job_pkey." in page.text
    found = (await client.get("/api/database")).json()
    assert (found["level"], found["headline"]) == ("warn", "Index river_job_kind is missing.")
    assert found["findings"][0]["statement"] == statement
    assert "river_job" in [table["name"] for table in found["tables"]]


async def test_names_are_escaped(client: AsyncClient, make: Make) -> None:
    await make.execute('create index "<b>\u202e" on river_job using btree (kind)')
    page = await client.get("/database")
    assert "&lt;b&gt;" in page.text
    assert "\u202e" not in page.text


async def test_who_may_see_it(driver: Driver, client: AsyncClient) -> None:
    stranger = Access(user="ada", rights=frozenset({"jobs.read"}))
    async with dashboard(driver, access=stranger) as other:
        assert (await other.get("/database")).status_code == 403
        assert (await other.get("/api/database")).status_code == 403
        assert 'href="/database"' not in (await other.get("/jobs")).text
    assert 'href="/database"' in (await client.get("/jobs")).text
    options = parse((await client.get("/palette", params={"q": "vacu"})).text).all("a")
    assert "/database" in [option.attributes["href"] for option in options]
    async with dashboard(DeadDriver()) as other:
        assert (await other.get("/database")).status_code == 503
        assert (await other.get("/api/database")).status_code == 503


async def test_stored_figures_are_deleted_here(
    own_tables: None, client: AsyncClient, reader: AsyncClient, driver: Driver
) -> None:
    at = datetime(2026, 11, 22, 12, tzinfo=UTC)
    stored = Rollup(at=at, span=HOUR, pairs={("mail", "send"): Tally(completed=1)})
    async with driver.transaction() as transaction:
        await RollupStore(transaction).rollup_put([stored])
    assert "Delete all stored figures" in (await client.get("/database")).text
    seen = (await reader.get("/database")).text
    assert "riverui_rollup" in seen
    assert "Delete all stored figures" not in seen
    assert (await reader.post("/database/figures/delete")).status_code == 403


def test_the_command(run: Run, ways: Ways) -> None:
    with psycopg.connect(ways.database["DATABASE_URL"], autocommit=True) as connection:
        for environ in ways.both():
            code, out, err = run("doctor", **environ)
            assert (code, err) == (0, "")
            assert out.startswith("✓ Nothing is wrong with the database.\n")
        connection.execute("drop index river_job_kind")
        for environ in ways.both():
            code, out, err = run("doctor", **environ)
            assert (code, err) == (1, "")
            assert "⚠ Missing indexes: Index river_job_kind is missing." in out
            assert "\n    create index concurrently river_job_kind on" in out
        connection.execute("drop index river_job_unique_idx")
        code, out, _ = run("doctor", "--json", **ways.database)
        assert (code, json.loads(out)["level"]) == (2, "critical")


@pytest.mark.parametrize(
    "given", [("--api", "http://127.0.0.1:1"), ("--database-url", "postgres://127.0.0.1:1/none")]
)
def test_no_answer(run: Run, given: tuple[str, str]) -> None:
    code, out, err = run("doctor", *given)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
