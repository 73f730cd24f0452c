"""`riverui worker --metrics`: what Prometheus is told, of one process and of several together."""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from riverui.cli.worker.metrics import CombinedMetrics, Family
from tests.ports import free_port
from tests.worker.conftest import HERE, StartWorker, WorkerProcess, ask, wait_for
from tests.worker.test_worker import failed

Sample = tuple[str, tuple[tuple[str, str], ...]]


def read(text: str) -> dict[Sample, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(port: int) -> dict[Sample, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return read(answer.read().decode())


def completed(port: int) -> float:
    labels = (("kind", "quick"), ("outcome", "completed"), ("queue", "default"))
    return scrape(port).get(("riverui_worker_attempts_total", labels), 0.0)


def insert(worker: WorkerProcess, count: int) -> None:
    for _ in range(count):
        worker.insert("quick")


def test_metrics_need_a_port() -> None:
    code, told = failed("shop:client", "--metrics")
    assert code == 2
    assert "set --health-port" in told


def test_one_process_tells_what_it_works(start_worker: StartWorker) -> None:
    port = free_port()
    with start_worker("shop:client", "--metrics", f"--health-port={port}") as worker:
        insert(worker, 2)
        wait_for(lambda: completed(port) == 2)
        told = scrape(port)
        queue = (("queue", "default"),)
        assert told["riverui_worker_slots", queue] == 10
        assert told["riverui_worker_running_jobs", queue] == 0
        assert told["riverui_worker_memory_bytes", ()] > 10_000_000
        assert ("process_cpu_seconds_total", ()) in told, "what else the registry has"
        assert ask(port, "/nothing")[1]["message"] == "There are only /health and /metrics."
        assert worker.stop() == 0


def test_without_the_flag_there_is_none(start_worker: StartWorker) -> None:
    port = free_port()
    with start_worker("shop:client", f"--health-port={port}") as worker:
        assert ask(port, "/metrics")[0] == 404
        assert worker.stop() == 0


def test_a_plugin_of_the_programs_own_is_used(start_worker: StartWorker, tmp_path: Path) -> None:
    code = (HERE / "shop.py").read_text()
    code = code.replace(
        "config = ClientConfig(",
        "from prometheus_client import CollectorRegistry, Counter\n"
        "from riverui import PrometheusPlugin\n"
        "registry = CollectorRegistry()\n"
        "Counter('own', 'Mine.', registry=registry).inc(3)\n"
        "config = ClientConfig(\n    plugins=[PrometheusPlugin(registry=registry)],",
    )
    (tmp_path / "shop.py").write_text(code)
    port = free_port()
    options = ["--metrics", f"--health-port={port}", "--processes=2"]
    with start_worker("shop:client", *options, folder=tmp_path) as worker:
        worker.said("worker has started", times=2)
        told = scrape(port)
        assert told["own_total", ()] == 6
        assert ("process_cpu_seconds_total", ()) not in told
        assert worker.stop() == 0


@pytest.mark.long
def test_several_processes_are_told_together(start_worker: StartWorker) -> None:
    port = free_port()
    options = ["--metrics", f"--health-port={port}", "--processes=2"]
    with start_worker("shop:client", *options) as worker:
        worker.said("worker has started", times=2)
        insert(worker, 4)
        wait_for(lambda: completed(port) == 4)
        told = scrape(port)
        for process in ("1", "2"):
            assert told["riverui_worker_up", (("process", process),)] == 1
            labels = (("process", process), ("queue", "default"))
            assert told["riverui_worker_slots", labels] == 5
        # What processes have counted outlives them.
        victim, other = (each["pid"] for each in ask(port)[1]["processes"])
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: ask(port)[1]["status"] == "ok" and len(worker_pids(port) - {victim}) == 2)
        assert completed(port) == 4
        os.kill(other, signal.SIGTERM)
        wait_for(lambda: not {victim, other}.intersection(worker_pids(port)))
        insert(worker, 3)
        wait_for(lambda: completed(port) == 7)
        restarts = {
            labels: value
            for (name, labels), value in scrape(port).items()
            if name == "riverui_worker_restarts_total" and value
        }
        assert sum(restarts.values()) == 2
        assert worker.stop() == 0


def worker_pids(port: int) -> set[int]:
    found = ask(port)[1].get("processes", ())
    return {each["pid"] for each in found if each["status"] == "ok"}


def family(name: str, kind: str, *samples: tuple[str, dict[str, str], float]) -> Family:
    return name, kind, "Some.", list(samples)


def test_counters_are_added_and_gauges_told_by_process() -> None:
    together = CombinedMetrics()

    def told(jobs: float, memory: float, lag: float) -> list[Family]:
        return [
            family("jobs", "counter", ("jobs_total", {"kind": "mail"}, jobs)),
            family("memory", "gauge", ("memory", {}, memory)),
            family("riverui_worker_slots", "gauge", ("riverui_worker_slots", {}, 2)),
            family(
                "lag",
                "histogram",
                ("lag_bucket", {"le": "1.0"}, 1),
                ("lag_bucket", {"le": "+Inf"}, 2),
                ("lag_count", {}, 2),
                ("lag_sum", {}, lag),
            ),
        ]

    # Two processes have the place 1: the second comes as the first ends its jobs.
    found = read(
        together.text([(1, told(5, 10, 0.5)), (2, told(1, 20, 0.25)), (1, told(1, 30, 1))]).decode()
    )
    assert found == {
        ("jobs_total", (("kind", "mail"),)): 7,
        ("memory", (("process", "1"),)): 30,
        ("memory", (("process", "2"),)): 20,
        ("riverui_worker_slots", (("process", "1"),)): 4,
        ("riverui_worker_slots", (("process", "2"),)): 2,
        ("lag_bucket", (("le", "1.0"),)): 3,
        ("lag_bucket", (("le", "+Inf"),)): 6,
        ("lag_count", ()): 6,
        ("lag_sum", ()): 1.75,
    }
    together.ended(told(5, 10, 0.5))
    together.ended(told(1, 20, 0.25))
    assert read(together.text([]).decode()) == {
        ("jobs_total", (("kind", "mail"),)): 6,
        ("lag_bucket", (("le", "1.0"),)): 2,
        ("lag_bucket", (("le", "+Inf"),)): 4,
        ("lag_count", ()): 4,
        ("lag_sum", ()): 0.75,
    }
