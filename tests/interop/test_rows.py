"""Whoever inserts a job and whoever works it, Go or we: the rows are the same, and each reads the
other's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from tests.interop.conftest import StartWorker
from tests.interop.look import Row, eventually, jobs, told
from tests.interop.worker import Peer

pytestmark = pytest.mark.interop

_FINAL = ("cancelled", "completed", "discarded")
_LATER = 7200.0
"""Seconds: no test waits for it."""

# What is inserted: (kind, args, options). It comes to rest by itself, each job in the state named
# last.
_JOBS: list[tuple[str, Row, Row, str]] = [
    ("noop", {"n": 1}, {}, "completed"),
    ("noop", {"message": "<b> & ü \u2028 \U0001f600"}, {"tags": ["one-tag", "two"]}, "completed"),
    (
        "noop",
        {},
        {"priority": 3, "queue": "second", "metadata": {"own": {"a": [1, None, 2.5]}}},
        "completed",
    ),
    ("noop", {}, {"pending": True}, "pending"),
    ("noop", {}, {"scheduled_in": _LATER, "max_attempts": 3}, "scheduled"),
    ("noop", {}, {"unique": {"by_args": True}, "max_attempts": 1}, "completed"),
    ("cancel", {"message": "no more"}, {}, "cancelled"),
    ("fail", {"message": "boom", "retry_in": _LATER}, {}, "retryable"),
    ("fail", {"message": "boom\n\u00fc"}, {"max_attempts": 1}, "discarded"),
    ("flaky", {"message": "not yet", "failures": 2, "retry_in": 0.01}, {}, "completed"),
    (
        "flaky",
        {"message": "never", "failures": 9, "retry_in": 0.01},
        {"max_attempts": 2},
        "discarded",
    ),
    ("log", {"message": "hello", "lines": 2}, {}, "completed"),
    ("log", {"message": "again", "lines": 1, "failures": 1, "retry_in": 0.01}, {}, "completed"),
    (
        "metadata",
        {"value": {"mine": {"a": 1}, "other": None}},
        {"metadata": {"mine": 0, "kept": True}},
        "completed",
    ),
    ("output", {"value": {"rows": [1, 2.5, "<&>"], "none": None}}, {}, "completed"),
    ("output", {"value": "text"}, {}, "completed"),
    ("sleep", {"seconds": 0.05}, {}, "completed"),
    ("snooze", {"times": 2}, {}, "completed"),
    ("snooze", {"times": 1, "seconds": _LATER}, {"metadata": {"snoozes": 4}}, "completed"),
    ("snooze", {"times": 9, "seconds": _LATER}, {}, "scheduled"),
    ("steps", {"failures": 0}, {}, "completed"),
    ("steps", {"failures": 2, "retry_in": 0.01}, {}, "completed"),
    ("steps", {"failures": 9, "retry_in": _LATER}, {}, "retryable"),
]


class Fleet:
    """One Go client and one of ours, neither started: who works is up to the test."""

    def __init__(self, go: Peer, python: Peer, connection: AsyncConnection[DictRow]) -> None:
        self.connection = connection
        self.go = go
        self.python = python

    def __getitem__(self, name: str) -> Peer:
        return {"go": self.go, "python": self.python}[name]


@pytest.fixture
async def fleet(
    start_worker: StartWorker, start_python: StartWorker, connection: AsyncConnection[DictRow]
) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        go = await stack.enter_async_context(start_worker("-utc-offset=5h45m", start=False))
        python = await stack.enter_async_context(start_python(start=False))
        yield Fleet(go, python, connection)


async def _left_by(fleet: Fleet, inserter: str, worker: str) -> list[Row]:
    """Return the rows after one side inserted the jobs and one worked them; the table is empty
    again afterwards.
    """
    began = datetime.now(UTC)
    await fleet[worker].ask("start")
    ids = [
        await fleet[inserter].insert(kind, opts=options, **args) for kind, args, options, _ in _JOBS
    ]
    states = [state for *_, state in _JOBS]
    rows = await eventually(
        lambda: jobs(fleet.connection), fits=lambda rows: [row["state"] for row in rows] == states
    )
    # Cut short by the client's stop, and cancelled while waiting and while running.
    held = [await fleet[inserter].insert("block", n=n) for n in range(2)]
    waiting = await fleet[inserter].insert("noop", opts={"scheduled_in": _LATER})
    for job_id in held:
        await fleet[worker].wait("started", id=job_id)
    for job_id in (waiting, held[0]):
        await fleet[inserter].ask("cancel", id=job_id)
    await fleet[worker].wait("job_cancelled", id=held[0])
    await fleet[worker].ask("stop", hard=True)
    rows = await jobs(fleet.connection)
    assert [row["state"] for row in rows[-3:]] == ["cancelled", "available", "cancelled"]
    # What either client reads in these rows is the same.
    for job_id in (*ids, *held, waiting):
        theirs, ours = (
            await fleet.go.ask("get", id=job_id),
            await fleet.python.ask("get", id=job_id),
        )
        assert _plain(ours.result) == _plain(theirs.result)
    await fleet.connection.execute("delete from river_job")
    return [told(row, began, {fleet[worker].client_id: "the worker"}) for row in rows]


def _plain(value: Any) -> Any:
    """Return a job as a client read it, with instants as such and nothing for empty."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value] or None
    if isinstance(value, str):
        with suppress(ValueError):
            return datetime.fromisoformat(value)
    return value


@pytest.mark.short
async def test_rows_are_the_same_whoever_inserts_and_whoever_works(fleet: Fleet) -> None:
    expected = await _left_by(fleet, "go", "go")
    for inserter, worker in (("python", "go"), ("go", "python"), ("python", "python")):
        rows = await _left_by(fleet, inserter, worker)
        for want, row in zip(expected, rows, strict=True):
            assert row == want, f"inserted by {inserter}, worked by {worker}"


async def test_steps_of_one_job_are_taken_in_turns(fleet: Fleet) -> None:
    """An attempt goes on where the other language's attempt stopped."""
    turns = [fleet.go, fleet.python, fleet.go, fleet.python]
    job_id = await fleet.python.insert("steps", failures=3, retry_in=0.01)
    for peer, outcome in zip(turns, ("failed", "failed", "failed", "completed"), strict=True):
        await peer.ask("start")
        await peer.wait(f"job_{outcome}", id=job_id)
        await peer.ask("stop")
    steps = sorted(
        {
            (event.attempt, event.message)
            for peer in (fleet.go, fleet.python)
            for event in peer.seen("step", id=job_id)
        }
    )
    assert steps == [
        (1, "first"),
        (1, "second 0"),
        (1, "second 1"),
        (2, "second 2"),
        (3, "second 3"),
        (4, "third"),
    ]
    (row,) = await jobs(fleet.connection)
    assert row["state"] == "completed"
    assert row["attempted_by"] == [peer.client_id for peer in turns]


async def test_logs_of_one_job_come_from_both(fleet: Fleet) -> None:
    job_id = await fleet.go.insert("log", message="hello", lines=2, failures=2, retry_in=0.01)
    for peer, outcome in (
        (fleet.python, "failed"),
        (fleet.go, "failed"),
        (fleet.python, "completed"),
    ):
        await peer.ask("start")
        await peer.wait(f"job_{outcome}", id=job_id)
        await peer.ask("stop")
    (row,) = await jobs(fleet.connection)
    logs = row["metadata"]["river:log"]
    assert [entry["attempt"] for entry in logs] == [1, 2, 3]
    assert [entry["log"].count("hello") for entry in logs] == [2, 2, 2]
