"""PrometheusPlugin on a real client: what it counts, and of whom."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from riverui import Hook, Job, JobCancel, JobSnooze, PrometheusPlugin, QueueConfig, WorkingClient
from riverui.errors import ConfigError
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging

OUTCOMES = ("cancelled", "completed", "discarded", "failed", "interrupted", "snoozed")


class Figures:
    """A plugin, and its metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.plugin = PrometheusPlugin(registry=self.registry)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"riverui_worker_{name}", labels)

    def attempts(self, kind: str = "task", queue: str = "default") -> dict[str, float]:
        counted = {
            outcome: self.value("attempts_total", queue=queue, kind=kind, outcome=outcome)
            for outcome in OUTCOMES
        }
        return {outcome: count for outcome, count in counted.items() if count}


async def test_attempts_are_counted_by_how_they_ended(play: Playground) -> None:
    figures = Figures()

    async def work(job: Job[Task]) -> None:
        words = job.args.value
        if words == "snooze":
            raise JobSnooze(timedelta(hours=1))
        if words == "cancel":
            raise JobCancel("no")
        if words:
            raise ValueError(words)

    play.worker(work)
    await play.start(plugins=[figures.plugin])
    # After the tenth attempt the next one is hours away.
    for words, attempts in (
        ("", 25),
        ("", 25),
        ("snooze", 25),
        ("cancel", 25),
        ("again", 25),
        ("last", 10),
    ):
        job = await play.insert(Task(words), attempt=9, max_attempts=attempts)
        await play.event(job)
    assert figures.attempts() == {
        "cancelled": 1,
        "completed": 2,
        "discarded": 1,
        "failed": 1,
        "snoozed": 1,
    }
    assert figures.value("run_seconds_count", queue="default", kind="task") == 6
    assert figures.value("wait_seconds_count", queue="default", kind="task") == 6
    fetched = figures.value("fetched_jobs_total", queue="default")
    assert fetched == 6
    assert (figures.value("fetch_seconds_count", queue="default") or 0) >= 6


async def test_slots_and_running_jobs_are_reported(play: Playground) -> None:
    figures, worker = Figures(), Hanging()
    play.worker(worker)
    client = await play.start(
        plugins=[figures.plugin],
        queues={"default": QueueConfig(max_workers=7), "other": QueueConfig(max_workers=2)},
    )
    job = await play.insert()
    await worker.begun.wait()
    figures.plugin.refresh()
    assert figures.value("running_jobs", queue="default") == 1
    assert figures.value("running_jobs", queue="other") == 0
    assert figures.value("slots", queue="default") == 7
    assert figures.value("slots", queue="other") == 2
    assert figures.value("leader") == 0
    assert (figures.value("memory_bytes") or 0) > 10_000_000
    await client.stop_and_cancel()
    assert figures.attempts() == {"interrupted": 1}
    assert figures.value("running_jobs", queue="default") == 0
    assert figures.value("slots", queue="default") == 0
    assert (await play.row(job))["state"] == "available"


async def test_kinds_without_a_worker_are_counted_together(play: Playground) -> None:
    figures = Figures()
    await play.start(plugins=[figures.plugin], fetch_only_known_kinds=False)
    for number in range(3):
        await play.event(await play.insert(kind=f"unheard_of_{number}"))
    assert figures.attempts("*") == {"failed": 3}
    assert b"unheard_of" not in generate_latest(figures.registry)


async def test_several_clients_share_a_plugin(play: Playground) -> None:
    figures = Figures()
    first = await play.start(plugins=[figures.plugin])
    second = play.make(plugins=[figures.plugin])
    await second.start()
    figures.plugin.refresh()
    assert figures.value("slots", queue="default") == 20
    await first.stop()
    assert figures.value("slots", queue="default") == 10
    # It counts again after another start.
    await first.start()
    figures.plugin.refresh()
    assert figures.value("slots", queue="default") == 20


def test_a_second_plugin_on_one_registry_is_refused() -> None:
    figures = Figures()
    with pytest.raises(ConfigError, match="give all clients of a process the same plugin"):
        PrometheusPlugin(registry=figures.registry)


async def test_the_event_loop_is_watched(play: Playground) -> None:
    figures = Figures()
    await play.start(plugins=[figures.plugin])
    await play.until(lambda: (figures.value("loop_lag_seconds_count") or 0) > 0)


async def test_hooks_hear_of_starts_and_stops(play: Playground) -> None:
    heard: list[str] = []

    class Ear(Hook):
        async def client_start(self, client: WorkingClient) -> None:
            heard.append(f"start {sum(client.running_by_queue.values())}")

        def client_stop(self, client: WorkingClient) -> None:
            heard.append("stop")
            raise ValueError("it is stopped all the same")

    client = await play.start(hooks=[Ear()])
    await client.stop()
    assert heard == ["start 0", "stop"]

    class Refusal(Hook):
        def client_start(self, client: WorkingClient) -> None:
            raise ConfigError("not today")

    refused = play.make(hooks=[Ear(), Refusal()])
    with pytest.raises(ConfigError, match="not today"):
        await refused.start()
    assert not refused.started
    assert heard[2:] == ["start 0", "stop"]


@pytest.mark.long
def test_it_works_in_several_processes_of_a_web_server(database_url: str, tmp_path: Path) -> None:
    """As under gunicorn: each writes into a folder, and any of them reports all."""
    (tmp_path / "app.py").write_text(
        """
import asyncio
from riverui import *

workers = Workers()

@workers.task
async def ping() -> None: ...

async def main():
    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=3)}, workers=workers,
        plugins=[PrometheusPlugin()],
    )
    async with Client(None, config) as client:
        done = client.subscribe(EventKind.JOB_COMPLETED)
        await ping.insert(client)
        async for event in done:
            break

asyncio.run(main())
"""
    )
    folder = tmp_path / "metrics"
    folder.mkdir()
    code = (tmp_path / "app.py").read_text().replace("Client(None,", f"Client({database_url!r},")
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    metrics = generate_latest(registry).decode()
    assert (
        'riverui_worker_attempts_total{kind="ping",outcome="completed",queue="default"} 2.0'
        in metrics
    )
    assert 'riverui_worker_run_seconds_count{kind="ping",queue="default"} 2.0' in metrics
