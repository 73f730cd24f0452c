"""Waiting for what the database shows, and rows told so that two clients' can be compared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from tests.interop.worker import DEADLINE

Row: TypeAlias = dict[str, Any]
T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]],
    *,
    fits: Callable[[T], bool] = bool,
    within: float = DEADLINE,
    every: float = 0.02,
) -> T:
    """Return what `look` gives as soon as that fits; AssertionError with what it gave last."""
    deadline = time.monotonic() + within
    while True:
        seen = await look()
        if fits(seen):
            return seen
        assert time.monotonic() < deadline, f"not within {within} s; last seen: {seen}"
        await asyncio.sleep(every)


async def jobs(connection: AsyncConnection[DictRow], condition: str = "true") -> list[Row]:
    """Whole rows by id."""
    cursor = await connection.execute(f"select * from river_job where {condition} order by id")
    return await cursor.fetchall()


async def job(connection: AsyncConnection[DictRow], id: int) -> Row:
    """Return one whole row."""
    cursor = await connection.execute("select * from river_job where id = %s", [id])
    (row,) = await cursor.fetchall()
    return row


async def settled(connection: AsyncConnection[DictRow], id: int, *states: str) -> Row:
    """Return the job's row once it is in one of these states."""
    return await eventually(lambda: job(connection, id), fits=lambda row: row["state"] in states)


async def leader(connection: AsyncConnection[DictRow]) -> str:
    """Return who leads; nobody is an empty name."""
    cursor = await connection.execute("select leader_id from river_leader where expires_at > now()")
    row = await cursor.fetchone()
    return str(row["leader_id"]) if row else ""


async def leads(
    connection: AsyncConnection[DictRow], client_id: str, *, within: float = DEADLINE
) -> None:
    """Wait until this client leads."""
    await eventually(lambda: leader(connection), fits=lambda who: who == client_id, within=within)


def told(row: Row, began: datetime, names: dict[str, str]) -> Row:
    """Return a row without what no two runs share: instants become distances, clients their part in
    the test.

    Python's exceptions have a type and a traceback where Go's errors have neither: those are left
    out.
    """
    left = {name: value for name, value in row.items() if name not in ("id", "unique_key")}
    for name in ("attempted_at", "created_at", "finalized_at"):
        left[name] = row[name] is not None and _about(row[name], began)
    # A retry is measured from the failure it follows, all else from the beginning.
    left["scheduled_at"] = _about(row["scheduled_at"], began)
    left["attempted_by"] = row["attempted_by"] and [names.get(by, by) for by in row["attempted_by"]]
    left["errors"] = row["errors"] and [
        {
            **error,
            "at": _about(datetime.fromisoformat(error["at"]), began),
            "error": error["error"].removeprefix("RuntimeError: "),
            "trace": "",
        }
        for error in row["errors"]
    ]
    left["metadata"] = dict(row["metadata"])
    if "cancel_attempted_at" in row["metadata"]:
        at = datetime.fromisoformat(row["metadata"]["cancel_attempted_at"])
        left["metadata"]["cancel_attempted_at"] = _about(at, began)
    if "river:log" in row["metadata"]:
        # How a line looks is the program's own affair.
        left["metadata"]["river:log"] = [
            {**entry, "log": [line.count("line=") for line in entry["log"].splitlines()]}
            for entry in row["metadata"]["river:log"]
        ]
    return left


def _about(at: datetime, began: datetime) -> str:
    minutes = round((at - began).total_seconds() / 60)
    return f"{minutes} min"
