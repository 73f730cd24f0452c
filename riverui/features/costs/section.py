"""What kinds cost: a table, a card on the page of a kind, and the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.figures import OTHER, WINDOWS, Figures, Window
from riverui.domain.time import duration
from riverui.errors import BadRequest
from riverui.features.costs.domain import KindCost
from riverui.features.costs.reader import read_costs
from riverui.storage.interface import SQL
from riverui.web.api import serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.models import Count, Model
from riverui.web.http.context import Section, dashboard
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search.figure_addresses import (
    WindowChoice,
    read_window,
    window_choices,
    with_window,
)
from riverui.web.view.contributions import KindCard
from riverui.web.view.page_parts import Choice, order_choices
from riverui.web.view.render import respond

_NONE = timedelta(0)
"""Sorts what was not measured last."""
_TIME = "time"
_ORDERS: Mapping[str, tuple[str, Callable[[KindCost], float]]] = {
    _TIME: ("Time of workers", lambda cost: cost.spent.total_seconds()),
    "cpu": ("Processor time", lambda cost: (cost.cpu_total or _NONE).total_seconds()),
    "database": ("Database time", lambda cost: (cost.database_total or _NONE).total_seconds()),
    "wal": ("WAL", lambda cost: cost.wal_total or 0.0),
    "args": ("Size of args", lambda cost: cost.args or 0.0),
    "ended": ("Jobs", lambda cost: cost.jobs),
}
"""Label and sort key of each order, by its name in the address; the most comes first."""
_OF_SERVERS = frozenset({"args", "database", "wal"})
"""Orders by what only a server measures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostsIndex:
    """The costs of all kinds."""

    template: ClassVar[str] = "costs/index.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    costs: tuple[tuple[KindCost, str], ...]
    """Each with the address of its kind; empty for the sum of other kinds."""
    measured: bool
    """Whether the server measured WAL and time."""
    server: bool
    """Whether there is a server, whose costs are known."""
    orders: tuple[Choice, ...]
    figures: Figures
    windows: tuple[WindowChoice, ...]


class CostCard(Struct, frozen=True, kw_only=True):
    """The costs of one kind, on its page."""

    cost: KindCost
    measured: bool
    """Whether the server measured WAL and time."""
    server: bool
    """Whether there is a server, whose costs are known."""
    window: Window
    url: str
    """The address of the costs of all kinds."""


async def index(request: Request) -> Response:
    """Return the costs of all kinds that ended in a window."""
    only(request, "order", "window")
    window, order = read_window(request), request.query_params.get("order") or _TIME
    if order not in _ORDERS:
        raise BadRequest(f"Unknown order; the orders are {', '.join(_ORDERS)}.")
    board = dashboard(request)
    server = SQL in board.driver.capabilities
    orders = {name: _ORDERS[name] for name in _ORDERS if server or name not in _OF_SERVERS}
    figures = await board.figures.read(window)
    costs, measured = await read_costs(board, figures)
    key = _ORDERS[order][1]

    def address(*, window: Window = window, order: str = order) -> str:
        given = "" if order == _TIME else order
        return with_window(url(request, "costs.index"), window, order=given)

    def kind_url(kind: str) -> str:
        return "" if kind == OTHER else url(request, "kinds.show", kind=kind)

    return respond(
        request,
        CostsIndex(
            costs=tuple(
                (cost, kind_url(cost.kind))
                for cost in sorted(costs, key=lambda cost: (-key(cost), cost.kind))
            ),
            measured=measured,
            server=server,
            orders=order_choices(orders, order, lambda other: address(order=other)),
            figures=figures,
            windows=window_choices(window, lambda other: address(window=other)),
        ),
    )


async def card(request: Request, kind: str) -> CostCard | None:
    """Return the costs of a kind; None if none of its jobs ended."""
    board, window = dashboard(request), read_window(request)
    figures = await board.figures.read(window, kind=kind)
    (cost,), measured = await read_costs(board, figures, [kind])
    if not cost.jobs:
        return None
    return CostCard(
        cost=cost,
        measured=measured,
        server=SQL in board.driver.capabilities,
        window=window,
        url=with_window(url(request, "costs.index"), window),
    )


