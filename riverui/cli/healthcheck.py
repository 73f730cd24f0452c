"""`riverui healthcheck`: checks the server on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.serve.config import serve_config
from riverui.cli.settings import choose, settings_options
from riverui.errors import ConfigError, RiveruiError
from riverui.web.config import ServeConfig


@settings_options("host", "port", "prefix")
@click.command()
@click.argument("name", type=click.Choice(["minimal", "complete"]), default="minimal")
@click.pass_obj
def healthcheck(environ: Mapping[str, str], /, name: str, **flags: Any) -> int:
    """Check the server on this machine: exit code 0 if it is healthy, else 1.

    `minimal`: the process answers. `complete`: its database does too.
    """
    values = choose(flags, environ)
    return check_health(serve_config(values, probing=True), name)


def check_health(config: ServeConfig, name: str) -> int:
    """Return 0 if the server on this machine is healthy; raise RiveruiError otherwise."""
    if name not in ("minimal", "complete"):
        raise ConfigError(f"--healthcheck is {name!r}: use minimal or complete")
    import http.client

    connection = http.client.HTTPConnection(config.probe_host, config.port, timeout=4)
    try:
        connection.request("GET", f"{config.prefix}/api/health-checks/{name}")
        answer = connection.getresponse()
        body = answer.read(1000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise RiveruiError(f"{config.probe_host}:{config.port} does not answer: {error}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise RiveruiError(f"{name} health check: {answer.status} {body}")
    return 0
