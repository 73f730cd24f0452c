"""Queues in a SQLite file: ours, Go's River, huey and litequeue, each in its own process.

`python -m bench.sqlite` prints a table; in all of them each commit waits for the disk. `python -m
bench.sqlite NAME FILE` measures one. The Go program is built by the tests of `tests/interop`; the
peers are installed by `pip install huey litequeue`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.worker import build

_ONE, _MANY = 2_000, 20_000
"""Jobs that are inserted one by one, and in one call."""
_AT_ONCE = 100
"""Tasks, goroutines or threads that insert one by one at the same time."""
_SLOTS = 100
"""Jobs that a worker runs at a time."""

Rates = dict[str, float | None]
"""Jobs a second, by what was done; None for what a queue does not have."""


@contextmanager
def _timed(rates: Rates, name: str, jobs: int) -> Iterator[None]:
    began = time.perf_counter()
    yield
    rates[name] = jobs / (time.perf_counter() - began)


async def riverui(file: str) -> Rates:
    """Measure this package."""
    from riverui import Client, ClientConfig, JsonArgs, QueueConfig, Workers, connect, migrate

    rates: Rates = {}
    done, left = asyncio.Event(), 2 * _ONE + _MANY
    workers = Workers()

    @workers.task(kind="noop")
    async def noop(n: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    driver = connect(f"sqlite:///{file}")
    await migrate(driver)
    config = ClientConfig(queues={"default": QueueConfig(max_workers=_SLOTS)}, workers=workers)
    client = Client(driver, config)
    with _timed(rates, "insert", _ONE):
        for n in range(_ONE):
            await client.insert(JsonArgs("noop", {"n": n}))
    with _timed(rates, "at_once", _ONE):

        async def some(first: int) -> None:
            for n in range(first, _ONE, _AT_ONCE):
                await client.insert(JsonArgs("noop", {"n": n}))

        await asyncio.gather(*map(some, range(_AT_ONCE)))
    with _timed(rates, "insert_many", _MANY):
        await client.insert_many([JsonArgs("noop", {"n": n}) for n in range(_MANY)])
    with _timed(rates, "work", left):
        async with client:
            await done.wait()
    return rates


async def river(file: str) -> Rates:
    """Measure Go's River on modernc.org/sqlite, with one connection as it advises."""
    program = build("sqlite")

    def run(*command: object) -> float:
        words = [str(program), file, *map(str, command)]
        return float(subprocess.run(words, capture_output=True, check=True).stdout or 1)

    run("migrate")
    return {
        "insert": _ONE / run("insert", _ONE),
        "at_once": _ONE / run("at_once", _ONE),
        "insert_many": _MANY / run("insert_many", _MANY),
        "work": (2 * _ONE + _MANY) / run("bench", _SLOTS, 2 * _ONE + _MANY),
    }


async def huey(file: str) -> Rates:
    """Measure huey with `fsync` and four threads; it inserts one by one and deletes what it takes,
    before it works it.
    """
    rates: Rates = {"insert_many": None}
    queue: Any = importlib.import_module("huey").SqliteHuey(filename=file, fsync=True)
    done, left, lock = threading.Event(), 2 * _ONE, threading.Lock()

    def noop(n: int) -> None:
        nonlocal left
        with lock:
            left -= 1
            if not left:
                done.set()

    task = queue.task()(noop)
    with _timed(rates, "insert", _ONE):
        for n in range(_ONE):
            task(n)
    with _timed(rates, "at_once", _ONE), ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(task, range(_ONE)))
    consumer = queue.create_consumer(workers=4, periodic=False)
    with _timed(rates, "work", left):
        consumer.start()
        await asyncio.to_thread(done.wait)
    consumer.stop(graceful=True)
    return rates


async def litequeue(file: str) -> Rates:
    """Measure litequeue, taken and marked as done by one thread; it has no workers of its own."""
    rates: Rates = {"insert_many": None, "at_once": None}
    queue: Any = importlib.import_module("litequeue").LiteQueue(file)
    queue.conn.execute("pragma synchronous = full")
    with _timed(rates, "insert", _ONE):
        for n in range(_ONE):
            queue.put(json.dumps({"n": n}))
    with _timed(rates, "work", _ONE):
        while (message := queue.pop()) is not None:
            queue.done(message.message_id)
    return rates


_QUEUES: dict[str, Callable[[str], Any]] = {
    "riverui": riverui,
    "river": river,
    "huey": huey,
    "litequeue": litequeue,
}


def main() -> None:
    """Measure all, or one by name."""
    if sys.argv[1:]:
        print(json.dumps(asyncio.run(_QUEUES[sys.argv[1]](sys.argv[2]))))
        return
    print(f"{'jobs/s':12}{'insert':>12}{'100 at once':>14}{'in one call':>14}{'work':>12}")
    for name in _QUEUES:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-m", "bench.sqlite", name, str(Path(folder, "jobs.db"))]
            ended = subprocess.run(words, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(f"{name:12}{ended.stderr.strip().splitlines()[-1]}")
            continue
        rates = json.loads(ended.stdout)
        figures = [rates[each] for each in ("insert", "at_once", "insert_many", "work")]
        texts = ["–" if figure is None else f"{figure:,.0f}" for figure in figures]
        print(f"{name:12}{texts[0]:>12}{texts[1]:>14}{texts[2]:>14}{texts[3]:>12}")


if __name__ == "__main__":
    main()
