"""`riverui demo`: a database, a made-up shop's jobs and clients, and the dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from urllib.parse import quote

import click
import uvicorn
from psycopg import AsyncConnection

from riverui.cli.serve.server import StoppableServer, address, listen, listen_from
from riverui.demo.customers import Customers, periodic_jobs, repeat
from riverui.demo.fulfilment import Orders, fulfilment_client, leader_settings
from riverui.demo.history import seed
from riverui.demo.incidents import Fault, Incident, Stage, prepare
from riverui.demo.postgres import EmbeddedPostgres
from riverui.demo.section import demo_section
from riverui.demo.shop import LANGUAGE, QUEUES, client_ids
from riverui.demo.workers import shop_workers
from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.job_inserter import JobInserter
from riverui.storage.connect import connect
from riverui.storage.interface import SQL, Driver
from riverui.storage.interface.engine_params import JobSelectParams, JobSetStateParams
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig, ServeConfig, is_loopback
from riverui.web.http.context import AppOptions, Sections
from riverui.web.sections import SECTIONS

_DATABASE = "shop"
_INCIDENT_DATABASE = "incident"
_HISTORY = 12_000
"""Jobs of the shop's last day: inserted within two seconds, and at its end at nearly the rate of
new jobs, so that charts have no step.
"""
_SEED = 12
"""Seed of random numbers, so that each demo has the same history: one in which no kind happens to
fail more often than before.
"""
_GRACE_SECONDS = 1
"""Seconds for requests to end at Ctrl-C: a person is waiting."""
_RESCUED_AFTER = timedelta(minutes=10)
"""When a running job counts as stuck: longer than any job takes, but soon."""


def demo(
    config: ServeConfig,
    *,
    any_port: bool,
    data_dir: Path | None,
    fresh: bool,
    incident: Incident | None = None,
    sqlite: bool = False,
) -> int:
    """Run until SIGINT or SIGTERM; return the exit code. Raise DemoUnavailable or ListenError if it
    cannot start.

    An incident is played from its beginning, in a database of its own. With `sqlite` databases are
    files, and there are no jobs of features that need Postgres.

    With `any_port` it uses the next free port if that of `config` is in use, and prints it. Anybody
    who can reach the port has all rights.
    """
    home = data_dir or _default_home()
    # Both signals stop the demo by leaving all blocks below.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        (listen_from if any_port else listen)(config.host, config.port) as sock,
        contextlib.nullcontext() if sqlite else _postgres(home, fresh=fresh) as postgres,
    ):
        name = _DATABASE if incident is None else _INCIDENT_DATABASE
        anew = incident is not None
        if postgres is None:
            url = _file(home, name, anew=anew or fresh)
        else:
            asyncio.run(_create_database(postgres.url, name, anew=anew))
            url = postgres.database_url(name)
        asyncio.run(_run(url, sock, home, config, incident))
    click.echo(f"\nStopped. The data stays in {home} for the next time.")
    return 0


def _postgres(home: Path, *, fresh: bool) -> EmbeddedPostgres:
    binaries = os.environ.get("RIVERUI_PG_BIN")
    return EmbeddedPostgres(
        home, durable=True, fresh=fresh, binaries=Path(binaries) if binaries else None
    )


def _file(home: Path, name: str, *, anew: bool) -> str:
    """Return the URL of a SQLite file; `anew` removes an existing one."""
    home.mkdir(parents=True, exist_ok=True)
    file = home.resolve() / f"{name}.db"
    if anew:
        for each in (file, *home.glob(f"{name}.db-*")):
            each.unlink(missing_ok=True)
    return f"sqlite:///{quote(str(file))}"


def _default_home() -> Path:
    if os.name == "posix" and os.geteuid() == 0:
        # Root's home cannot be read by the user nobody, who runs Postgres in this case.
        return Path("/var/lib/riverui/demo")
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "riverui" / "demo"


async def _run(
    url: str,
    sock: socket.socket,
    home: Path,
    config: ServeConfig,
    incident: Incident | None,
) -> None:
    driver = connect(url, max_size=8)
    for line in ("main", "riverui"):
        await migrate(driver, "up", line=line)
    if incident is None:
        await seed(url, Random(_SEED), jobs=_HISTORY)
        await release_jobs(driver)
        badge = DashboardConfig(env_color="green", env_name="demo")
        summary = "a made-up shop's River queue, alive"
    else:
        await prepare(driver, url, incident, now=datetime.now(UTC), rng=Random(_SEED))
        badge = DashboardConfig(env_color="amber", env_name=incident.name)
        summary = f"{incident.name}\n  {incident.summary}"
    stage = Stage(Client(driver), url)
    app = build_app(
        driver,
        SignIn(no_auth=True),
        badge,
        pilot=plain_pilot(),
        options=AppOptions(
            hosts=frozenset({"127.0.0.1", "::1", "localhost"})
            if is_loopback(config.host)
            else None,
            inserter=JobInserter(Client(driver)),
            sections=Sections(*SECTIONS, demo_section(stage)) if incident is None else None,
            standalone=True,
        ),
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
    taken = ""
    if config.port not in (0, sock.getsockname()[1]):
        taken = f"  (port {config.port} is taken, so this is the next free one)\n"
    server.greeting = (
        f"\n  riverui demo: {summary}\n  {address(sock, config)}\n{taken}\n"
        f"  Ctrl-C stops it. Its data is kept in {home}; --fresh starts over."
    )
    try:
        async with working(driver, incident, stage.faults):
            await server.serve(sockets=[sock])
    finally:
        await driver.close()


async def _create_database(url: str, name: str, *, anew: bool) -> None:
    """Create the database if it does not exist; `anew` drops an existing one."""
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        if anew:
            await connection.execute(f"drop database if exists {name} with (force)".encode())
        found = await connection.execute("select from pg_database where datname = %s", [name])
        if await found.fetchone() is None:
            await connection.execute(f"create database {name}".encode())


@contextlib.asynccontextmanager
async def working(
    driver: Driver, incident: Incident | None = None, faults: Mapping[str, Fault] | None = None
) -> AsyncIterator[list[Client]]:
    """Insert and work the shop's jobs, as in the incident, during the block; cancel running jobs at
    its end. Without an incident, kinds have these `faults`, which may change.
    """
    faults = incident.faults if incident else {} if faults is None else faults
    now, rng = datetime.now(UTC), Random()
    languages = sorted(set(LANGUAGE.values()))
    with _logging_to_the_database_only():
        clients = [_client(driver, language, now, faults, incident) for language in languages]
        inserting = [Customers(clients[0], rng, campaigns=incident is None).insert]
        if incident is None and SQL in driver.capabilities:
            clients.append(fulfilment_client(driver, rng))
            inserting.append(Orders(clients[-1], rng).insert)
        elif incident and not incident.loses_jobs:
            await release_jobs(driver)
        for client in clients:
            await client.start()
        tasks = [asyncio.create_task(repeat(insert)) for insert in inserting]
        try:
            yield clients
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.gather(*(client.stop_and_cancel() for client in clients))


@contextlib.contextmanager
def _logging_to_the_database_only() -> Iterator[None]:
    """Store the logs of jobs in the database only, without printing them."""
    silence, shop = logging.NullHandler(), logging.getLogger("shop")
    loggers = (shop, logging.getLogger("riverui.engine"))
    for logger in loggers:
        logger.addHandler(silence)
    shop.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        shop.setLevel(logging.NOTSET)
        for logger in loggers:
            logger.removeHandler(silence)


async def release_jobs(driver: Driver) -> None:
    """Make running jobs of a killed demo available, without waiting for their rescue."""
    now = datetime.now(UTC)
    async with driver.transaction() as db:
        running = await db.jobs.row_list(JobSelectParams(states=(JobState.RUNNING,), limit=1_000))
        await db.work.set_state_many(
            [
                JobSetStateParams(
                    id=row.id,
                    state=JobState.AVAILABLE,
                    attempt=max(row.attempt - 1, 0),
                    scheduled_at=now,
                )
                for row in running
            ]
        )


def _client(
    driver: Driver,
    language: str,
    now: datetime,
    faults: Mapping[str, Fault],
    incident: Incident | None,
) -> Client:
    config = ClientConfig(
        id=client_ids(language, now)[0],
        job_timeout=timedelta(minutes=2),
        queues={
            queue.name: QueueConfig(max_workers=queue.workers)
            for queue in QUEUES
            if queue.language == language
        },
        # In an incident lost jobs are found by the health report, not by the rescuer.
        rescue_stuck_jobs_after=_RESCUED_AFTER if incident is None else None,
        workers=shop_workers(faults),
        **(leader_settings(driver, *periodic_jobs(Random())) if incident is None else {}),
    )
    return Client(driver, config)


class DemoServer(StoppableServer):
    """Prints a greeting when it is ready."""

    greeting = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, then print the greeting."""
        await super().startup(sockets)
        click.echo(self.greeting)
