"""The adapter for the public comparison of queues says and does what its harness expects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "bench" / "comparison"
_RATE = 200
"""Jobs a second that are offered."""


def test_works_and_reports_its_rates(database_url: str, tmp_path: Path) -> None:
    rate = tmp_path / "producer_rate.txt"
    rate.write_text(f"{_RATE}.0")
    settings = {
        "DATABASE_URL": database_url,
        "PRODUCER_RATE_CONTROL_FILE": str(rate),
        "SAMPLE_EVERY_S": "1",
        "SCENARIO": "long_horizon",
    }
    seen: dict[str, list[float]] = {}
    with subprocess.Popen(
        [sys.executable, _FOLDER / "main.py"],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as adapter:
        assert adapter.stdout is not None
        described = json.loads(adapter.stdout.readline())
        while len(seen.get("producer_target_rate", [])) < 3:
            record = json.loads(adapter.stdout.readline())
            assert record["kind"] == "adapter"
            assert record["t"].endswith("Z")
            seen.setdefault(record["metric"], []).append(record["value"])
        adapter.terminate()
        assert adapter.wait(5) == 0
    manifest = json.loads((_FOLDER / "adapter.json").read_text())
    for name in ("system", "event_tables", "extensions"):
        assert described[name] == manifest[name]
    assert seen["producer_target_rate"] == [_RATE] * 3
    assert sum(seen["enqueue_rate"]) > 0
    assert sum(seen["completion_rate"]) > 0
    assert 0 < seen["claim_p50_ms"][-1] <= seen["claim_p95_ms"][-1] <= seen["claim_p99_ms"][-1]
    assert "queue_depth" in seen
