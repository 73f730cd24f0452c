"""Random sequences of operations, sent to Go River and to riverui, each on a database of its own:
both must answer the same, and leave the same behind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest

from tests.conformance.sides import Job, Pair, Side, SideError
from tests.conftest import create_database, drop_database, with_database
from tests.scale import scaled

pytestmark = [pytest.mark.interop, pytest.mark.scaled, pytest.mark.short]

_SEQUENCES = scaled(5, 250)
"""In each of the four parts."""
_OPERATIONS = 25
"""In each sequence: enough for most pairs of operations on the same job."""
_QUEUES = ("default", "mail", "reports")
_TAGS = ("alpha", "beta", "gamma")
_STATES = (
    "available",
    "cancelled",
    "completed",
    "discarded",
    "pending",
    "retryable",
    "running",
    "scheduled",
)
_FINALIZED = ("cancelled", "completed", "discarded")
_TIMES = ("attempted_at", "created_at", "finalized_at", "scheduled_at")
_FIXED = ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
"""Times that a sequence schedules jobs for; all others are those of the operation."""


@pytest.fixture
def apart(admin_url: str, pair: Pair, template_database: str) -> Iterator[list[tuple[Side, Any]]]:
    """Yield both sides, each with a connection to a database of its own."""
    names = [create_database(admin_url, template=template_database) for _ in pair]
    urls = [with_database(admin_url, name) for name in names]
    sides = [pair.another(side, url) for side, url in zip(pair, urls, strict=True)]
    connections = [psycopg.connect(url, autocommit=True) for url in urls]
    yield [*zip(sides, connections, strict=True)]
    for side, connection, name in zip(sides, connections, names, strict=True):
        side.close()
        connection.close()
        drop_database(admin_url, name)


class Operations:
    """Makes one sequence; equal seeds make equal ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.open = False
        """Whether a transaction is open."""

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for _ in range(_OPERATIONS):
            yield self._next()
        if self.open:
            yield "tx_rollback", {"handle": "h"}
        yield "list", {"limit": 1_000}

    def _next(self) -> tuple[str, dict[str, Any]]:
        pick = self.random.choice
        kind = pick(
            ("insert",) * 6
            + ("force",) * 3
            + ("cancel", "delete", "get", "retry", "update") * 2
            + ("list",) * 3
            + ("delete_many", "insert_many", "queue", "transaction")
        )
        params: dict[str, Any] = {}
        match kind:
            case "insert":
                params = self._job(unique=True)
            case "insert_many":
                params = {"jobs": [self._job() for _ in range(self.random.randrange(4))]}
            case "force":
                params = {"id": self._id(), "state": pick(_STATES)}
            case "cancel" | "delete" | "get" | "retry":
                params = {"id": self._id()}
            case "update":
                params = {"id": self._id(), "output": pick([1, "text", {"a": [1]}])}
            case "list":
                params = self._filters(("kinds", "metadata", "priorities", "tags_all", "tags_any"))
                params |= {
                    "direction": pick(("asc", "desc")),
                    "limit": self.random.randint(1, 4),
                    "order_by": pick(("finalized_at", "id", "scheduled_at", "time")),
                }
            case "delete_many":
                params = self._filters(("kinds",)) | {"limit": self.random.randint(1, 3)}
            case "queue":
                name = pick((*_QUEUES, "missing", "*"))
                kind = pick(("queue_get", "queue_pause", "queue_resume", "queue_update"))
                params = {"name": name}
                if kind == "queue_update":
                    params["metadata"] = {"n": self.random.randrange(3)}
            case "transaction":
                kind = pick(("tx_commit", "tx_rollback")) if self.open else "tx_begin"
                self.open = not self.open
                return kind, {"handle": "h"}
        if self.open and kind != "force" and self.random.random() < 0.7:
            return f"tx_{kind}", {
                "handle": "h",
                **({"job": params} if kind == "insert" else params),
            }
        # What is locked by the open transaction would be waited for.
        return ("get", {"id": self._id()}) if self.open else (kind, params)

    def _id(self) -> int:
        return self.random.randint(1, 9)

    def _some(self, values: Sequence[Any]) -> list[Any]:
        return self.random.sample(values, self.random.randint(1, len(values)))

    def _job(self, *, unique: bool = False) -> dict[str, Any]:
        pick, rare = self.random.choice, self.random.random
        options: Mapping[str, Any] = {
            "max_attempts": pick((1, 3, 40_000)),
            "metadata": {"n": self.random.randrange(3)},
            "pending": True,
            "priority": pick((1, 2, 4, 9)),
            "queue": pick((*_QUEUES, "not a queue")),
            "scheduled_at": pick(_FIXED),
            "tags": pick((self._some(_TAGS), ["no tag"])),
        }
        opts = {name: value for name, value in options.items() if rare() < 0.25}
        if unique and rare() < 0.5:
            ways: Mapping[str, Any] = {
                "by_args": True,
                "by_period_ms": 86_400_000,
                "by_queue": True,
                "by_state": pick((["available"], [*_STATES], [*_STATES[4:], "available"])),
                "exclude_kind": True,
            }
            opts["unique"] = {name: way for name, way in ways.items() if rare() < 0.4}
        return {"message": pick("abc"), "opts": opts}

    def _filters(self, more: Sequence[str]) -> dict[str, Any]:
        filters: Mapping[str, Any] = {
            "ids": [self._id() for _ in range(4)],
            "kinds": ["conformance_echo"],
            "metadata": {"n": self.random.randrange(3)},
            "priorities": self._some((1, 2, 4)),
            "queues": self._some(_QUEUES),
            "states": self._some(_STATES),
            "tags_all": self._some(_TAGS),
            "tags_any": self._some(_TAGS),
        }
        names = [name for name in ("ids", "queues", "states", *more) if self.random.random() < 0.25]
        return {name: filters[name] for name in names}


