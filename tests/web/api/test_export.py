"""A selection as a file: complete, safe for spreadsheets, without secrets, and in bounded
memory.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette
from starlette.types import Message

from riverui import create_app
from riverui.domain.jobs import JobTextRow
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.sections.jobs import export
from tests.factory import Make
from tests.web.stand_ins import DeadDriver, browser, dashboard

Connection = AsyncConnection[dict[str, Any]]


async def lines(api: AsyncClient, **params: Any) -> list[dict[str, Any]]:
    answer = await api.get("jobs/export", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_every_job_of_the_selection_is_there_once(api: AsyncClient, make: Make) -> None:
    await make.execute(
        "insert into river_job (args, kind, max_attempts, state, scheduled_at)"
        " select jsonb_build_object('n', n), 'bulk', 25, 'available', '2026-11-21T09:00:00Z'"
        " from generate_series(1, 2500) n"
    )
    running = await make.job("running")
    for order in ("id", "-id", "time", "-time"):
        found = [line["id"] for line in await lines(api, order=order)]
        assert len(found) == len(set(found)) == 2501
    assert [line["id"] for line in await lines(api, state="running")] == [running]
    assert len(await lines(api, q="kind:bulk")) == 2500
    assert (await lines(api, ids=str(running)))[0] == (await api.get("jobs")).json()["data"][0]
    assert await lines(api, kinds="none") == []


async def test_a_table_is_safe_to_open(api: AsyncClient, make: Make) -> None:
    await make.job(
        kind='=HYPERLINK("http://evil")',
        queue="+1",
        tags=["@a", "b,c"],
        args={"text": 'a "quote"\n'},
    )
    answer = await api.get("jobs/export", params={"format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="jobs.csv"'
    header, row = csv.reader(io.StringIO(answer.text))
    assert tuple(header) == JobTextRow._fields[:-4]
    found = dict(zip(header, row, strict=True))
    assert found["kind"] == '\'=HYPERLINK("http://evil")'
    assert found["queue"] == "'+1"
    assert json.loads(found["tags"]) == ["@a", "b,c"]
    assert json.loads(found["args"]) == {"text": 'a "quote"\n'}
    assert (found["attempted_at"], found["attempt"]) == ("", "0")


FORMULAS = (
    *(
        f"{before}{sign}1"
        for sign in "=+-@＝＋－＠﹦"
        for before in ("", " ", "\n", "\t", "\r", "\ufeff", "|", ";", ",", '"', "'", "\u202e")
    ),
    "\u3000 \u00a0=1",
    "\x01\x1f=1",
    "\u200b\n\u200e＝1",
    "'\u2066;\" | =1",
    "\ttext",
    "\rtext",
    "\ntext",
)
TEXTS = ("mail", " mail", "a=b", "1-2", "ﬁ＝", "(=1)", "\u00a0x", "|x", "a|=1", '"x"', "1;2")


async def test_formulas_stay_text(api: AsyncClient, make: Make) -> None:
    """Formulas get a quote in front, also behind what a spreadsheet may skip or split at; other
    texts are written as they are.
    """
    for text in (*FORMULAS, *TEXTS):
        await make.job(kind=text)
    answer = await api.get("jobs/export", params={"format": "csv", "order": "id"})
    written = [row["kind"] for row in csv.DictReader(io.StringIO(answer.text, newline=""))]
    assert written == [*(f"'{text}" for text in FORMULAS), *TEXTS]


async def test_secrets_stay_here(api: AsyncClient, driver: Driver, make: Make) -> None:
    await make.job(args='{"user": "ada", "password": "hunter2", "amount": 1.10}')
    for name in ("ndjson", "csv"):
        text = (await api.get("jobs/export", params={"format": name})).text
        assert "hunter2" not in text
        assert "[redacted]" in text
        assert "1.10" in text
    config = DashboardConfig(redact_keys=("user",))
    async with browser(create_app(driver, no_auth=True, config=config)) as client:
        text = (await client.get("/api/jobs/export")).text
        assert "hunter2" in text
        assert "ada" not in text


@pytest.mark.parametrize(
    "params", [{"format": "xlsx"}, {"q": "kind:"}, {"state": "x"}, {"order": "x"}], ids=str
)
async def test_exports_that_make_no_sense(api: AsyncClient, params: dict[str, str]) -> None:
    answer = await api.get("jobs/export", params=params)
    assert answer.status_code == 400
    assert answer.json()["message"]


async def test_a_database_in_trouble_is_an_error_like_any_other() -> None:
    async with dashboard(DeadDriver()) as client:
        assert (await client.get("/api/jobs/export")).status_code == 503


async def test_asking_for_the_head_reads_nothing_more(api: AsyncClient, make: Make) -> None:
    await make.job()
    answer = await api.head("jobs/export")
    assert (answer.status_code, answer.text) == (200, "")


def test_pages_shrink_where_jobs_are_big() -> None:
    def row(size: int) -> JobTextRow:
        return JobTextRow._make([*["x" * size] * 14, (), (), "{}", ()])

    assert export.next_size(50, [row(10)] * 50) == 100
    assert export.next_size(1000, [row(10)] * 1000) == 1000
    assert export.next_size(100, [row(30_000)] * 100) == 100
    assert export.next_size(100, [row(100_000)] * 100) == 25
    assert export.next_size(1, [row(10_000_000)]) == 1


async def test_who_hangs_up_ends_the_reading(app: Starlette, make: Make) -> None:
    await make.execute(
        "insert into river_job (args, kind, max_attempts)"
        " select '{}', 'bulk', 25 from generate_series(1, 20000)"
    )
    gone = asyncio.Event()
    sent: list[Message] = []

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) == 3:
            gone.set()
        await asyncio.sleep(0)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/jobs/export",
        "query_string": b"",
        "headers": [],
        "scheme": "http",
        "server": ("river.test", 80),
        "asgi": {"spec_version": "2.3"},
    }
    await asyncio.wait_for(app(scope, receive, send), 10)
    rows = sum(message.get("body", b"").count(b"\n") for message in sent)
    assert rows < 20_000
    async with app.state.dashboard.driver.reading() as executor:
        assert await executor.jobs.cutoff()
