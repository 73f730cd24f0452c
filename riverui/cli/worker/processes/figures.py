"""The metrics of all processes for Prometheus, including those that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from riverui.cli.worker.metrics import CombinedMetrics
from riverui.cli.worker.processes.member import Member
from riverui.cli.worker.processes.worker_process import WorkerProcess

_ANSWER_SECONDS = 3.0
"""Seconds for a process to answer: Prometheus waits for ten. The last answer counts for one that
does not.
"""
_ASK_SECONDS = 10.0
"""Seconds between two requests without a scrape: what a killed process counted since the last one
is lost.
"""

REASONS = ("ended", "jobs", "memory", "reload", "signal")
"""Why processes are replaced."""


class Figures:
    """The metrics of a supervisor's processes."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._following: set[WorkerProcess] = set()
        self._together = CombinedMetrics()

    def follow(self, process: WorkerProcess) -> None:
        """Include the metrics of a process, also after it has ended."""
        self._following.add(process)

    async def run(self) -> None:
        """Collect the processes' metrics periodically."""
        while True:
            await asyncio.sleep(_ASK_SECONDS)
            await self._ask()

    async def text(self) -> bytes:
        """Return all metrics as text."""
        await self._ask()
        # Gauges of the current process of a place replace those of a process that is leaving.
        living = sorted(self._following, key=lambda process: process.began_at)
        counted = [(process.number, process.metrics) for process in living]
        return self._together.text(counted, self._supervisor_metrics())

    async def _ask(self) -> None:
        asked = tuple(self._following)
        await asyncio.gather(*(each.ask_metrics(seconds=_ANSWER_SECONDS) for each in asked))
        for process in asked:
            if process.ended.is_set() and process in self._following:
                self._following.remove(process)
                self._together.ended(process.metrics)

    def _supervisor_metrics(self) -> list[Metric]:
        up = GaugeMetricFamily(
            "riverui_worker_up", "Whether a process works in this place.", labels=["process"]
        )
        restarts = CounterMetricFamily(
            "riverui_worker_restarts",
            "Processes that were replaced.",
            labels=["process", "reason"],
        )
        for member in self._members:
            works = any(process.started.is_set() for process in member.processes)
            up.add_metric([str(member.number)], works)
            for reason in REASONS:
                restarts.add_metric([str(member.number), reason], member.restarts[reason])
        return [up, restarts]
