"""The API of objectives of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.features.slo.reader import Standing, standings
from riverui.web.api import serializers
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.api.models import Model
from riverui.web.http.context import Section, dashboard


class QueueObjective(Model, frozen=True, kw_only=True):
    """An objective of a queue, and how well it is met; null for what was not measured."""

    queue: str
    target: Annotated[float, Meta(description="The share of jobs, from 0.9 to less than 1.")]
    within_seconds: float
    good: Annotated[
        Mapping[str, float | None],
        Meta(description="The share that started in time, in `1h`, `7d` and `30d`."),
    ]
    burn_rates: Annotated[
        Mapping[str, float | None],
        Meta(description="Late jobs, as a multiple of those that may be: `5m`, `30m`, `1h`, `6h`."),
    ]

    @classmethod
    def from_standing(cls, found: Standing) -> Self:
        """Return it as JSON."""
        return cls(
            queue=found.objective.queue,
            target=found.objective.target,
            within_seconds=found.objective.within.total_seconds(),
            good=found.good,
            burn_rates=found.burns,
        )


class QueueObjectives(Model, frozen=True, kw_only=True):
    """The objectives of queues."""

    data: list[QueueObjective]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        burns = {"5m": 0.2, "30m": 0.4, "1h": 0.3, "6h": 0.5}
        good = {"1h": 0.997, "7d": 0.995, "30d": None}
        one = QueueObjective(
            queue="mail", target=0.99, within_seconds=30.0, good=good, burn_rates=burns
        )
        return cls(data=[one])


async def index(request: Request) -> Response:
    """Answer the objectives of queues, and how well they are met."""
    board = dashboard(request)
    found = await standings(board.figures, board.config.slo)
    return serializers.reply(
        QueueObjectives(data=[QueueObjective.from_standing(each) for each in found])
    )


SECTION = Section(
    name="slo",
    api=(
        Endpoint(
            "GET",
            "/api/slo",
            "api.slo",
            "figures.read",
            index,
            Description(
                group="Queues",
                summary="Objectives of queues (RIVERUI_SLO), and how well they are met.",
                answer=QueueObjectives,
                extension=True,
            ),
        ),
    ),
)
"""Objectives of queues."""
