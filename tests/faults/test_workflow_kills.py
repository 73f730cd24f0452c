"""A worker that is killed at each step of ending a task: the next task is worked all the same, and
not before the one that it waits for has ended.
"""

from __future__ import annotations

import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import Client
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from tests.faults.workflow_worker import Act
from tests.interop.look import eventually

_GATE = 7_001
"""The number of the advisory lock that holds up who changes a row."""
_STEPS = {
    "the outcome is being written": ("river_job", "new.state = 'completed'"),
    "the next task is being staged": (
        "riverui_workflow_task",
        "new.state = 'staged' and old.state = 'waiting'",
    ),
    "the workflow counts what is open": ("riverui_workflow", "new.open < old.open"),
    "all is written, and nobody has heard of it": ("", ""),
}
"""Table and condition of the change in whose middle the worker is killed."""


@pytest.mark.parametrize("step", _STEPS)
async def test_a_worker_is_killed_while(
    step: str,
    driver: Driver,
    connection: AsyncConnection[DictRow],
    database_url: str,
    tmp_path: Path,
) -> None:
    await migrate(driver, "up", line="riverui")
    table, condition = _STEPS[step]
    if table:
        await _hold(connection, table, condition)
    workflow = Client(driver).workflows.new()
    for name, deps in (("first", []), ("second", ["first"]), ("third", ["second"])):
        workflow.add(name, Act(), deps=deps)
    jobs = [result.job.id for result in await workflow.insert()]
    first = "select state = 'completed' as yes from river_job order by id limit 1"
    waits = "select count(*) > 0 as yes from pg_locks where locktype = 'advisory' and not granted"

    async def there() -> bool:
        row = await (await connection.execute((waits if table else first).encode())).fetchone()
        return bool(row and row["yes"])

    killed = await _worker(database_url, tmp_path / "killed")
    await eventually(there)
    killed.kill()
    await killed.wait()
    if table:
        await connection.execute(b"select pg_advisory_unlock_all()")
        await connection.execute(f"drop trigger held on {table}".encode())
    # Its term would be over some seconds later.
    await connection.execute(b"delete from river_leader")
    other = await _worker(database_url, tmp_path / "other")

    async def over() -> bool:
        rows = await connection.execute(b"select from river_job where state <> 'completed'")
        return rows.rowcount == 0

    await eventually(over, within=60)
    await _end(other)
    noted = [*_noted(tmp_path / "killed"), *_noted(tmp_path / "other")]
    began = {job_id: at for what, job_id, at in sorted(noted, reverse=True) if what == "start"}
    ended = {job_id: at for what, job_id, at in sorted(noted, reverse=True) if what == "end"}
    assert began.keys() == ended.keys() == set(jobs)
    assert all(ended[a] < began[b] for a, b in pairwise(jobs))
    row = await (
        await connection.execute(b"select open, ended_at from riverui_workflow")
    ).fetchone()
    assert row is not None
    assert row["open"] == 0
    assert row["ended_at"]


async def _hold(connection: AsyncConnection[Any], table: str, condition: str) -> None:
    """Hold up whoever changes such a row, until this connection gives up its locks."""
    await connection.execute(
        "create function held() returns trigger language plpgsql as $$ begin"
        f" if {condition} then perform pg_advisory_xact_lock_shared({_GATE}); end if;"
        " return new; end $$".encode()
    )
    await connection.execute(
        f"create trigger held before update on {table} for each row"
        " execute function held()".encode()
    )
    await connection.execute(f"select pg_advisory_lock({_GATE})".encode())


async def _worker(url: str, journal: Path) -> Process:
    told = {"url": url, "id": journal.name, "journal": str(journal), "queues": {"default": 5}}
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.workflow_worker", json.dumps(told)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    return process


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


def _noted(journal: Path) -> list[tuple[str, int, int]]:
    """Return what a worker noted: what, of which job, and when in nanoseconds."""
    lines = (line.split() for line in journal.read_text().splitlines())
    return [(what, int(job_id), int(at)) for what, job_id, _, at in lines]
