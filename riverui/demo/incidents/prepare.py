"""Writes the hour behind an incident into an empty database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random

from psycopg import AsyncConnection

from riverui.demo.incidents.incident import Incident, Past
from riverui.demo.seed import write
from riverui.features.marks.store import MarkInsertParams
from riverui.features.marks.verbs import mark_insert
from riverui.storage.interface import Driver

_FORGETFUL = "nightly-report"
"""The name of the session that keeps its transaction open."""
_TERM = timedelta(seconds=20)
"""How long the leader of the past leads on: until a client of the present has taken over."""


async def prepare(
    driver: Driver, url: str, incident: Incident, *, now: datetime, rng: Random
) -> None:
    """Write jobs, queues, marks and the leader as the last hour would have left them."""
    past = Past(now, rng)
    incident.past(past)
    await write(url, rows=past.rows, queues=past.queues())
    for at, label in past.marks:
        await mark_insert(driver, MarkInsertParams(label=label, at=at))
    if incident.leads:
        async with driver.transaction() as db:
            await db.leader_attempt_elect(past.client("default"), ttl=_TERM)


@asynccontextmanager
async def forgotten_transaction(url: str) -> AsyncIterator[None]:
    """Keep a transaction open that has changed something, as a session does that waits for a
    person.
    """
    async with await AsyncConnection.connect(url, application_name=_FORGETFUL) as connection:
        await connection.execute("select txid_current()")
        yield
        await connection.rollback()
