"""Jobs a second of a client with default settings that knows of a backlog: riverui's and Go's."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

_SECONDS = 5.0
"""Seconds that are measured, after the first one."""
_BACKLOG = """
insert into river_job (kind, args, max_attempts)
select %(kind)s, jsonb_build_object('seconds', %(seconds)s::float8), 25
from generate_series(1, %(jobs)s)
"""
_PER_SLOT = 12_000.0
"""More no-op jobs a second than one slot can work."""
_MOST_JOBS = 400_000
"""Jobs of a backlog: they have to be inserted first."""


class Pace(NamedTuple):
    """What a client did."""

    per_second: float
    statements: float
    """Transactions for each job, from the client's start to its end."""


def work(url: str, command: Sequence[str | Path], *, slots: int, seconds: float) -> Pace:
    """Run a client until its standard input ends, on a backlog of jobs that take so long each."""
    per_slot = 1 / seconds if seconds else _PER_SLOT
    jobs = min(round(slots * per_slot * (_SECONDS + 4)), _MOST_JOBS)
    kind = "sleep" if seconds else "noop"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(_BACKLOG, {"kind": kind, "seconds": seconds, "jobs": jobs})
        db.execute("vacuum (analyze) river_job")
        db.execute("checkpoint")
        transactions = _transactions(db)
        per_second = _pace(db, [command])
        _, worked = _completed(db)
    if worked == jobs:
        raise SystemExit(f"{jobs} jobs were too few for {slots} slots")
    with psycopg.connect(url, autocommit=True) as db:
        transactions = _transactions(db) - transactions
    return Pace(per_second=per_second, statements=transactions / worked)


def compute(url: str, processes: int) -> float:
    """Return the jobs a second of so many processes whose jobs need 10 ms of the processor."""
    jobs = round(100 * processes * (_SECONDS + 4))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(_BACKLOG, {"kind": "compute", "seconds": 0.01, "jobs": jobs})
        db.execute("vacuum (analyze) river_job")
        return _pace(db, [ours(url, 100)] * processes)


def ours(url: str, slots: int) -> Sequence[str | Path]:
    """Return the command of riverui's client."""
    return [sys.executable, "-m", "bench.engine.ours", "idle", url, "1", str(slots)]


def go(binary: Path, url: str, slots: int) -> Sequence[str | Path]:
    """Return the command of Go's, which sends no events of jobs."""
    return [binary, f"-database-url={url}", f"-queues=default={slots}", '-config={"quiet": true}']


def _pace(db: psycopg.Connection, commands: Sequence[Sequence[str | Path]]) -> float:
    """Return the jobs completed in a second, from the first second of work on."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_running(command)) for command in commands]
        while not _completed(db)[1] and all(process.poll() is None for process in processes):
            time.sleep(0.05)
        time.sleep(1)
        since, before = _completed(db)
        time.sleep(_SECONDS)
        until, after = _completed(db)
    return (after - before) / (until - since)


@contextlib.contextmanager
def _running(command: Sequence[str | Path]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    try:
        process.stdin.write(b'{"op": "start", "ref": "1"}\n')
        process.stdin.flush()
        yield process
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended by itself")
    finally:
        process.stdin.close()
        process.wait(30)


def _completed(db: psycopg.Connection) -> tuple[float, int]:
    """Return when, and how many jobs were completed by then."""
    at = time.perf_counter()
    row = db.execute("select count(*) from river_job where state = 'completed'").fetchone()
    assert row is not None
    return at, int(row[0])


def _transactions(db: psycopg.Connection) -> int:
    # Statistics of a session are counted a second late, or at its end.
    time.sleep(1.5)
    row = db.execute(
        "select xact_commit from pg_stat_database where datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])
