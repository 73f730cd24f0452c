"""What the workers work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from psycopg_pool import AsyncConnectionPool

from examples.orchestrator.jobs import UsageEvent
from examples.orchestrator.repos import (
    CentroidRepo,
    DrawerRepo,
    GraphRepo,
    MessageRepo,
    PricingRepo,
)


@dataclass(frozen=True)
class Classification:
    """What a model says about a drawer."""

    memory_type: str
    importance: float
    entities: tuple[str, ...]


class Classifier(Protocol):
    """A language model with structured output."""

    async def classify(self, text: str) -> Classification: ...


class Embedder(Protocol):
    """Turns text into a vector."""

    async def embed(self, text: str) -> list[float]: ...


class PriceList(Protocol):
    """Knows what models cost: dollars for a million tokens of input and output."""

    async def prices(self) -> dict[str, tuple[float, float]]: ...


class UsageStore(Protocol):
    """Takes usage events; the same event twice is one event."""

    async def insert(self, event: UsageEvent) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Deps:
    """Everything, made once. Each worker reads the fields that it needs.

    None switches a feature off: its workers then have nothing to do, and the program starts all the
    same.
    """

    db: AsyncConnectionPool[Any]
    drawers: DrawerRepo
    graph: GraphRepo
    centroids: CentroidRepo
    messages: MessageRepo
    pricing: PricingRepo
    classifier: Classifier | None = None
    embedder: Embedder | None = None
    price_list: PriceList | None = None
    usage: UsageStore | None = None
