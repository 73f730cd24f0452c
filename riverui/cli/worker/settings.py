"""Every setting of `riverui worker` in one table, and what it makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from riverui.cli.settings import SETTINGS, Setting, Values
from riverui.errors import ConfigError
from riverui.web.config import LOG_FORMATS, LOG_LEVELS

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
        help="Tell charts of every attempt, where riverui's table of figures is there.",
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
"""In the order in which help and documentation tell them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerConfig:
    """Says how a process works. ConfigError on creation names the setting that is wrong."""

    queues: tuple[str, ...] = ()
    """`name` or `name=max_workers`."""
    concurrency: int | None = None
    release: str = ""
    charts: bool = True
    soft_stop: timedelta = timedelta(seconds=20)
    hard_stop: timedelta = timedelta(seconds=10)
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    health_file: Path | None = None
    log_format: str = "text"
    log_level: str = "info"

    def __post_init__(self) -> None:
        if self.health_port is not None and self.health_port > 65535:
            raise ConfigError(f"health port {self.health_port} is not between 0 and 65535")
        if self.log_format not in LOG_FORMATS:
            raise ConfigError(f"log format {self.log_format!r}: use {' or '.join(LOG_FORMATS)}")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError(f"log level {self.log_level!r}: use one of {', '.join(LOG_LEVELS)}")


def worker_config(values: Values) -> WorkerConfig:
    """Return the settings as one; raise ConfigError where one cannot be used."""
    level = values.text("log_level").lower() or "info"
    return WorkerConfig(
        queues=values.words("queues"),
        concurrency=values.number("concurrency") if values.text("concurrency") else None,
        release=values.text("release"),
        charts=values.switch("charts"),
        soft_stop=values.span("soft_stop"),
        hard_stop=values.span("hard_stop"),
        health_host=values.text("health_host"),
        health_port=values.number("health_port") if values.text("health_port") else None,
        health_file=Path(values.text("health_file")) if values.text("health_file") else None,
        log_format=values.text("log_format").lower() or "text",
        log_level="debug" if values.switch("debug") else {"warning": "warn"}.get(level, level),
    )
