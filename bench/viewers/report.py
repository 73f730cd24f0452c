"""Formats the figures of crowds of viewers, a line for each."""

from __future__ import annotations

from bench.viewers.measure import CrowdFigures

HEAD = (
    f"{'viewers':>8}{'answers':>9}{'p50 ms':>9}{'p95 ms':>9}{'longest':>9}{'304':>7}{'503':>7}"
    f"{'failed':>8}{'core':>8}{'db core':>9}{'db tx/s':>9}{'MB/s':>8}"
)


def line(crowd: CrowdFigures) -> str:
    """Return the line of one crowd."""
    answers = sum(crowd.statuses.values())
    database = "–" if crowd.database_core is None else f"{crowd.database_core:.0%}"
    unchanged = crowd.statuses.get("304", 0) / max(answers, 1)
    return (
        f"{crowd.viewers:8,}{answers:9,}{crowd.p50:9.1f}{crowd.p95:9.1f}{crowd.longest:9.0f}"
        f"{unchanged:7.0%}{crowd.refused:7,}{crowd.failed:8,}{crowd.core:8.0%}{database:>9}"
        f"{crowd.transactions:9.1f}{crowd.bytes_per_second / 1e6:8.1f}"
    )
