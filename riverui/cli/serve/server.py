"""Runs the dashboard by itself: one uvicorn server, one socket, a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import resource
import signal
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from riverui import __version__
from riverui.domain.jobs import JobState
from riverui.errors import DatabaseError, ListenError, PortTaken
from riverui.storage.interface import Driver
from riverui.storage.interface.params import JobFilter, JobOrder, JobPageParams
from riverui.web.config import ServeConfig
from riverui.web.http.access_log import AccessLog
from riverui.web.http.connections import server_config
from riverui.web.http.proxy import Prefix, TrustedProxy

log = logging.getLogger("riverui")

_GRACE_SECONDS = 8
"""Seconds for requests to end: less than the 10 s that Docker gives a container."""

_PORTS_TRIED = 100
"""Ports that are tried after the given one: more than the demos that a person runs."""


def serve(app: ASGIApp, driver: Driver, config: ServeConfig) -> None:
    """Serve until SIGINT or SIGTERM, then let requests end for up to 8 seconds. Raise ListenError
    if the address cannot be used.
    """
    with listen(config.bind_host, config.port) as sock:
        server = StoppableServer(configure(app, config))
        log.info("riverui %s is listening", __version__, extra={"url": address(sock, config)})
        # Objects that exist by now live as long as the process: exclude them from collections.
        gc.freeze()
        gc.enable()
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(_run(server, driver, sock))
    log.info("riverui has stopped")


def configure(app: ASGIApp, config: ServeConfig) -> uvicorn.Config:
    """Return uvicorn's settings for one process that serves the app."""
    return server_config(
        _with_middleware(app, config),
        connections=connections_possible(config.max_connections),
        root_path=config.root_path,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=60,
    )


def _with_middleware(app: ASGIApp, config: ServeConfig) -> ASGIApp:
    """Return the app with prefix, proxy headers and access log."""
    if config.prefix:
        app = Prefix(app, config.prefix)
    app = AccessLog(app, silent_healthchecks=config.silent_healthchecks)
    return TrustedProxy(app) if config.trust_proxy else app


def listen(host: str, port: int) -> socket.socket:
    """Return a bound, listening socket.

    Raises PortTaken where another program has the port, ListenError for any other reason, in one
    line.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(2048)
    except OSError as error:
        sock.close()
        kind_of_error = PortTaken if error.errno == errno.EADDRINUSE else ListenError
        raise kind_of_error(
            f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}"
        ) from None
    return sock


def listen_from(host: str, port: int) -> socket.socket:
    """Return a listening socket on `port` or the first free one of the next 100.

    Raise ListenError as `listen` does.
    """
    for number in range(port, min(port + _PORTS_TRIED, 65_535) + 1):
        with contextlib.suppress(PortTaken):
            return listen(host, number)
    return listen(host, port)


def address(sock: socket.socket, config: ServeConfig) -> str:
    """Return the address at which a browser on this machine finds the dashboard."""
    host = config.probe_host
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{host}:{sock.getsockname()[1]}{config.prefix}/"


class StoppableServer(uvicorn.Server):
    """A server that returns after a signal; uvicorn's own raises the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop the server at SIGINT and SIGTERM during the block."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


async def _run(server: uvicorn.Server, driver: Driver, sock: socket.socket) -> None:
    connecting = asyncio.create_task(open_connections(driver))
    try:
        await server.serve(sockets=[sock])
    finally:
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)


async def open_connections(driver: Driver, *, quiet: bool = False) -> None:
    """Open the two connections that a first page needs, and run its queries on each, which warms
    Postgres's caches of the connection.

    Log a warning if the database or River's tables are missing, unless `quiet`.
    """
    running = JobFilter(states=(JobState.RUNNING,))

    async def read() -> None:
        async with driver.reading() as db:
            await db.jobs.list(JobPageParams(limit=1))
            await db.jobs.list(JobPageParams(filter=running, order=JobOrder.TIME, limit=1))
            await db.jobs.count_by_state(cap=1)

    try:
        await asyncio.gather(read(), read())
    except DatabaseError as error:
        if not quiet:
            log.warning("%s Pages will say so until this is fixed.", error)


_OTHER_FILES = 160
"""Files besides the served connections: connections that are rejected, the database's, the
listening socket, the log.
"""


def connections_possible(wanted: int) -> int:
    """Return how many connections this process can hold, up to `wanted`.

    Raise the process's limit of open files as far as the system allows; log a warning if it is not
    enough.
    """
    needed = wanted + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        # Some systems allow less than they report.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    possible = max(1, soft - _OTHER_FILES)
    log.warning(
        "connections at once are limited to %d, not %d: the limit of open files is %d",
        possible,
        wanted,
        soft,
    )
    return possible
