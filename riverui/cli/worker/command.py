"""`riverui worker`: works jobs with a program's client."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.settings import choose, settings_options
from riverui.cli.worker.settings import WORKER_SETTINGS, WorkerConfig, worker_config

if TYPE_CHECKING:
    import socket

    from riverui.cli.worker.processes.fork import ForkedWorker


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

    MODULE:CLIENT names a riverui.Client in a module, or a function that returns one; the module may
    be in the current folder. SIGTERM or Ctrl-C stops in three phases: running jobs may finish, then
    they are cancelled, then the process exits; another signal begins the next phase.
    """
    config = worker_config(choose(flags, environ, WORKER_SETTINGS))
    if reload:
        from riverui.cli.worker.reload import run_and_reload

        if not (flags["soft_stop"] or environ.get("RIVERUI_SOFT_STOP")):
            flags["soft_stop"] = "2s"
        return run_and_reload(_again(target, flags), Path.cwd())

    from riverui.cli.logs import configure_logging
    from riverui.engine.work.log_capture import JobOfRecord

    def log_as(about: Mapping[str, object] | None = None) -> None:
        configure_logging(
            format=config.log_format, level=config.log_level, filters=[JobOfRecord()], about=about
        )

    log_as()
    if not config.supervised:
        _work_alone(target, config)
        return 0

    from riverui.cli.worker.processes.fork import ForkedWorker, start_fork_server

    _load(config)
    forked = start_fork_server()
    if isinstance(forked, ForkedWorker):
        log_as({"process": forked.number})
        _work_alone(target, config, forked)
        return 0
    return _supervise(config, forked)


def _work_alone(target: str, config: WorkerConfig, forked: ForkedWorker | None = None) -> None:
    """Work jobs in this process."""
    import asyncio

    from riverui.cli.worker.client import find
    from riverui.engine.event_loop import loop_factory, spare_collector

    found = find(target, Path.cwd())
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(found, target, config, forked))


def _supervise(config: WorkerConfig, fork_server: socket.socket) -> int:
    """Run worker processes, and return the exit code."""
    import asyncio

    from riverui.cli.worker.processes.supervisor import Supervisor
    from riverui.engine.event_loop import loop_factory

    async def run() -> int:
        return await Supervisor(config, fork_server).run()

    with fork_server, asyncio.Runner(loop_factory=loop_factory()) as runner:
        code = runner.run(run())
    # The fork server ends with its socket.
    with suppress(ChildProcessError):
        os.wait()
    return code


def _load(config: WorkerConfig) -> None:
    """Load the modules that each process needs, so that all of them share their memory."""
    if config.metrics:
        import riverui.cli.worker.metrics
    import riverui.cli.worker.client
    import riverui.cli.worker.processes.supervised
    import riverui.engine.event_loop  # noqa: F401


async def _work(
    found: object, target: str, config: WorkerConfig, forked: ForkedWorker | None
) -> None:
    from riverui.cli.worker.client import queues, resolve, run

    client = await resolve(found, target)
    client.config = replace(
        client.config,
        queues=queues(client.config.queues, config.queues, config.concurrency),
        release=config.release or client.config.release,
        charts=config.charts and client.config.charts,
    )
    if forked is None:
        await run(client, config)
    else:
        from riverui.cli.worker.processes.supervised import run_supervised

        await run_supervised(client, config, forked)


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
