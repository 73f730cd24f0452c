"""Every kind of job: what it carries, the queue it goes through, and what makes it unique."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from riverui import InsertOpts, UniqueOpts


@dataclass(frozen=True)
class MemoryProcess:
    """Sort the drawers that the quick paths could not sort."""

    kind: ClassVar[str] = "memory_process"

    def insert_opts(self) -> InsertOpts:
        """Let one a minute in, however many replicas ask for it, and no second one while one waits
        or runs.
        """
        once = UniqueOpts(by_args=True, by_period=timedelta(minutes=1))
        return InsertOpts(queue="memory_process", unique_opts=once)


@dataclass(frozen=True)
class MemoryEnrich:
    """Find the entities in important drawers that took a quick path."""

    kind: ClassVar[str] = "memory_enrich"

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="memory_enrich")


@dataclass(frozen=True)
class MemoryMaintain:
    """Let old memories fade, and prune those that have faded."""

    kind: ClassVar[str] = "memory_maintain"

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="memory_maintain")


@dataclass(frozen=True)
class MemoryCentroidRecompute:
    """Average the vectors of each type of memory, for the quick path that compares with them."""

    kind: ClassVar[str] = "memory_centroid_recompute"

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="memory_centroid_recompute")


@dataclass(frozen=True)
class MessageCleanup:
    """Fail messages that nobody will answer any more."""

    kind: ClassVar[str] = "message_cleanup"

    def insert_opts(self) -> InsertOpts:
        once = UniqueOpts(by_period=timedelta(seconds=30))
        return InsertOpts(queue="message_cleanup", unique_opts=once)


@dataclass(frozen=True)
class PricingRefresh:
    """Fetch what each model costs."""

    kind: ClassVar[str] = "pricing_refresh"

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="pricing_refresh")


@dataclass(frozen=True)
class UsageEvent:
    """Write down what one answer of a model has used."""

    kind: ClassVar[str] = "usage_write"

    event_id: str
    """A UUID: a job may be worked twice, its event is to be counted once."""
    workspace: str
    model: str
    input_tokens: int
    output_tokens: int

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="usage_write")
