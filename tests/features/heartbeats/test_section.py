"""The page of workers: clients that send heartbeats, those that do not, and the rescue of their
jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from tests.factory import job, queue
from tests.web.html import Element, parse

Connection = AsyncConnection[DictRow]
Htmx = Callable[..., dict[str, str]]


async def client_row(connection: Connection, name: str, silent: float = 0, **columns: Any) -> None:
    """Register a client whose last heartbeat was so many heartbeats ago."""
    now = datetime.now(UTC)
    given: dict[str, Any] = {
        "id": name,
        "registered_at": now - timedelta(hours=3),
        "started_at": now - timedelta(hours=3),
        "heartbeat_at": now - silent * timedelta(seconds=20),
        "heartbeat_interval": timedelta(seconds=20),
        "host": f"host-of-{name}",
        "pid": 4711,
        "language": "Python 3.13.1",
        "version": "1.2.3",
        "queues": '{"default": [10, 3], "mail": [100, 100]}',
    } | columns
    await connection.execute(
        f"insert into riverui_client ({', '.join(given)}) values"
        f" ({', '.join(['%s'] * len(given))})".encode(),
        list(given.values()),
    )


async def held(connection: Connection, by: str, **columns: Any) -> int:
    at = datetime.now(UTC) - timedelta(minutes=5)
    given = {"attempt": 1, "attempted_at": at, "attempted_by": ["before", by]} | columns
    return await job(connection, "running", **given)


async def get(client: httpx2.AsyncClient, status: int = 200) -> Element:
    answer = await client.get("/workers")
    assert answer.status_code == status, answer.text[:2000]
    return parse(answer.text).one(id="workers-list")


def cards(page: Element) -> list[Element]:
    """Return what is shown of clients that are not declared dead, those that are gone first."""
    found = [*page.all("li"), *page.all("tr")]
    return [each for each in found if (each.attributes.get("id") or "").startswith("client-")]


@pytest.mark.usefixtures("own_tables")
async def test_a_client_and_what_it_has_in_hand(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    queues = '{"default": [10, 3], "mail": [100, 100], "": {"kinds": ["mail_send", "hook"]}}'
    await client_row(
        connection, "one", loop_lag=0.0123, memory=94_000_000, release="v1.4.2", queues=queues
    )
    job_id = await held(connection, "one", kind="mail_send", queue="default")
    await held(connection, "another")
    page = await get(client)
    (card,) = cards(page)
    assert [cell.text for cell in card.all("td")] == [
        "host-of-one 4711",
        "",
        "default 3/10, mail 100/100",
        "1",
        "mail_send 5 m 0 s",
        "94.0 MB",
        "v1.4.2",
        "3 h ago",
    ]
    (bar,) = card.all("svg", class_="slots")
    assert bar.attributes["aria-label"] == "103 of 110 slots taken"
    assert page.one("p", class_="lead").text == "1 worker runs 1 job."
    assert page.one("dl", class_="fields").text == "host-of-one hook, mail_send"
    links = [link.attributes["href"] for link in card.all("a")]
    assert links == [
        "/queues/default",
        "/queues/mail",
        "/jobs?q=worker:one&state=running",
        f"/jobs/{job_id}",
    ]
    listed = await client.get(links[2])
    assert f"/jobs/{job_id}" in listed.text
    assert "Rescue" not in page.text


@pytest.mark.usefixtures("own_tables")
async def test_a_silent_client_and_what_comes_of_that(
    client: httpx2.AsyncClient, reader: httpx2.AsyncClient, connection: Connection
) -> None:
    await client_row(connection, "alive", host="a", loop_lag=3.21)
    await client_row(connection, "soon", 2.5)
    await client_row(connection, "overdue", 9)
    await client_row(connection, "idle", 2)
    for name, jobs in (("soon", 7), ("overdue", 1)):
        for n in range(jobs):
            await held(connection, name, kind="another" if n > 1 else "test_kind")
    overdue, soon, idle, alive = cards(await get(client))
    assert "holds 1 job: test_kind. It waits for a client that rescues it." in overdue.text
    assert "holds 7 jobs: 5 another, 2 test_kind. They are rescued in 1" in soon.text
    assert "It holds no jobs and is declared dead in 2" in idle.text
    assert "blocked for 3.2 s" in alive.text
    offered = [card.text.count("Rescue 7 jobs now") for card in (overdue, soon, idle, alive)]
    assert offered == [0, 1, 0, 0]
    assert "Rescue 1 job now" in overdue.text
    assert "Rescue" not in (await get(reader)).text


@pytest.mark.usefixtures("own_tables")
async def test_a_client_started_again_under_its_old_id_is_told_from_the_dead_one(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    now = datetime.now(UTC)
    await client_row(connection, "one", 2, pid=1)
    await client_row(connection, "one", pid=2, registered_at=now - timedelta(minutes=1))
    for ago, jobs in ((300, 2), (30, 1)):
        for _ in range(jobs):
            await held(connection, "one", attempted_at=now - timedelta(seconds=ago))
    dead, living = cards(await get(client))
    assert "host-of-one 1 has been silent" in dead.text
    assert "holds 2 jobs: test_kind. They are rescued" in dead.text
    assert [cell.text for cell in living.all("td")][3] == "1"


@pytest.mark.usefixtures("own_tables")
async def test_rescue_now(
    client: httpx2.AsyncClient,
    reader: httpx2.AsyncClient,
    connection: Connection,
    htmx: Htmx,
) -> None:
    name = "o'ne/<b>?#%"
    await client_row(connection, name, 2, host="<i>")
    ids = [
        await held(connection, name),
        await held(connection, name, attempt=3, max_attempts=3),
        await held(connection, name, metadata={"cancel_attempted_at": "2026-11-21T09:00:00Z"}),
    ]
    (card,) = cards(await get(client))
    form = {
        field.attributes["name"]: field.attributes["value"]
        for field in card.one("form").all("input")
    }
    assert form == {"client": name, "next": "/workers"}
    refused = await reader.post("/workers/rescue", data=form)
    assert refused.status_code == 403
    answer = await client.post("/workers/rescue", data=form, headers=htmx("notices", "/workers"))
    assert answer.status_code == 200
    assert answer.headers["hx-trigger"] == "workers-changed"
    notice = parse(answer.text).text
    assert "3 jobs were rescued from <i>" in notice
    assert "1 to be retried" in notice
    assert "1 discarded" in notice
    assert "1 cancelled" in notice
    cursor = await connection.execute("select * from river_job order by id")
    rows = {row["id"]: row for row in await cursor.fetchall()}
    states = ["retryable", "discarded", "cancelled"]
    assert [rows[job_id]["state"] for job_id in ids] == states
    for job_id in ids:
        assert rows[job_id]["errors"][-1]["error"] == "Stuck job rescued by JobRescuer"
        assert rows[job_id]["metadata"]["river:rescue_count"] == 1
    page = await get(client)
    assert cards(page) == []
    assert "3 jobs were rescued" in page.one(id="dead-1").text
    again = await client.post("/workers/rescue", data=form)
    assert again.status_code == 400
    assert "already declared dead" in again.text


@pytest.mark.usefixtures("own_tables")
async def test_what_cannot_be_rescued(client: httpx2.AsyncClient, connection: Connection) -> None:
    await client_row(connection, "alive", 1.2)
    job_id = await held(connection, "alive")
    for data, status, words in (
        ({"client": "alive"}, 400, "This client is alive"),
        ({"client": "nobody"}, 404, "No client with this id"),
        ({"next": "/workers"}, 400, "Choose a worker"),
    ):
        answer = await client.post("/workers/rescue", data=data)
        assert answer.status_code == status, words
        assert words in answer.text
    cursor = await connection.execute("select state::text from river_job where id = %s", [job_id])
    assert await cursor.fetchone() == {"state": "running"}


async def test_without_the_table_jobs_tell_of_clients(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    page = await get(client)
    assert "No workers yet" in page.text
    assert "the tables of riverui are missing" in page.text
    assert "riverui migrate-up --line riverui" in page.text
    job_id = await held(connection, "go_<b>", kind="k", queue="q")
    page = await get(client)
    (line,) = page.one("ul", class_="gone").all("li")
    assert "go_<b> may be gone: it holds 1 job: k, and took the last 5 m ago." in line.text
    assert "River rescues the first in 54 m" in line.text
    assert [link.attributes["href"] for link in line.all("a")] == [
        "/jobs?q=worker:go_%3Cb%3E&state=running",
    ]
    await held(connection, "go_<b>", kind="k", queue="q", attempted_at=datetime.now(UTC))
    line = (await get(client)).one(id="seen-1")
    assert line.all("td")[0].text == "go_<b>"
    assert [link.attributes["href"] for link in line.all("a")] == [
        "/queues/q",
        "/jobs?q=worker:go_%3Cb%3E&state=running",
        f"/jobs/{job_id}",
    ]
    answer = await client.post("/workers/rescue", data={"client": "go_<b>"})
    assert answer.status_code == 400
    assert "the tables of riverui" in answer.text


@pytest.mark.usefixtures("own_tables")
async def test_clients_of_other_languages_stand_below(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    await client_row(connection, "one")
    for name in ("one", "go", "go"):
        await held(connection, name, attempted_at=datetime.now(UTC))
    await job(
        connection,
        "completed",
        attempted_by=["quiet"],
        attempted_at=datetime.now(UTC) - timedelta(hours=2),
    )
    page = await get(client)
    assert len(cards(page)) == 1
    rows = [[cell.text for cell in row.all("td")] for row in page.all("tbody")[1].all("tr")]
    assert [row[0] for row in rows] == ["go", "quiet"]
    assert [row[2] for row in rows] == ["2", "0"]
    assert "2 h ago" in rows[1][4]


@pytest.mark.usefixtures("own_tables")
async def test_what_somebody_else_wrote_there_breaks_nothing(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    await client_row(
        connection,
        "<script>",
        queues='{"a": 1, "b": [1, "x"], "c": [3, 2], "d": [-1, 5], "<b>": [0, 0]}',
        host="h" * 255,
        pid=0,
        running=0,
    )
    (card,) = cards(await get(client))
    assert "<script>" in (card.one("b").attributes["title"] or "")
    assert "2/3" in card.text


@pytest.mark.usefixtures("own_tables")
async def test_slots_of_queues_are_drawn_where_they_are_known(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    for name, jobs in (("mail", 1), ("go", 1), ("both", 2)):
        await queue(connection, name)
        for _ in range(jobs):
            await job(connection, "running", queue=name)
    await client_row(connection, "alive", queues='{"mail": [5, 1], "both": [1, 1]}')
    await client_row(connection, "silent", 9, queues='{"mail": [9, 0]}')
    page = parse((await client.get("/queues?order=name")).text)
    bars = [
        [bar.attributes["aria-label"] for bar in row.all("svg", class_="slots")]
        for row in page.all("tr", class_="queue")
    ]
    assert bars == [[], [], ["1 of 5 slots in use"]], "more run in “both” than its client can"
