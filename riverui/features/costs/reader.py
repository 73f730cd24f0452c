"""Reads what kinds cost: from figures, the sizes of some rows, and pg_stat_statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from riverui.domain.figures import OTHER, WINDOWS, Figures, Tally
from riverui.errors import DatabaseError
from riverui.features.costs.domain import (
    JobSizes,
    KindCost,
    Measured,
    StatementMeans,
    kind_cost,
    measured,
)
from riverui.features.costs.store import CostStore
from riverui.storage.interface import SQL, Executor
from riverui.web.http.context import Dashboard, Service
from riverui.web.http.kept_reading import KeptReading
from riverui.web.view.facts import fact

_SAMPLE = 10
"""Jobs of a kind whose sizes are read: those of a kind are mostly alike."""
_MEASURED_SECONDS = 300.0
"""How long a measurement is used: the server's sums change slowly, and are of all statements."""
_COMPARED = 50
"""Kinds whose sizes a measurement is compared with, those with the most jobs."""


async def read_costs(
    board: Dashboard, figures: Figures, kinds: Sequence[str] = ()
) -> tuple[Sequence[KindCost], bool]:
    """Return the costs of the kinds in the figures, or of these, and whether WAL was measured. What
    cannot be read is None.
    """
    tallies = figures.by_kind
    kinds = kinds or tuple(tallies)
    sizes = await _sizes(board, [kind for kind in kinds if kind != OTHER])
    compared = await board.get(_MEASURED).get() if sizes else None
    costs = [
        kind_cost(kind, tallies.get(kind, Tally()), sizes.get(kind), compared) for kind in kinds
    ]
    return costs, compared is not None


async def _sizes(board: Dashboard, kinds: Sequence[str]) -> Mapping[str, JobSizes]:
    async def read(executor: Executor) -> Mapping[str, JobSizes]:
        if SQL not in executor.capabilities or not kinds:
            return {}
        return await CostStore(executor).job_size_list(kinds, jobs=_SAMPLE)

    found = await fact(board.driver, read)
    return {} if isinstance(found, DatabaseError) else found


async def _measured(board: Dashboard) -> Measured | None:
    means = await fact(board.driver, _means)
    if means is None or isinstance(means, DatabaseError):
        return None
    tallies = (await board.figures.read(WINDOWS["1h"])).by_kind
    named = [kind for kind in tallies if kind != OTHER]
    busiest = sorted(named, key=lambda kind: -tallies[kind].ended)[:_COMPARED]
    return measured(means, tallies, await _sizes(board, busiest))


async def _means(executor: Executor) -> StatementMeans | None:
    return await CostStore(executor).statement_mean_get() if SQL in executor.capabilities else None


_MEASURED = Service(
    make=lambda board: KeptReading(
        partial(_measured, board), seconds=_MEASURED_SECONDS, clock=board.clock
    )
)
