"""The two sides of a scenario: processes that speak River's conformance protocol, and the database
between them.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

T = TypeVar("T")
Job = dict[str, Any]

ROOT = Path(__file__).parents[2]
CANDIDATE: dict[str, Any] = json.loads(Path(__file__).with_name("candidate.json").read_text())
CODES = {
    -32601: "method_not_found",
    -32602: "invalid_params",
    -32000: "internal",
    -32001: "not_found",
    -32002: "rejected",
    -32003: "database_error",
    -32004: "unsupported",
}
DEADLINE = 45.0
"""Seconds within which anything must have happened: an election, a rescue and a scheduler's round
at River's intervals, on a busy machine.
"""
_ENDED = ("cancelled", "completed", "discarded")


class SideError(Exception):
    """A request was answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{CODES.get(code, code)}: {message}")
        self.code = CODES.get(code, str(code))


class Side:
    """One process. Requests are answered in order."""

    def __init__(self, name: str, url: str, command: Sequence[str], **environment: str) -> None:
        self.name = name
        """`go` or `python`."""
        self.application = f"river-conformance-{name}-{next(_NUMBERS)}"
        """Its connections' name in the database."""
        self.url = url
        self.running = False
        self._command = command
        self._environment = environment
        self._handles: set[str] = set()
        self._ids = itertools.count()
        self._process = subprocess.Popen(
            [part.replace("{url}", self._named(url)) for part in command],
            cwd=ROOT,
            env={
                **os.environ,
                "RIVER_CONFORMANCE_APPLICATION_NAME": self.application,
                "RIVER_CONFORMANCE_DATABASE_KIND": "sqlite" if "sqlite:" in url else "postgres",
                "RIVER_CONFORMANCE_DATABASE_URL": url,
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def _named(self, url: str) -> str:
        return make_conninfo(url, application_name=self.application)

    def another(self, url: str | None = None) -> Side:
        """Return a further process of the same implementation."""
        return type(self)(self.name, url or self.url, self._command, **self._environment)

    def begin(self, method: str, **params: Any) -> None:
        """Send a request without waiting for its answer, which `finish` returns."""
        self._send(method, json.dumps(params))
        if method == "tx_begin":
            self._handles.add(params["handle"])
        elif method in ("tx_commit", "tx_rollback"):
            self._handles.discard(params["handle"])

    def _send(self, method: str, params: str) -> None:
        request = json.dumps({"id": next(self._ids), "jsonrpc": "2.0", "method": method})
        _open(self._process.stdin).write(f'{request[:-1]}, "params": {params}}}\n'.encode())
        _open(self._process.stdin).flush()

    def call_with_text(self, method: str, params: str) -> Any:
        """Return the result of a request whose parameters are JSON text, with numbers as they
        are.
        """
        self._send(method, params)
        return self.finish()

    def finish(self) -> Any:
        """Return the result of the oldest request without one."""
        line = _open(self._process.stdout).readline()
        assert line, f"the {self.name} process has ended"
        response = json.loads(line)
        if error := response.get("error"):
            raise SideError(error["code"], error["message"])
        return response["result"]

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request; SideError if it has none."""
        self.begin(method, **params)
        result = self.finish()
        if method in ("start", "stop"):
            self.running = method == "start"
        return result

    def refuses(self, code: str, method: str, **params: Any) -> None:
        """Assert that a request is answered with this error."""
        with pytest.raises(SideError) as refused:
            self.call(method, **params)
        assert refused.value.code == code, (self, method, refused.value)

    def start(self, client_id: str = "", **params: Any) -> str:
        """Start the side's client and return its id; the leader's intervals are short where the
        side knows them.
        """
        client_id = client_id or f"{self.name}-client"
        if self.name == "python":
            params = {**dict.fromkeys(CANDIDATE["start_options"], 50), **params}
        self.call("start", client_id=client_id, **params)
        return client_id

    def insert(self, message: str = "", behavior: str = "", **opts: Any) -> Job:
        """Insert a job and return it."""
        job: Job = self.call("insert", message=message, behavior=behavior, opts=opts)
        return job

    def get(self, id: int) -> Job:
        """Return a job."""
        job: Job = self.call("get", id=id)
        return job

    def list(self, **params: Any) -> list[Job]:
        """Return the jobs of a list."""
        jobs: list[Job] = self.call("list", **params)["jobs"]
        return jobs

    def reaches(self, id: int, *states: str, within: float = DEADLINE) -> Job:
        """Return the job when it is in one of these states; by default, when it has ended."""
        wanted = states or _ENDED
        job = self.get(id)

        def reached() -> bool:
            nonlocal job
            job = self.get(id)
            return job["state"] in wanted

        until(reached, f"job {id} {wanted}, is {job}", within=within)
        return job

    def stats(self, fits: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return what the client has observed, as soon as it fits."""
        seen: dict[str, Any] = {}

        def fit() -> object:
            seen.update(self.call("runtime_stats"))
            return fits(seen)

        until(fit, f"{self}: {seen}")
        return seen

    def recover(self) -> None:
        """Stop the client and end the transactions that a failed scenario has left."""
        if self.running:
            with suppress(SideError):
                self.call("stop", cancel=True)
        for handle in tuple(self._handles):
            with suppress(SideError):
                self.call("tx_rollback", handle=handle)

    def kill(self) -> None:
        """End the process as kill -9 does."""
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def close(self) -> None:
        """End the process: the end of its input ends it."""
        if self._process.poll() is None:
            _open(self._process.stdin).close()
            try:
                self._process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        with suppress(BrokenPipeError):
            _open(self._process.stdin).close()
        _open(self._process.stdout).close()


_NUMBERS = itertools.count()


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Go's side and ours on one database."""

    go: Side
    ours: Side
    database: psycopg.Connection[Any]
    url: str
    extra: list[Side] = field(default_factory=list)
    """Processes that end with the scenario."""

    def __iter__(self) -> Iterator[Side]:
        return iter((self.go, self.ours))

    @property
    def directions(self) -> Sequence[tuple[Side, Side]]:
        """Both orders of the sides."""
        return ((self.go, self.ours), (self.ours, self.go))

    def another(self, side: Side, url: str | None = None) -> Side:
        """Return a further process of a side's implementation, which ends with the scenario."""
        self.extra.append(side.another(url))
        return self.extra[-1]

    def execute(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        with self.database.cursor(row_factory=dict_row) as cursor:
            cursor.execute(sql, params or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql: str, *params: Any) -> Any:
        """Return the only value of a statement."""
        (row,) = self.execute(sql, *params)
        (value,) = row.values()
        return value

    def waits_for_lock(self, side: Side) -> bool:
        """Return whether a statement of a side waits for a lock."""
        return bool(
            self.value(
                "select count(*) from pg_stat_activity where application_name = %s"
                " and state = 'active' and wait_event_type = 'Lock'",
                side.application,
            )
        )

    def reset(self) -> None:
        """Empty the tables."""
        for side in self:
            side.recover()
        self.execute("truncate river_job, river_queue, river_leader restart identity cascade")
        for side in self:
            side.call("reset")

    def leader(self) -> dict[str, Any] | None:
        """Return the leader's row, if a term is on."""
        found = self.execute("select * from river_leader where expires_at >= now()")
        return found[0] if found else None

    def leader_but(self, *former: Any) -> dict[str, Any]:
        """Return the leader's row when it is another than these ids and terms."""
        found: dict[str, Any] = {}

        def other() -> bool:
            found.update(self.leader() or {})
            return (
                bool(found)
                and found["leader_id"] not in former
                and (found["elected_at"] not in former)
            )

        until(other, f"another leader than {former}")
        return found


def to_microseconds(job: Job) -> Job:
    """Return the job with the times of its errors as Python has them: Go writes nanoseconds."""
    errors = [
        {**error, "at": datetime.fromisoformat(error["at"]).isoformat()} for error in job["errors"]
    ]
    return {**job, "errors": errors}


def until(condition: Callable[[], object], what: str, *, within: float = DEADLINE) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.01)


class Listening:
    """Listens on channels of River's, on a connection of its own."""

    def __init__(self, url: str, *topics: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        (self._schema,) = self._connection.execute("select current_schema()").fetchone() or ("",)
        for topic in topics:
            self._connection.execute(f'listen "{self._schema}.{topic}"')
        self._connection.execute("listen marker")

    def heard(self) -> list[tuple[str, str]]:
        """Return topic and payload of all that was sent since the last call, in order."""
        self._connection.execute("notify marker")
        heard: list[tuple[str, str]] = []
        for notification in self._connection.notifies(timeout=DEADLINE):
            if notification.channel == "marker":
                break
            topic = notification.channel.removeprefix(f"{self._schema}.")
            heard.append((topic, notification.payload))
        return heard

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
