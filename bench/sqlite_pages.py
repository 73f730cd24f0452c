"""Measures every query of a page on a SQLite file.

`python -m bench.sqlite_pages FILE [ROWS]` fills the file with the jobs of `bench.generate`, a
million if no other number is given, unless it exists already. It prints the least processor time of
each query in milliseconds: SQLite works in this process, and other programs hardly disturb that.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.cases import Case, Facts, cases
from bench.generate import QUEUES, RETIRED, YOUNG, mix
from riverui.domain.jobs import FINALIZED, JobState
from riverui.errors import NotSupported
from riverui.storage.connect import connect
from riverui.storage.interface.params import JobCursor
from riverui.storage.sqlite.file import Connection
from riverui.storage.sqlite.migrations import create_tables
from riverui.storage.sqlite.values import instant, stamp

_TIMES = 5
"""Measurements of each query, after one that is not counted."""
_COLUMNS = (
    "id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at,"
    " priority, args, attempted_by, errors, kind, metadata, queue, tags"
)
_JSON = frozenset({"args", "attempted_by", "errors", "metadata", "tags"})


def _jobs(rows: int, now: datetime) -> Iterator[tuple[Any, ...]]:
    """Yield jobs as `fill.sql` makes them, in the order of their creation."""
    dice = random.Random(42)
    hours = {state: spread for state, _, spread in YOUNG.mix}
    plan = sorted(
        (now - dice.random() * timedelta(hours=hours.get(state, 24.0)), state)
        for state, number in mix(rows).items()
        for _ in range(number)
    )
    for job_id, (created_at, state) in enumerate(plan, 1):
        a, b, c = dice.random(), dice.random(), dice.random()
        attempt = {"available": 0, "scheduled": 0, "pending": 0, "discarded": 25}.get(state, 1)
        began = min(created_at + dice.random() ** 2 * timedelta(seconds=30), now)
        ended = min(began + b * b * timedelta(seconds=20), now)
        due = {
            "scheduled": now + c * timedelta(hours=24),
            "retryable": now + c * timedelta(0, 7200),
        }
        errors = [
            {"at": began.isoformat(), "attempt": n, "trace": "", "error": f"refused: upstream {a}"}
            for n in range(1, min(attempt, 5) + 1)
        ]
        failed = state in ("discarded", "retryable") or (state == "completed" and c > 0.97)
        args = {
            "user_id": int(a * 50_000),
            "order_id": job_id,
            "source": ("web", "api", "cron")[int(c * 3)],
            "email": f"user{int(a * 50_000)}@example.com",
            "note": f"{dice.getrandbits(256):064x}",
        }
        tags = [] if c < 0.6 else ["daily"] if c < 0.9 else [f"tenant-{int(b * 2000)}", "daily"]
        old = c < 0.02 and created_at < now - timedelta(hours=23)
        yield (
            job_id,
            state,
            attempt,
            25,
            stamp(began) if attempt else None,
            stamp(created_at),
            stamp(ended) if state in FINALIZED else None,
            stamp(due.get(state, created_at)),
            1 + sum(c > share for share in YOUNG.priorities),
            json.dumps(args),
            json.dumps([f"worker-{int(b * 12)}"] * attempt) if attempt else None,
            json.dumps(errors) if failed else None,
            RETIRED if old else f"kind_{int(40 * a**3):02}",
            "{}" if b < 0.85 else json.dumps({"trace_id": str(a), "tenant": int(a * 900)}),
            QUEUES[int(8 * a * b)],
            json.dumps(tags),
        )


def fill(file: str, rows: int) -> None:
    """Make a file with River's tables and so many jobs."""
    now = datetime.now(UTC)
    marks = ", ".join("jsonb(?)" if name in _JSON else "?" for name in _COLUMNS.split(", "))
    with sqlite3.connect(file) as raw:
        raw.execute("pragma synchronous = off")
        connection = Connection(raw)
        create_tables(raw)
        raw.executemany(f"insert into river_job ({_COLUMNS}) values ({marks})", _jobs(rows, now))
        connection.execute_many(
            "insert into river_queue (name, created_at, updated_at) values (?, ?, ?)",
            [(name, stamp(now), stamp(now)) for name in QUEUES],
        )


def _facts(file: str) -> Facts:
    deep = {}
    with sqlite3.connect(file) as connection:

        def one(sql: str, *values: object) -> tuple[Any, ...]:
            return tuple(connection.execute(sql, values).fetchone())

        for state in JobState:
            at = "finalized_at" if state in FINALIZED else "scheduled_at"
            at = "attempted_at" if state is JobState.RUNNING else at
            way = "desc" if state in FINALIZED else "asc"
            (rows,) = one("select count(*) from river_job where state = ?", state)
            found, job_id = one(
                f"select {at}, id from river_job where state = ?"
                f" order by 1 {way}, 2 {way} limit 1 offset ?",
                state,
                min(100_000, rows // 2),
            )
            deep[state] = JobCursor(at=instant(found), id=job_id)
        (rows,) = one("select max(id) from river_job")
        (failed,) = one("select max(id) from river_job where state = 'discarded'")
    return Facts(
        rows=rows,
        now=datetime.now(UTC),
        deep=deep,
        middle=rows // 2,
        failed=failed,
        worker="worker-3",
    )


async def _measure(file: str) -> None:
    driver = connect(f"sqlite:///{file}")
    for case in cases(_facts(file)):
        try:
            print(f"{await _time(driver, case):9.1f}  {case.key}", flush=True)
        except NotSupported:
            print(f"        –  {case.key}", flush=True)
    await driver.close()


async def _time(driver: Any, case: Case) -> float:
    """Return the least milliseconds of a query, in a transaction that is begun already."""
    taken = []
    for _ in range(1 + _TIMES):
        async with driver.reading(timeout=timedelta(minutes=1)) as executor:
            await executor.ping()
            began = time.process_time()
            await case.call(executor)
            taken.append(1e3 * (time.process_time() - began))
    return min(taken[1:])


def main() -> None:
    """Fill the file if needed, and measure."""
    file = sys.argv[1]
    if not Path(file).exists():
        fill(file, int(sys.argv[2]) if sys.argv[2:] else 1_000_000)
    asyncio.run(_measure(file))


if __name__ == "__main__":
    main()
