"""The one place where workers, queues and schedules come together."""

from __future__ import annotations

from datetime import timedelta

from examples.orchestrator.deps import Deps
from examples.orchestrator.jobs import (
    MemoryCentroidRecompute,
    MemoryEnrich,
    MemoryMaintain,
    MemoryProcess,
    MessageCleanup,
    PricingRefresh,
)
from examples.orchestrator.memory_workers import (
    MemoryCentroidRecomputeWorker,
    MemoryEnrichWorker,
    MemoryMaintainWorker,
    MemoryProcessWorker,
)
from examples.orchestrator.orchestrator_workers import (
    MessageCleanupWorker,
    PricingRefreshWorker,
    UsageWriteWorker,
)
from riverui import ClientConfig, CronSchedule, PeriodicInterval, PeriodicJob, QueueConfig, Workers

_WORKERS = (
    MemoryCentroidRecomputeWorker,
    MemoryEnrichWorker,
    MemoryMaintainWorker,
    MemoryProcessWorker,
    MessageCleanupWorker,
    PricingRefreshWorker,
    UsageWriteWorker,
)


def new_config(deps: Deps, *, soft_stop_timeout: timedelta = timedelta(seconds=20)) -> ClientConfig:
    """Return how the orchestrator's client works."""
    workers = Workers()
    for worker in _WORKERS:
        workers.add(worker(deps))
    return ClientConfig(
        workers=workers,
        queues={
            "memory_process": QueueConfig(max_workers=4),
            "memory_enrich": QueueConfig(max_workers=2),
            "memory_maintain": QueueConfig(max_workers=1),
            "memory_centroid_recompute": QueueConfig(max_workers=1),
            "message_cleanup": QueueConfig(max_workers=1),
            "pricing_refresh": QueueConfig(max_workers=1),
            "usage_write": QueueConfig(max_workers=50),
        },
        periodic_jobs=[
            PeriodicJob(PeriodicInterval(timedelta(minutes=1)), MemoryProcess, run_on_start=True),
            PeriodicJob(PeriodicInterval(timedelta(minutes=10)), MemoryEnrich),
            PeriodicJob(CronSchedule("0 0 * * *"), MemoryMaintain),
            PeriodicJob(CronSchedule("0 3 * * 0"), MemoryCentroidRecompute),
            PeriodicJob(PeriodicInterval(timedelta(minutes=1)), MessageCleanup),
            PeriodicJob(CronSchedule("@daily"), PricingRefresh, run_on_start=True),
        ],
        soft_stop_timeout=soft_stop_timeout,
    )
