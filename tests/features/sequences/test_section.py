"""A job's place in its sequence, on its page and in the API, and the skip of one that halts it."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection

from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from tests.factory import Make
from tests.features.sequences.line import KEY, Line
from tests.web.html import Element, parse


@pytest.fixture
async def line(driver: Driver, connection: AsyncConnection[Any], own_tables: None) -> Line:
    return Line(driver, Make(connection))


async def halted(line: Line, *more: str) -> list[int]:
    """Return the jobs of a sequence whose head was discarded."""
    ids = await line.make("running", "pending", *more)
    await line.insert.execute(
        "update river_job set state = 'discarded', finalized_at = now() where id = %s", [ids[0]]
    )
    async with line.driver.transaction() as executor:
        await SequenceStore(executor).sequence_advance([KEY])
    return ids


async def card(client: httpx2.AsyncClient, job_id: int) -> Element:
    answer = await client.get(f"/jobs/{job_id}")
    assert answer.status_code == 200
    return parse(answer.text).one(id="sequence")


async def test_a_job_shows_its_place_and_its_neighbours(
    line: Line, client: httpx2.AsyncClient
) -> None:
    ids = await line.make("running", *["pending"] * 9)
    page = await card(client, ids[5])
    assert "4 before it in line, and the job at the head" in page.text
    assert "4 jobs behind it" in page.text
    links = [link.attributes["href"] for link in page.all("a")]
    for shown in (ids[0], *ids[2:5], *ids[6:9]):
        assert f"/jobs/{shown}" in links
    head = await card(client, ids[0])
    assert "At its head: its turn" in head.text
    assert "9 jobs behind it" in head.text
    assert not head.all("form")


async def test_all_jobs_of_the_sequence_are_one_link_away(
    line: Line, client: httpx2.AsyncClient
) -> None:
    ids = await line.make("running", "pending")
    other = await line.make("running", key="another")
    (address, *_) = [link.attributes["href"] for link in (await card(client, ids[0])).all("a")]
    listed = (await client.get(address)).text
    assert f"/jobs/{ids[1]}" in listed
    assert f"/jobs/{other[0]}" not in listed


async def test_a_job_that_waits_links_to_what_halts_it(
    line: Line, client: httpx2.AsyncClient
) -> None:
    ids = await halted(line)
    page = parse((await client.get(f"/jobs/{ids[1]}")).text)
    assert "is halted" in page.one(class_="job-why").text
    (link,) = page.one(class_="job-why").all("a")
    assert link.attributes["href"] == f"/jobs/{ids[0]}"
    answer = (await client.get(f"/api/jobs/{ids[1]}/explain")).json()
    (found,) = [check for check in answer["checks"] if check["name"] == "sequence"]
    assert found["page"] == f"/jobs/{ids[0]}"


async def test_skip_without_scripts(
    line: Line, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await halted(line, "pending")
    form = (await card(client, ids[0])).one("form")
    caplog.set_level(logging.INFO, "riverui.actions")
    answer = await client.post(
        form.attributes["action"],
        data={field.attributes["name"]: field.attributes["value"] for field in form.all("input")},
        follow_redirects=True,
    )
    assert f"continues past job {ids[0]}" in answer.text
    assert f"Job {ids[1]} is next." in answer.text
    assert f"job {ids[0]} of sequence '{KEY}'" in caplog.text
    assert await line.states(ids) == ["discarded", "available", "pending"]
    assert not (await card(client, ids[0])).all("form")


async def test_skip_by_the_api(line: Line, client: httpx2.AsyncClient) -> None:
    ids = await halted(line)
    answer = await client.post(f"/api/jobs/{ids[0]}/skip")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert await line.states(ids) == ["discarded", "available"]
    again = await client.post(f"/api/jobs/{ids[0]}/skip")
    assert again.status_code == 400
    assert "does not halt its sequence" in again.json()["message"]
    assert (await client.post("/api/jobs/404/skip")).status_code == 404
    assert (await client.post("/api/jobs/x/skip")).status_code == 400


async def test_who_may_not_retry_may_not_skip(line: Line, reader: httpx2.AsyncClient) -> None:
    ids = await halted(line)
    assert not (await card(reader, ids[0])).all("form")
    assert (await reader.post(f"/jobs/{ids[0]}/skip")).status_code == 403
    assert (await reader.post(f"/api/jobs/{ids[0]}/skip")).status_code == 403
    assert await line.states(ids) == ["discarded", "pending"]


async def test_a_sequence_of_pro_is_shown_and_not_moved(
    line: Line, client: httpx2.AsyncClient
) -> None:
    pros = await line.insert.job("discarded", metadata={"seq_key": "<b>k"})
    page = await card(client, pros)
    assert "managed by River Pro" in page.text
    assert "<b>k" in page.text
    assert not page.all("form")
    plain = await line.insert.job()
    assert not parse((await client.get(f"/jobs/{plain}")).text).all(id="sequence")
