"""How well the objectives of queues are met, from figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec import Struct

from riverui.domain.figures import WINDOWS
from riverui.domain.health.slo import HOUR, Objective, ObjectiveFigures, objectives
from riverui.features.figures.reader.figure_reader import FigureReader

_DAYS = 30
"""Days of the longest span: as long as error budgets usually are."""
_BURNS = {
    "5m": timedelta(minutes=5),
    "30m": timedelta(minutes=30),
    "1h": HOUR,
    "6h": 6 * HOUR,
}
"""The spans of burn rates."""


class Standing(Struct, frozen=True, kw_only=True):
    """How well an objective is met; None for what was not measured."""

    objective: Objective
    good: Mapping[str, float | None]
    """The share of jobs that started in time, in 1h, 7d and 30d."""
    burns: Mapping[str, float | None]
    """How many times more jobs are late than may be, in 5m, 30m, 1h and 6h."""

    @property
    def words(self) -> str:
        """Return it in two sentences."""
        said = {name: "?" if x is None else f"{100 * x:.4g} %" for name, x in self.good.items()}
        return (
            f"Objective: {self.objective.words}. {said['1h']} did in the last hour,"
            f" {said['7d']} in 7 days, {said['30d']} in 30 days."
        )


async def standing(figures: FigureReader, objective: Objective) -> Standing:
    """Return how well an objective is met."""
    queue = objective.queue
    known = ObjectiveFigures(
        objective=objective,
        hour=await figures.read(WINDOWS["1h"], queue=queue),
        hours=await figures.read(WINDOWS["6h"], queue=queue),
    )
    week = await figures.read(WINDOWS["7d"], queue=queue)
    days = await figures.read(WINDOWS["90d"], queue=queue)
    return Standing(
        objective=objective,
        good={
            "1h": objective.good(known.newest(HOUR)),
            "7d": objective.good(week.columns),
            "30d": objective.good(days.columns[-_DAYS:]),
        },
        burns={name: objective.burn(known.newest(span)) for name, span in _BURNS.items()},
    )


async def standings(figures: FigureReader, slo: str) -> Sequence[Standing]:
    """Return how well all objectives of a setting are met."""
    return [await standing(figures, each) for each in objectives(slo)]
