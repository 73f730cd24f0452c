"""`riverui demo`: a Postgres of its own, a made-up shop's jobs in it, what moves them, and the
dashboard.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path
from random import Random

import click
import uvicorn
from psycopg import AsyncConnection

from riverui.cli.server import StoppableServer, address, listen, listen_from
from riverui.demo.opening import give_back, working
from riverui.demo.postgres import EmbeddedPostgres
from riverui.demo.seed import seed
from riverui.engine.client import Client
from riverui.engine.insert.job_inserter import JobInserter
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig, ServeConfig, is_loopback

_DATABASE = "shop"
_HISTORY = 8_000
"""Jobs of the shop's last day: inserted within a second, and enough for pages to turn."""
_SEED = 20_261_121
"""Of the dice, so that each demo begins with the same past."""
_GRACE_SECONDS = 1
"""Seconds that requests have to end at Ctrl-C: whoever looks on does not wait longer."""


def demo(config: ServeConfig, *, any_port: bool, data_dir: Path | None, fresh: bool) -> int:
    """Run until SIGINT or SIGTERM; return the exit code. DemoUnavailable or ListenError if it
    cannot start.

    With `any_port` it listens on the next free port where the one of `config` is taken, and says
    so. Whoever can reach the port may do anything to the demo's jobs.
    """
    home = data_dir or _default_home()
    binaries = os.environ.get("RIVERUI_PG_BIN")
    # Both ways of being stopped end alike: everything below is unwound.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        (listen_from if any_port else listen)(config.host, config.port) as sock,
        EmbeddedPostgres(
            home, durable=True, fresh=fresh, binaries=Path(binaries) if binaries else None
        ) as postgres,
    ):
        asyncio.run(_run(postgres, sock, home, config))
    click.echo(f"\nStopped. The data stays in {home} for the next time.")
    return 0


def _default_home() -> Path:
    if os.name == "posix" and os.geteuid() == 0:
        # Where root's own folder would be out of reach for the user that Postgres may have to run
        # as.
        return Path("/var/lib/riverui/demo")
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "riverui" / "demo"


async def _run(
    postgres: EmbeddedPostgres, sock: socket.socket, home: Path, config: ServeConfig
) -> None:
    url = postgres.database_url(_DATABASE)
    await _create_database(postgres.url)
    driver = connect(url, max_size=8)
    for line in ("main", "riverui"):
        await migrate(driver, "up", line=line)
    await seed(url, Random(_SEED), jobs=_HISTORY)
    await give_back(driver)
    app = build_app(
        driver,
        SignIn(no_auth=True),
        DashboardConfig(env_color="green", env_name="demo"),
        hosts=frozenset({"127.0.0.1", "::1", "localhost"}) if is_loopback(config.host) else None,
        inserter=JobInserter(Client(driver)),
    )
    server = DemoServer(
        uvicorn.Config(
            app,
            access_log=False,
            lifespan="on",
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ws="none",
        )
    )
    wished, port = config.port, sock.getsockname()[1]
    taken = (
        f"  (port {wished} is taken, so this is the next free one)\n"
        if wished not in (0, port)
        else ""
    )
    server.words = (
        "\n  riverui demo: a made-up shop's River queue, alive\n "
        f" {address(sock, config)}\n{taken}\n  Ctrl-C stops it. Its data is kept in {home}; --fresh"
        " starts over."
    )
    try:
        async with working(driver):
            await server.serve(sockets=[sock])
    finally:
        await driver.close()


async def _create_database(url: str) -> None:
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        found = await connection.execute("select from pg_database where datname = %s", [_DATABASE])
        if await found.fetchone() is None:
            await connection.execute(f"create database {_DATABASE}".encode())


class DemoServer(StoppableServer):
    """Tells on the terminal when it is ready."""

    words = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, then print the words."""
        await super().startup(sockets)
        click.echo(self.words)
