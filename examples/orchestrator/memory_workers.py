"""The four workers that look after the memory."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from datetime import timedelta

from examples.orchestrator.deps import Deps
from examples.orchestrator.jobs import (
    MemoryCentroidRecompute,
    MemoryEnrich,
    MemoryMaintain,
    MemoryProcess,
)
from riverui import Job, Worker, record_output

# What is logged during a job is also kept with it: the dashboard shows it, live.
log = logging.getLogger(__name__)


class MemoryProcessWorker(Worker[MemoryProcess]):
    """Has a model sort raw drawers, and links what they speak of."""

    timeout = timedelta(minutes=5)

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[MemoryProcess]) -> None:
        classifier = self.deps.classifier
        if classifier is None:
            return
        drawers = await self.deps.drawers.raw()
        for drawer in drawers:
            found = await classifier.classify(drawer.content)
            await self.deps.drawers.mark_sorted(drawer.id, found.memory_type, found.importance)
            await self.deps.graph.link(drawer.id, found.entities)
            log.info("drawer %s is a %s", drawer.id, found.memory_type)
        record_output({"processed": len(drawers)})


class MemoryEnrichWorker(Worker[MemoryEnrich]):
    """Finds the entities that the quick paths did not look for."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[MemoryEnrich]) -> None:
        classifier = self.deps.classifier
        if classifier is None:
            return
        drawers = await self.deps.drawers.unlinked()
        for drawer in drawers:
            found = await classifier.classify(drawer.content)
            await self.deps.graph.link(drawer.id, found.entities)
        log.info("enriched %s drawers", len(drawers))


class MemoryMaintainWorker(Worker[MemoryMaintain]):
    """Daily: memories fade, and what has faded goes."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[MemoryMaintain]) -> None:
        faded, pruned = await self.deps.drawers.decay_and_prune(factor=0.98, floor=0.5)
        record_output({"faded": faded, "pruned": pruned})


class MemoryCentroidRecomputeWorker(Worker[MemoryCentroidRecompute]):
    """Weekly: the average vector of each type of memory."""

    timeout = timedelta(minutes=10)

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[MemoryCentroidRecompute]) -> None:
        record_output({"changed": await recompute_centroids(self.deps)})


async def recompute_centroids(deps: Deps) -> list[str]:
    """Brings every centroid up to date; the types whose drawers have changed since the last
    time.
    """
    if deps.embedder is None:
        return []
    changed = []
    for memory_type in await deps.drawers.memory_types():
        drawers = await deps.drawers.sorted_by_llm(memory_type)
        ids = ",".join(str(drawer.id) for drawer in drawers)
        source_hash = hashlib.sha256(ids.encode()).hexdigest()
        if source_hash == await deps.centroids.source_hash(memory_type):
            continue
        vectors = [await deps.embedder.embed(drawer.content) for drawer in drawers]
        centroid = [sum(numbers) / len(numbers) for numbers in zip(*vectors, strict=True)]
        await deps.centroids.upsert(memory_type, centroid, source_hash)
        changed.append(memory_type)
    return changed


async def seed_centroids(deps: Deps, within: timedelta = timedelta(seconds=30)) -> None:
    """Fill the table after a fresh deploy, so that nobody waits for Sunday. Never fails."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            await recompute_centroids(deps)
    except Exception:
        log.warning("centroids could not be seeded; the weekly job will", exc_info=True)