def _force(connection: psycopg.Connection[Any], job: dict[str, Any]) -> None:
    """Give a job another state, as if it had been worked."""
    connection.execute(
        "update river_job set state = %(state)s, attempt = least(attempt + 1, max_attempts),"
        " attempted_at = now(), finalized_at = case when %(final)s then now() end"
        " where id = %(id)s",
        {**job, "final": job["state"] in _FINALIZED},
    )


def _timeless(job: Job) -> Job:
    """Return a job without the times at which it was worked on."""
    times = {name: job[name] and (job[name] in _FIXED and job[name]) for name in _TIMES}
    metadata = {**job["metadata"]}
    if "cancel_attempted_at" in metadata:
        metadata["cancel_attempted_at"] = True
    return {**job, **times, "metadata": metadata}


def _comparable(result: Any) -> Any:
    """Return a result of which only what depends on the clock is missing."""
    match result:
        case {"jobs": jobs}:
            return [_timeless(job) for job in jobs], "cursor" in result and bool(result["cursor"])
        case {"results": results}:
            return [(_timeless(one["job"]), one["unique_skipped_as_duplicate"]) for one in results]
        case {"args": _}:
            return _timeless(result)
        case {"paused_at": paused_at}:
            return result["name"], result["metadata"], bool(paused_at)
    return result


def _done(side: Side, connection: Any, operation: str, params: dict[str, Any]) -> Any:
    if operation == "force":
        return _force(connection, params)
    try:
        result = side.call(operation, **params)
    except SideError as error:
        return error.code
    found = [_comparable(result)]
    if operation in ("list", "tx_list") and result["cursor"] and params["limit"] < 1_000:
        # The cursor is the side's own, since times differ.
        found.append(_comparable(side.call(operation, **params, after=result["cursor"])))
    if operation.endswith("delete_many"):
        found[0][0].sort(key=lambda job: job["id"])
    return found


@pytest.mark.parametrize("part", range(4))
def test_random_sequences_of_operations(apart: list[tuple[Side, Any]], part: int) -> None:
    for seed in range(part * _SEQUENCES, (part + 1) * _SEQUENCES):
        for side, connection in apart:
            side.recover()
            connection.execute("truncate river_job, river_queue restart identity cascade")
            connection.execute(
                "insert into river_queue (name, metadata, updated_at)"
                " select unnest(%s::text[]), '{}', now()",
                [[*_QUEUES]],
            )
        for number, (operation, params) in enumerate(Operations(seed)):
            go, ours = (_done(side, connection, operation, params) for side, connection in apart)
            assert ours == go, (seed, number, operation, params)
