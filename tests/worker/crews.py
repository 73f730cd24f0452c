"""Several worker processes, whose jobs note in the database that they run: see crew.py."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.ports import free_port
from tests.worker import crew
from tests.worker.conftest import HERE, StartWorker, WorkerProcess, ask, wait_for


class Crew:
    """A supervisor, its health port, and the database where its jobs note that they run."""

    def __init__(self, worker: WorkerProcess, port: int) -> None:
        self.worker = worker
        self.port = port

    def processes(self) -> list[dict[str, Any]]:
        return list(ask(self.port)[1].get("processes", ()))

    def pids(self, status: str = "ok") -> set[int]:
        return {each["pid"] for each in self.processes() if each["status"] == status}

    def well(self, count: int = 2, *, but: Sequence[int] = ()) -> set[int]:
        """Wait until so many processes work, none of them one of these, and return their pids."""
        return set(
            wait_for(
                lambda: (
                    found
                    if len(found := self.pids()) == count and not found.intersection(but)
                    else None
                )
            )
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.worker.url, autocommit=True) as connection:
            return connection.execute(sql.encode()).fetchall()

    def insert(self, kind: str, count: int, queue: str = "default") -> None:
        with psycopg.connect(self.worker.url, autocommit=True) as connection:
            connection.execute(
                "insert into river_job (args, kind, queue)"
                " select '{}', %s, %s from generate_series(1, %s)",
                [kind, queue, count],
            )

    def let_end(self, count: int) -> None:
        """Let this many more of the long jobs end, and wait until they have."""
        with psycopg.connect(self.worker.url, autocommit=True) as connection:
            connection.execute(
                "insert into may_end select id from at_work where ended_at is null"
                " and id not in (select id from may_end) order by began_at limit %s",
                [count],
            )
        wait_for(
            lambda: (
                self.rows(
                    "select count(*) from at_work join may_end using (id) where ended_at is null"
                )
                == [(0,)]
            )
        )

    def let_all_end(self) -> None:
        """Let all the long jobs end, also those that have not begun."""
        self.execute("insert into may_end select id from river_job")

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.worker.url, autocommit=True) as connection:
            connection.execute(sql.encode())

    def completed(self, count: int) -> None:
        """Wait until so many jobs are completed."""
        done = "select count(*) from river_job where state = 'completed'"
        wait_for(lambda: self.rows(done) == [(count,)])

    def running(self) -> dict[int, int]:
        """Return how many jobs run in each process."""
        return dict(
            self.rows(
                "select at_work.pid, count(*) from at_work join pg_stat_activity a"
                " on a.pid = backend where ended_at is null group by 1"
            )
        )

    def most(self) -> int:
        """Return how many jobs were at work together at most."""
        return int(self.rows("select coalesce(max(together), 0) from at_work")[0][0])


StartCrew = Callable[..., AbstractContextManager[Crew]]


@pytest.fixture
def start_crew(start_worker: StartWorker, database_url: str) -> StartCrew:
    @contextmanager
    def start(*argv: str, folder: Path = HERE, **environ: str) -> Iterator[Crew]:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(crew.TABLES.encode())
        port = free_port()
        options = ["--health-port", str(port), *argv]
        with start_worker("crew:client", *options, folder=folder, **environ) as worker:
            worker.said("supervisor has started")
            try:
                yield Crew(worker, port)
            finally:
                for process in {each.get("pid") for each in Crew(worker, port).processes()}:
                    if process and worker.process.poll() is None:
                        # It may have been replaced just now.
                        with suppress(ProcessLookupError):
                            os.kill(process, signal.SIGKILL)

    return start
