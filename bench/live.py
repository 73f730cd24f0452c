"""Go River at full speed on the same database, with and without people on the dashboard."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import threading
import time
from dataclasses import dataclass

from bench.pages import ask, connection_to, serve
from tests.interop.worker import build, go_worker

_PATHS = (
    "/jobs",
    "/jobs?state=running",
    "/jobs?state=completed",
    "/jobs?state=available",
    "/queues",
    "/about",
)
_VIEWERS = 10
"""Pages asked for each second: as many people, each with live updates every second."""
_WAITING = 20_000
"""Jobs that the load keeps waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveFigures:
    """Jobs per second worked by Go, and milliseconds of the pages meanwhile."""

    alone: float
    watched: float
    pages: int
    p50: float
    p99: float


async def measure_live(database_url: str, *, rounds: int = 2, seconds: float = 5.0) -> LiveFigures:
    """Measure rounds with and without page requests in turns; any page that is not 200 ends the
    run.
    """
    rates: dict[bool, list[float]] = {False: [], True: []}
    answers: list[float] = []
    with serve(
        [sys.executable, "-m", "riverui", "serve", "--no-auth"], {"DATABASE_URL": database_url}
    ) as port:
        async with go_worker(build("worker"), database_url, "-fast", "-queues=default=2000") as go:
            await go.ask("load", count=_WAITING, seconds=2)
            # In both orders, so that the growing table slows both alike.
            for watched in (False, True, True, False) * rounds:
                load = asyncio.create_task(go.ask("load", count=_WAITING, seconds=seconds))
                if watched:
                    answers += await asyncio.to_thread(_look, port, seconds)
                done = await load
                rates[watched].append(done.count / done.seconds)
    return LiveFigures(
        alone=statistics.median(rates[False]),
        watched=statistics.median(rates[True]),
        pages=len(answers),
        p50=statistics.median(answers),
        p99=statistics.quantiles(answers, n=100)[98],
    )


def _look(port: int, seconds: float) -> list[float]:
    """Return the milliseconds of each page; raise the first error of any viewer."""
    answers: list[float] = []
    failures: list[BaseException] = []
    end = time.monotonic() + seconds

    def viewer(number: int) -> None:
        try:
            connection = connection_to(port)
            for path in itertools.islice(itertools.cycle(_PATHS), number, None):
                start = time.perf_counter()
                ask(connection, path)
                took = time.perf_counter() - start
                answers.append(took * 1000)
                if time.monotonic() + 1 > end:
                    break
                time.sleep(max(0.0, 1 - took))
            connection.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=viewer, args=(number,)) for number in range(_VIEWERS)]
    for thread in threads:
        thread.start()
        time.sleep(1 / _VIEWERS)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers
