"""The settings of `riverui worker` in one table, and their config."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from riverui.cli.settings import SETTINGS, Setting, Values
from riverui.errors import ConfigError
from riverui.web.config import LOG_FORMATS, LOG_LEVELS

_MAX_PROCESSES = 256
"""More than machines have processors: each process has some five connections to the database."""
_SIZE = re.compile(r"(\d{1,9})\s*([kmg])i?b?", re.IGNORECASE | re.ASCII)
_SHIFTS = {"k": 10, "m": 20, "g": 30}
"""Of one unit to bytes, in bits."""

WORKER_SETTINGS = (
    Setting(
        name="queues",
        group="Work",
        env="RIVERUI_QUEUES",
        flag="--queue",
        metavar="NAME[=N]",
        default_words="those of the client",
        repeats=True,
        help="Work only this queue, N jobs at once. May be repeated.",
    ),
    Setting(
        name="concurrency",
        group="Work",
        env="RIVERUI_CONCURRENCY",
        flag="--concurrency",
        metavar="N",
        default_words="the client's",
        help="Jobs at once in each queue, unless --queue says otherwise.",
    ),
    Setting(
        name="processes",
        group="Work",
        env="RIVERUI_PROCESSES",
        flag="--processes",
        metavar="N|auto",
        default="1",
        help="Processes that share the jobs at once of each queue; auto is one for each processor.",
    ),
    Setting(
        name="max_jobs",
        group="Work",
        env="RIVERUI_MAX_JOBS",
        flag="--max-jobs",
        metavar="N",
        default_words="no limit",
        help="Replace a process after about N jobs, 90 to 100 % of it.",
    ),
    Setting(
        name="max_memory",
        group="Work",
        env="RIVERUI_MAX_MEMORY",
        flag="--max-memory",
        metavar="SIZE",
        default_words="no limit",
        help="Replace a process that takes more memory, such as 512MB, once its jobs have ended.",
    ),
    Setting(
        name="release",
        group="Work",
        env="RIVERUI_RELEASE",
        flag="--release",
        metavar="NAME",
        default_words="the client's",
        help="Version or commit of this program: the first worker of each marks it in charts.",
    ),
    Setting(
        name="charts",
        group="Work",
        env="RIVERUI_CHARTS",
        flag="--charts",
        metavar="on|off",
        default="on",
        help="Count attempts for charts, if riverui's table of figures exists.",
    ),
    Setting(
        name="soft_stop",
        group="Stop",
        env="RIVERUI_SOFT_STOP",
        flag="--soft-stop",
        metavar="TIME",
        default="20s",
        help="How long running jobs may continue after SIGTERM or SIGINT.",
    ),
    Setting(
        name="hard_stop",
        group="Stop",
        env="RIVERUI_HARD_STOP",
        flag="--hard-stop",
        metavar="TIME",
        default="10s",
        help="How long cancelled jobs may take to end before the process exits without them.",
    ),
    Setting(
        name="health_port",
        group="Health",
        env="RIVERUI_HEALTH_PORT",
        flag="--health-port",
        metavar="PORT",
        default_words="none",
        help="Answer GET /health on this port: 200 while it works, otherwise 503.",
    ),
    Setting(
        name="health_host",
        group="Health",
        env="RIVERUI_HEALTH_HOST",
        flag="--health-host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="Address of that port; 0.0.0.0 lets other machines connect.",
    ),
    Setting(
        name="metrics",
        group="Health",
        env="RIVERUI_METRICS",
        flag="--metrics",
        switch=True,
        help="Answer GET /metrics on that port too, for Prometheus.",
    ),
    Setting(
        name="health_file",
        group="Health",
        env="RIVERUI_HEALTH_FILE",
        flag="--health-file",
        metavar="FILE",
        default_words="none",
        help="Touch this file every 5 s while working; it is removed at the end.",
    ),
    *(setting for setting in SETTINGS if setting.group == "Logs"),
)
"""In the order of the help and the documentation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerConfig:
    """The settings of a worker; raises ConfigError for one that is not valid."""

    queues: tuple[str, ...] = ()
    """`name` or `name=max_workers`."""
    concurrency: int | None = None
    processes: int = 1
    max_jobs: int | None = None
    """Approximate number of jobs after which a process is replaced."""
    max_memory: int | None = None
    """Bytes beyond which a process is replaced."""
    release: str = ""
    charts: bool = True
    soft_stop: timedelta = timedelta(seconds=20)
    hard_stop: timedelta = timedelta(seconds=10)
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    health_file: Path | None = None
    metrics: bool = False
    log_format: str = "text"
    log_level: str = "info"

    @property
    def supervised(self) -> bool:
        """Whether a supervisor starts and replaces processes."""
        return self.processes > 1 or self.max_jobs is not None or self.max_memory is not None

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= _MAX_PROCESSES:
            raise ConfigError(f"processes must be from 1 to {_MAX_PROCESSES}")
        if self.max_jobs is not None and self.max_jobs < 1:
            raise ConfigError("max jobs must be 1 or more")
        if self.supervised and not hasattr(os, "fork"):
            raise ConfigError("several processes need a system that has fork, such as Linux")
        if self.health_port is not None and self.health_port > 65535:
            raise ConfigError(f"health port {self.health_port} is not between 0 and 65535")
        if self.metrics and self.health_port is None:
            raise ConfigError("metrics are served on the health port: set --health-port")
        if self.log_format not in LOG_FORMATS:
            raise ConfigError(f"log format {self.log_format!r}: use {' or '.join(LOG_FORMATS)}")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError(f"log level {self.log_level!r}: use one of {', '.join(LOG_LEVELS)}")


def worker_config(values: Values) -> WorkerConfig:
    """Return the config of these settings; raise ConfigError for one that is not valid."""
    level = values.text("log_level").lower() or "info"
    return WorkerConfig(
        queues=values.words("queues"),
        concurrency=values.number("concurrency") if values.text("concurrency") else None,
        processes=_processes(values),
        max_jobs=values.number("max_jobs") if values.text("max_jobs") else None,
        max_memory=_size(values.text("max_memory")) if values.text("max_memory") else None,
        release=values.text("release"),
        charts=values.switch("charts"),
        soft_stop=values.span("soft_stop"),
        hard_stop=values.span("hard_stop"),
        health_host=values.text("health_host"),
        health_port=values.number("health_port") if values.text("health_port") else None,
        health_file=Path(values.text("health_file")) if values.text("health_file") else None,
        metrics=values.switch("metrics"),
        log_format=values.text("log_format").lower() or "text",
        log_level="debug" if values.switch("debug") else {"warning": "warn"}.get(level, level),
    )


def _processes(values: Values) -> int:
    if values.text("processes").lower() == "auto":
        # With asyncio and msgspec, which `riverui --help` does without.
        from riverui.ipc.child_process import processors

        return min(processors(), _MAX_PROCESSES)
    return values.number("processes")


def _size(text: str) -> int:
    """Return the bytes of a size such as 512MB, in Postgres's units."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise ConfigError(f"max memory is {text!r}: write it like 512MB or 2GB")
    return int(found[1]) << _SHIFTS[found[2].lower()]
