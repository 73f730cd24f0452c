"""Why a job is not running, as the API and the job's page tell it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection

from tests import factory
from tests.cases import cases
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate
from tests.web.html import parse

Connection = AsyncConnection[dict[str, Any]]
PAGES = "http://river.test/jobs"


async def test_checks_come_with_their_evidence(get: Get, connection: Connection) -> None:
    late = datetime.now(UTC) - timedelta(minutes=14)
    await factory.queue(connection, "mail", updated_at=late)
    job_id = await factory.job(connection, queue="mail")
    answer = await get(f"jobs/{job_id}/explain")
    validate("JobExplanation", answer)
    assert (answer["id"], answer["state"], answer["blocked"]) == (job_id, "available", True)
    assert answer["headline"].startswith("No client serves queue mail: no client has reported it")
    served = next(check for check in answer["checks"] if check["name"] == "served")
    assert served == {
        "name": "served",
        "label": "Queue served",
        "result": "failed",
        "evidence": answer["headline"],
    }


async def test_what_is_no_job(get: Get) -> None:
    with cases() as case:
        for job_id, status in (("7", 404), ("0", 400), ("abc", 400), ("9" * 30, 400)):
            with case((job_id, status)):
                assert (await get(f"jobs/{job_id}/explain", status))["message"]


async def test_a_page_shows_them_where_a_job_stands_still(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    await factory.queue(connection, "\u202eliam", paused_at=datetime.now(UTC))
    waiting = await factory.job(connection, queue="\u202eliam")
    page = parse((await api.get(f"{PAGES}/{waiting}")).text)
    assert "Its queue has been paused" in page.one(class_="job-why").text
    section = page.one(class_="explain")
    assert "Why is it not running?" in section.text
    # The head has the one that does not pass.
    assert len(section.all("li")) == 8
    assert not section.all(class_="check-failed")
    assert "\u202e" not in page.text
    hours = datetime.now(UTC) - timedelta(hours=3)
    lost = await factory.job(connection, "running", attempted_at=hours)
    assert "Is it still running?" in (await api.get(f"{PAGES}/{lost}")).text
    for state in ("running", "completed", "discarded", "cancelled"):
        job_id = await factory.job(connection, state)
        assert not parse((await api.get(f"{PAGES}/{job_id}")).text).all(class_="explain")
