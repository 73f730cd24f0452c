"""`riverui serve --workers N`: uvicorn's supervisor and its worker processes."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import os
import secrets
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from multiprocessing.sharedctypes import RawArray

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from riverui import __version__
from riverui.cli.logs import configure_logging
from riverui.cli.serve.dashboard import ServedDashboard
from riverui.cli.serve.server import address, configure, listen, open_connections
from riverui.errors import DatabaseError, RiveruiError
from riverui.storage.interface import Driver
from riverui.storage.tables import MISSING, REMEDY, complete
from riverui.web.auth.failures import SharedFailures

log = logging.getLogger("riverui")

_HANGS_AFTER_SECONDS = 30
"""Seconds without a sign of life after which a worker is killed and replaced."""


def serve_workers(served: ServedDashboard) -> None:
    """Serve with several processes until SIGINT or SIGTERM; running requests finish.

    A worker that ends is replaced. Raise ListenError if the address cannot be bound, and
    ConfigError for settings that are not valid.
    """
    served.log_missing_key()
    served = replace(
        served,
        # All workers must accept what one of them has signed.
        dashboard_config=replace(
            served.dashboard_config,
            secret_key=served.dashboard_config.secret_key or secrets.token_urlsafe(32),
        ),
        failures=(_shared(), _shared(), _shared()),
    )
    _, driver = served.build()
    config = served.config
    with listen(config.bind_host, config.port) as sock:
        log.info(
            "riverui %s is listening",
            __version__,
            extra={"url": address(sock, config), "workers": config.workers},
        )
        checking = threading.Thread(target=asyncio.run, args=(_check(driver),), daemon=True)
        checking.start()
        Supervisor(WorkerConfig(served), sockets=[sock]).run()
    log.info("riverui has stopped")


class WorkerConfig(uvicorn.Config):
    """uvicorn's settings of a worker, which builds its own dashboard when it starts."""

    def __init__(self, served: ServedDashboard) -> None:
        super().__init__(
            served.build,
            log_config=None,
            timeout_worker_healthcheck=_HANGS_AFTER_SECONDS,
            workers=served.config.workers,
        )
        self._served = served

    def load(self) -> None:
        """Build the dashboard in the worker's process.

        On failure exit with the code for which uvicorn does not start the worker again.
        """
        config = self._served.config
        configure_logging(format=config.log_format, level=config.log_level)
        try:
            app, driver = self._served.build()
        except RiveruiError as error:
            log.error("%s", error)
            sys.exit(STARTUP_FAILURE)
        made = configure(app, config)
        made.load()
        vars(self).update(vars(made))
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(open_connections(driver, quiet=True))
        threading.Thread(target=_end_with_parent, daemon=True).start()
        log.info("worker started", extra={"pid": os.getpid()})
        # Objects that exist by now live as long as the process.
        gc.collect()
        gc.freeze()


class Supervisor(Multiprocess):
    """uvicorn's supervisor, which logs the workers that it replaces."""

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended or do not respond."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for old, new in zip(before, self.processes, strict=False):
            if new is not old:
                log.warning(
                    "a worker has ended and was replaced",
                    extra={"pid": old.pid, "exit_code": old.exitcode, "by": new.pid},
                )


def _shared() -> SharedFailures:
    return SharedFailures(RawArray("d", SharedFailures.NUMBERS))


def _end_with_parent() -> None:
    """Stop this worker gracefully if its supervisor was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


async def _check(driver: Driver) -> None:
    try:
        await open_connections(driver)
        with suppress(DatabaseError):
            async with driver.reading() as executor:
                shared = await complete(executor)
            if not shared:
                log.warning(
                    "each worker keeps actions on all matching jobs to itself, and answers 404 for"
                    " those of the others: to share them, run `%s` (%s)",
                    REMEDY,
                    MISSING,
                )
    finally:
        await driver.close()
