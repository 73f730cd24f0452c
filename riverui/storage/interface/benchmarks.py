"""What `riverui bench` needs besides the engine's operations."""

from __future__ import annotations

from typing import Protocol

from riverui.storage.interface.capabilities import Capability


class BenchmarkExecutor(Protocol):
    """Empties River's tables."""

    async def job_truncate(self) -> None:
        """Empty river_job at once, whatever is in it."""
        ...


BENCHMARKS: Capability[BenchmarkExecutor] = Capability(
    "benchmarks", "Benchmarks cannot be run: the table of jobs cannot be emptied at once."
)
