"""The settings of `riverui worker`."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from riverui.cli.settings import choose
from riverui.cli.worker.client import queues
from riverui.cli.worker.settings import (
    WORKER_SETTINGS,
    WorkerConfig,
    worker_config,
)
from riverui.engine.config import QueueConfig
from riverui.errors import ConfigError
from riverui.ipc.child_process import processors


def config(*, flags: dict[str, object] | None = None, **environ: str) -> WorkerConfig:
    return worker_config(choose(flags or {}, environ, WORKER_SETTINGS))


def test_without_any_the_defaults_are_rivers_thirty_seconds() -> None:
    assert config() == WorkerConfig()
    assert config().soft_stop + config().hard_stop == timedelta(seconds=30)


def test_the_environment_may_give_them() -> None:
    found = config(
        RIVERUI_QUEUES="mail=20, reports",
        RIVERUI_CONCURRENCY="7",
        RIVERUI_RELEASE=" v1.4.2 ",
        RIVERUI_SOFT_STOP="1m30s",
        RIVERUI_HARD_STOP="500ms",
        RIVERUI_HEALTH_PORT="8081",
        RIVERUI_HEALTH_HOST="0.0.0.0",
        RIVERUI_HEALTH_FILE="/run/worker",
        RIVER_LOG_LEVEL="WARNING",
    )
    assert found == WorkerConfig(
        queues=("mail=20", "reports"),
        concurrency=7,
        release="v1.4.2",
        soft_stop=timedelta(seconds=90),
        hard_stop=timedelta(milliseconds=500),
        health_host="0.0.0.0",
        health_port=8081,
        health_file=Path("/run/worker"),
        log_level="warn",
    )


def test_charts_may_be_told_nothing() -> None:
    assert config().charts
    assert not config(RIVERUI_CHARTS="off").charts
    assert not config(flags={"charts": "off"}, RIVERUI_CHARTS="on").charts


def test_flags_win_and_may_be_repeated() -> None:
    found = config(
        flags={"queues": ("a", "b=2"), "soft_stop": "1s"},
        RIVERUI_QUEUES="c",
        RIVERUI_SOFT_STOP="9s",
    )
    assert found.queues == ("a", "b=2")
    assert found.soft_stop == timedelta(seconds=1)
    assert config(flags={"queues": ()}, RIVERUI_QUEUES="c").queues == ("c",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20s", 20), ("1.5s", 1.5), ("2m", 120), ("1h2m3s", 3723), ("0s", 0), ("250ms", 0.25)],
)
def test_times_are_written_as_in_go(text: str, seconds: float) -> None:
    assert config(RIVERUI_SOFT_STOP=text).soft_stop == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["20", "s", "1d", "-1s", "1s 2m", "1,5s", "٣s"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="RIVERUI_SOFT_STOP"):
        config(RIVERUI_SOFT_STOP=text)


def test_names_are_used_once() -> None:
    for attribute in ("name", "env", "flag"):
        used = [value for setting in WORKER_SETTINGS if (value := getattr(setting, attribute))]
        assert len(used) == len(set(used)), attribute


GIVEN = {"default": QueueConfig(max_workers=10), "mail": QueueConfig(max_workers=2)}


@pytest.mark.parametrize(
    ("chosen", "concurrency", "expected"),
    [
        ([], None, {"default": 10, "mail": 2}),
        ([], 5, {"default": 5, "mail": 5}),
        (["mail"], None, {"mail": 2}),
        (["mail=7"], 5, {"mail": 7}),
        (["mail=7", "default"], 5, {"mail": 7, "default": 5}),
        (["new=1"], None, {"new": 1}),
        (["new"], 3, {"new": 3}),
    ],
)
def test_queues_are_the_clients_unless_some_are_named(
    chosen: list[str], concurrency: int | None, expected: dict[str, int]
) -> None:
    found = queues(GIVEN, chosen, concurrency)
    assert {name: queue.max_workers for name, queue in found.items()} == expected


def test_what_else_a_queue_was_told_stays() -> None:
    patient = QueueConfig(max_workers=1, fetch_poll_interval=timedelta(seconds=30))
    (queue,) = queues({"a": patient}, ["a=9"], None).values()
    assert queue == QueueConfig(max_workers=9, fetch_poll_interval=timedelta(seconds=30))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512 << 20),
        ("64 kb", 64 << 10),
        ("2g", 2 << 30),
        ("1GiB", 1 << 30),
        ("7Mi", 7 << 20),
    ],
)
def test_sizes_are_those_of_postgres(text: str, size: int) -> None:
    assert config(RIVERUI_MAX_MEMORY=text).max_memory == size
    assert config(RIVERUI_MAX_MEMORY=text).supervised


@pytest.mark.parametrize("text", ["512", "MB", "0MB", "-1MB", "1TB", "1.5GB", "1e3MB", "٣MB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write it like 512MB or 2GB"):
        config(RIVERUI_MAX_MEMORY=text)


def test_auto_is_a_process_for_each_processor_that_may_be_used() -> None:
    assert config(RIVERUI_PROCESSES="auto").processes == processors()
    assert 1 <= processors() <= (os.cpu_count() or 1)
    assert not config(RIVERUI_PROCESSES="1").supervised
    assert config(RIVERUI_PROCESSES="2").supervised
    assert config(RIVERUI_MAX_JOBS="100").supervised
