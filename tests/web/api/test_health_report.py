"""The health report, as the API tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection

from tests import factory
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate

Connection = AsyncConnection[dict[str, Any]]


async def held(connection: Connection) -> None:
    """Let jobs wait in a paused queue."""
    paused = datetime.now(UTC) - timedelta(minutes=38)
    await factory.queue(connection, "imports", paused_at=paused)
    await factory.queue(connection)
    await factory.job(connection, queue="imports", scheduled_at=paused)


async def test_three_answers_with_evidence_and_one_action(get: Get, connection: Connection) -> None:
    await held(connection)
    answer = await get("health-report")
    validate("HealthReportAnswer", answer)
    assert (answer["level"], answer["cause"]) == ("warn", "paused")
    assert answer["headline"].startswith("Queue imports is paused. 1 job waits there, the oldest")
    assert [section["name"] for section in answer["sections"]] == ["flow", "success", "data"]
    flow = answer["sections"][0]
    assert flow["action"]["url"].endswith("/queues/imports")
    found = [check["name"] for check in flow["checks"] if check["result"] == "failed"]
    assert found == ["paused"]


async def test_as_text(api: httpx2.AsyncClient, connection: Connection) -> None:
    await held(connection)
    answer = await api.get("health-report", params={"format": "text"})
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith("⚠ Queue imports is paused. 1 job waits there")
    assert "\n    → Resume the queue: imports\n" in answer.text


async def test_another_format(get: Get) -> None:
    assert (await get("health-report", 400, format="xml"))["message"].startswith("format must be")


async def test_one_report_answers_everybody(get: Get, connection: Connection) -> None:
    first = await get("health-report")
    await held(connection)
    assert (await get("health-report"))["at"] == first["at"]
