"""`riverui demo`: the dashboard with its own database and workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from riverui.cli.settings import choose
from riverui.errors import ConfigError
from riverui.web.config import ServeConfig, is_loopback


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on.",
    show_default=True,
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; without it, PORT or 8080, or the next free one.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the demo keeps its database.",
)
@click.option(
    "--incident",
    metavar="NAME",
    help="Play an incident, such as bad-deploy; an unknown name lists them.",
)
@click.option("--fresh", is_flag=True, help="Start with an empty database.")
@click.option("--sqlite", is_flag=True, help="Use a SQLite file instead of a Postgres server.")
@click.option(
    "--no-auth", is_flag=True, help="Let in anyone who can reach the port, on any address."
)
@click.pass_obj
def demo(
    environ: Mapping[str, str],
    /,
    host: str,
    port: int | None,
    data_dir: Path | None,
    fresh: bool,
    incident: str | None,
    no_auth: bool,
    sqlite: bool,
) -> int:
    """Try the dashboard with its own database and workload. Ctrl-C stops it."""
    if not is_loopback(host) and not no_auth:
        raise ConfigError(f"refusing to listen on {host} without authentication: pass --no-auth")

    from riverui.demo.incidents import INCIDENTS
    from riverui.demo.run import demo

    if incident is not None and incident not in INCIDENTS:
        raise ConfigError(f"unknown incident {incident[:80]!r}: there are {', '.join(INCIDENTS)}")

    wished = choose({}, environ).number("port") if port is None else port
    config = ServeConfig(host=host, no_auth=True, port=wished)
    return demo(
        config,
        any_port=port is None,
        data_dir=data_dir,
        fresh=fresh,
        incident=INCIDENTS[incident] if incident is not None else None,
        sqlite=sqlite,
    )
