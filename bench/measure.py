"""Runs the cases on every database, turn by turn, beside River UI's form of each."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import psycopg

from bench.cases import Case
from bench.stopwatch import Stopwatch, stopwatch
from riverui.storage.postgres.driver import PostgresDriver

_SLOW = 500.0
"""Milliseconds beyond which a query is not repeated more than three times."""


@dataclass(slots=True)
class Timing:
    """Milliseconds of each repeat."""

    runs: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.runs)

    @property
    def enough(self) -> bool:
        """Whether more repeats would only cost time."""
        return len(self.runs) >= 3 and self.median > _SLOW


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One case on one database, in both forms."""

    ours: Timing
    river_ui: Timing | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A database under test: riverui's driver on it, a connection for River UI's queries, the
    cases.
    """

    driver: PostgresDriver
    plain: psycopg.AsyncConnection
    cases: Sequence[Case]


async def measure(subjects: Mapping[int, Subject], *, repeats: int) -> dict[str, dict[int, Result]]:
    """Return the results by case and rows of the database."""
    timings: dict[tuple[str, int, str], Timing] = defaultdict(Timing)
    with stopwatch() as watch:
        for _ in range(repeats):
            for rows, subject in subjects.items():
                for case in subject.cases:
                    forms = {"ours": partial(_ours, subject, case, watch)}
                    if case.river_ui is not None:
                        forms["ui"] = partial(_theirs, subject, case.river_ui, watch)
                    for form, run in forms.items():
                        timing = timings[case.key, rows, form]
                        if not timing.enough:
                            timing.runs.append(await _warm(run))
    return {
        case.key: {
            rows: Result(
                ours=timings[case.key, rows, "ours"],
                river_ui=timings.get((case.key, rows, "ui")),
            )
            for rows in subjects
        }
        for case in next(iter(subjects.values())).cases
    }


async def _warm(run: Callable[[], Awaitable[float]]) -> float:
    """Return the milliseconds of the second of two runs: what ran before it has left the caches to
    other tables.

    A slow query fills the caches with its own table anyway, so one run has to do.
    """
    first = await run()
    return first if first > _SLOW else await run()


async def _ours(subject: Subject, case: Case, watch: Stopwatch) -> float:
    async with subject.driver.reading() as executor:
        watch.clear()
        await case.call(executor)
        return watch.total


async def _theirs(subject: Subject, query: str, watch: Stopwatch) -> float:
    watch.clear()
    await subject.plain.execute(query.encode())
    return watch.total
