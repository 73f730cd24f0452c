"""Stand-ins for what the real one reaches over the network: a language model, LiteLLM,
ClickHouse.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, field

from examples.orchestrator.deps import Classification
from examples.orchestrator.jobs import UsageEvent

_TYPES = {"like": "preference", "meet": "event", "born": "fact", "todo": "task"}


@dataclass
class FakeClassifier:
    """Sorts by a word or two; entities are what begins with a capital."""

    seconds: float = 0.05

    async def classify(self, text: str) -> Classification:
        await asyncio.sleep(self.seconds)
        found = (memory_type for word, memory_type in _TYPES.items() if word in text.lower())
        entities = tuple(sorted(set(re.findall(r"(?<!^)\b[A-Z]\w+", text))))
        return Classification(
            next(found, "note"), importance=min(5.0, 1 + len(entities)), entities=entities
        )


class FakeEmbedder:
    """Eight numbers that depend on the text."""

    async def embed(self, text: str) -> list[float]:
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:8]]


class FakeLiteLLM:
    """A price list of two models."""

    async def prices(self) -> dict[str, tuple[float, float]]:
        await asyncio.sleep(0.02)
        return {"small-1": (0.15, 0.6), "large-1": (2.5, 10.0)}


@dataclass
class FakeClickHouse:
    """The table `llm_usage`, by event id."""

    llm_usage: dict[str, UsageEvent] = field(default_factory=dict)

    async def insert(self, event: UsageEvent) -> None:
        await asyncio.sleep(0.005)
        self.llm_usage[event.event_id] = event
