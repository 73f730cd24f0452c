"""`riverui worker`: works the jobs of a client that a program defines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from riverui.cli.settings import choose, settings_options, texts
from riverui.cli.worker.settings import WORKER_SETTINGS, WorkerConfig, worker_config


@settings_options(settings=WORKER_SETTINGS)
@click.command("worker")
@click.argument("target", metavar="MODULE:CLIENT")
@click.option(
    "--reload",
    is_flag=True,
    help="For development: restart when Python code in this folder changes.",
)
@click.pass_obj
def worker(environ: Mapping[str, str], /, target: str, reload: bool, **flags: Any) -> int:
    """Work jobs.

    MODULE:CLIENT names a riverui.Client in a module, or a function that gives one; the module is
    looked for in the current folder too. SIGTERM or Ctrl-C stops in three phases: running jobs may
    end, then they are cancelled, then the process exits; a second one begins the next phase.
    """
    config = worker_config(choose(texts(flags), environ, WORKER_SETTINGS))
    if reload:
        from riverui.cli.worker.reload import run_and_reload

        if not (flags["soft_stop"] or environ.get("RIVERUI_SOFT_STOP")):
            flags["soft_stop"] = "2s"
        return run_and_reload(_again(target, flags), Path.cwd())

    import asyncio

    from riverui.cli.logs import configure_logging
    from riverui.cli.worker.target import find
    from riverui.engine.event_loop import loop_factory, spare_collector
    from riverui.engine.work.log_capture import JobOfRecord

    configure_logging(format=config.log_format, level=config.log_level, filters=[JobOfRecord()])
    found = find(target, Path.cwd())
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(found, target, config))
    return 0


async def _work(found: object, target: str, config: WorkerConfig) -> None:
    from riverui.cli.worker.run import run
    from riverui.cli.worker.target import queues, resolve

    client = await resolve(found, target)
    client.config = replace(
        client.config,
        queues=queues(client.config.queues, config.queues, config.concurrency),
        release=config.release or client.config.release,
        charts=config.charts and client.config.charts,
    )
    await run(client, config)


def _again(target: str, flags: Mapping[str, Any]) -> list[str]:
    """Return the command line of a worker with the same flags that does not reload."""
    words = [sys.executable, "-m", "riverui", "worker", target]
    for setting in WORKER_SETTINGS:
        given = flags.get(setting.name)
        if setting.switch:
            words += [setting.flag] if given else []
        else:
            values = given if isinstance(given, tuple) else [given] if given is not None else []
            words += [f"{setting.flag}={value}" for value in values]
    return words