def cost_time(span: timedelta) -> str:
    """Return a duration, one below a millisecond as 80 µs."""
    microseconds = span.total_seconds() * 1e6
    return f"{microseconds:.0f} µs" if 0 < microseconds < 999.5 else duration(span)


class KindCosts(Model, frozen=True, kw_only=True):
    """What the jobs of a kind cost that ended; null for what was not measured."""

    kind: Annotated[str, Meta(description="`*` for the sum of all other kinds.")]
    jobs: Count
    worker_seconds: Annotated[float, Meta(description="Time of workers, of all jobs.")]
    cpu_seconds: Annotated[float | None, Meta(description="Processor time, of all jobs.")]
    database_seconds: Annotated[
        float | None, Meta(description="Time of River's statements, of all jobs.")
    ]
    wal_bytes: Annotated[float | None, Meta(description="WAL of one job.")]
    rows: Annotated[float | None, Meta(description="Row versions of one job.")]
    args_bytes: Annotated[float | None, Meta(description="Args of one job, as stored.")]

    @classmethod
    def from_cost(cls, cost: KindCost) -> Self:
        """Return it as JSON."""
        cpu, database = cost.cpu_total, cost.database_total
        return cls(
            kind=cost.kind,
            jobs=cost.jobs,
            worker_seconds=cost.spent.total_seconds(),
            cpu_seconds=None if cpu is None else cpu.total_seconds(),
            database_seconds=None if database is None else database.total_seconds(),
            wal_bytes=cost.wal,
            rows=cost.rows,
            args_bytes=cost.args,
        )


class Costs(Model, frozen=True, kw_only=True):
    """What kinds cost."""

    window: str
    wal_source: Annotated[
        Literal["pg_stat_statements", "rows"],
        Meta(description="Whether the server measured WAL, or it is estimated from sizes of rows."),
    ]
    data: list[KindCosts]

    @classmethod
    def example(cls) -> Self:
        """Return the costs of one kind."""
        one = KindCosts(
            kind="mail_send",
            jobs=1_200,
            worker_seconds=310.5,
            cpu_seconds=4.2,
            database_seconds=0.6,
            wal_bytes=3_410.0,
            rows=3.2,
            args_bytes=117.0,
        )
        return cls(window="1h", wal_source="pg_stat_statements", data=[one])


async def answer(request: Request) -> Response:
    """Answer what kinds cost, those with the most time of workers first."""
    board, window = dashboard(request), read_window(request)
    kind = request.query_params.get("kind", "")
    figures = await board.figures.read(window, kind=kind)
    costs, measured = await read_costs(board, figures, [kind] if kind else ())
    return serializers.reply(
        Costs(
            window=window.name,
            wal_source="pg_stat_statements" if measured else "rows",
            data=[
                KindCosts.from_cost(cost)
                for cost in sorted(costs, key=lambda cost: (-cost.spent, cost.kind))
            ],
        )
    )


SECTION = Section(
    name="costs",
    routes=(GuardedRoute("GET", "/costs", "costs.index", "figures.read", index),),
    api=(
        Endpoint(
            "GET",
            "/api/kind-costs",
            "api.kind_costs",
            "figures.read",
            answer,
            Description(
                group="Queues",
                summary="What kinds cost: time of workers and processors, WAL, size of args.",
                answer=Costs,
                parameters=(
                    Parameter(
                        name="window",
                        summary="Jobs that ended in this time.",
                        type=Literal[tuple(WINDOWS)],
                        default=next(iter(WINDOWS)),
                    ),
                    Parameter(name="kind", summary="Only this kind."),
                ),
                extension=True,
            ),
        ),
    ),
    template_globals={"cost_time": cost_time},
    kind_cards=(KindCard(template="costs/_kind.html", read=card),),
)
"""The costs of kinds."""
