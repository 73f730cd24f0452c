"""`riverui demo`: a Postgres of its own, a made-up shop's jobs in it, what moves them, and the
dashboard.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import click
import uvicorn
from psycopg import AsyncConnection

from riverui.cli.server import StoppableServer, address, listen, listen_from
from riverui.demo.incidents.incident import Incident
from riverui.demo.incidents.prepare import forgotten_transaction, prepare
from riverui.demo.opening import give_back, working
from riverui.demo.postgres import EmbeddedPostgres
from riverui.demo.seed import seed
from riverui.engine.client import Client
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.job_inserter import JobInserter
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig, ServeConfig, is_loopback

_DATABASE = "shop"
_INCIDENT_DATABASE = "incident"
_HISTORY = 12_000
"""Jobs of the shop's last day: inserted within two seconds, and towards its end nearly as many a
minute as come from then on, so that charts do not begin with a step.
"""
_SEED = 20_261_121
"""Of the dice, so that each demo begins with the same past."""
_GRACE_SECONDS = 1
"""Seconds that requests have to end at Ctrl-C: whoever looks on does not wait longer."""


def demo(
    config: ServeConfig,
    *,
    any_port: bool,
    data_dir: Path | None,
    fresh: bool,
    incident: Incident | None = None,
) -> int:
    """Run until SIGINT or SIGTERM; return the exit code. DemoUnavailable or ListenError if it
    cannot start.

    An incident is played from its beginning, in a database of its own.

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
        asyncio.run(_run(postgres, sock, home, config, incident))
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
    postgres: EmbeddedPostgres,
    sock: socket.socket,
    home: Path,
    config: ServeConfig,
    incident: Incident | None,
) -> None:
    name = _DATABASE if incident is None else _INCIDENT_DATABASE
    url = postgres.database_url(name)
    await _create_database(postgres.url, name, anew=incident is not None)
    driver = connect(url, max_size=8)
    for line in ("main", "riverui"):
        await migrate(driver, "up", line=line)
    if incident is None:
        await seed(url, Random(_SEED), jobs=_HISTORY)
        await give_back(driver)
    else:
        await prepare(driver, url, incident, now=datetime.now(UTC), rng=Random(_SEED))
    app = build_app(
        driver,
        SignIn(no_auth=True),
        DashboardConfig(env_color="green", env_name="demo")
        if incident is None
        else DashboardConfig(env_color="amber", env_name=incident.name),
        hosts=frozenset({"127.0.0.1", "::1", "localhost"}) if is_loopback(config.host) else None,
        inserter=JobInserter(Client(driver)),
        standalone=True,
        pilot=plain_pilot(),
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
    playing = (
        "a made-up shop's River queue, alive"
        if incident is None
        else f"{incident.name}\n  {incident.words}"
    )
    server.words = (
        f"\n  riverui demo: {playing}\n "
        f" {address(sock, config)}\n{taken}\n  Ctrl-C stops it. Its data is kept in {home}; --fresh"
        " starts over."
    )
    try:
        async with _transaction(url, incident), working(driver, incident):
            await server.serve(sockets=[sock])
    finally:
        await driver.close()


async def _create_database(url: str, name: str, *, anew: bool) -> None:
    """Create the database if there is none of that name; `anew` drops one that is there."""
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        if anew:
            await connection.execute(f"drop database if exists {name} with (force)".encode())
        found = await connection.execute("select from pg_database where datname = %s", [name])
        if await found.fetchone() is None:
            await connection.execute(f"create database {name}".encode())


@contextlib.asynccontextmanager
async def _transaction(url: str, incident: Incident | None) -> AsyncIterator[None]:
    """Keep a transaction open where that is what is wrong."""
    async with contextlib.AsyncExitStack() as stack:
        if incident is not None and incident.open_transaction:
            await stack.enter_async_context(forgotten_transaction(url))
        yield


class DemoServer(StoppableServer):
    """Tells on the terminal when it is ready."""

    words = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, then print the words."""
        await super().startup(sockets)
        click.echo(self.words)
