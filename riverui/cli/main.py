"""The `riverui` command: serve, worker, demo, migrations, health check. The only reader of argv and
the environment.
"""

from __future__ import annotations

import http.client
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from riverui import __version__
from riverui.cli.bench import bench
from riverui.cli.migrate import COMMANDS
from riverui.cli.settings import (
    SETTINGS,
    Values,
    choose,
    database_url,
    help_text,
    settings_options,
    texts,
)
from riverui.cli.token import token
from riverui.cli.worker.command import worker
from riverui.errors import ConfigError, RiveruiError
from riverui.web.config import REDACT_KEYS, DashboardConfig, ServeConfig, is_loopback

__all__ = ["SETTINGS", "main", "riverui"]

log = logging.getLogger("riverui")

BAD_SETTINGS = 2
"""Exit code for settings that cannot be used."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line; ends the process with 0, 1 (it did not work) or 2 (bad settings)."""
    arguments = double_dashes(sys.argv[1:] if argv is None else argv)
    try:
        code = riverui.main(arguments, obj=os.environ, prog_name="riverui", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = BAD_SETTINGS
    except click.ClickException as error:
        code = _fail(error.format_message(), BAD_SETTINGS)
    except ConfigError as error:
        code = _fail(str(error), BAD_SETTINGS)
    except RiveruiError as error:
        code = _fail(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code or 0)


def double_dashes(arguments: Sequence[str]) -> list[str]:
    """Go's `-prefix /x` as `--prefix /x`, for settings known from River UI and `river`."""
    changed = list(arguments)
    for place, argument in enumerate(changed):
        if argument == "--":
            break
        if re.fullmatch(r"-[a-z][a-z-]+(=.*)?", argument, re.DOTALL):
            changed[place] = f"-{argument}"
    return changed


class ServeByDefault(click.Group):
    """`riverui --prefix /x` is `riverui serve --prefix /x`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `serve` in front where no command is named."""
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version", "-h")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


class SettingsCommand(click.Command):
    """A command whose help ends with the settings that only the environment can give."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists flags by group, then the rest."""
        flags = {parameter.name: parameter for parameter in self.get_params(ctx)}
        for group in dict.fromkeys(setting.group for setting in SETTINGS):
            rows = []
            for setting in SETTINGS:
                if setting.group == group:
                    flag = flags.pop(setting.name, None)
                    told = flag.get_help_record(ctx) if flag else (setting.env, help_text(setting))
                    rows += [told] if told else []
            with formatter.section(group):
                formatter.write_dl(rows)
        with formatter.section("Other"):
            formatter.write_dl(
                [told for flag in flags.values() if (told := flag.get_help_record(ctx))]
            )


@click.group(
    cls=ServeByDefault,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="riverui %(version)s")
def riverui() -> None:
    """River, the Postgres job queue, for Python: its dashboard, its workers, its migrations.

    Without a command it serves: `riverui` is `riverui serve`.
    """


@settings_options()
@riverui.command(cls=SettingsCommand)
@click.pass_obj
def serve(environ: Mapping[str, str], /, **flags: Any) -> int:
    """Serve the dashboard of the database in DATABASE_URL.

    Without authentication it listens on this machine only, unless --no-auth is given. Each setting
    is a flag, an environment variable, or both; the flag wins. For secrets, NAME_FILE may name a
    file that holds the value.
    """
    values = choose(texts(flags), environ)
    config = serve_config(values)
    if values.text("healthcheck"):
        return probe(config, values.text("healthcheck"))
    dashboard_config = DashboardConfig(
        cors_origins=values.words("cors_origins"),
        env_color=values.text("env_color"),
        env_name=values.text("env_name"),
        hide_args=values.switch("hide_args"),
        read_only=values.switch("read_only"),
        redact_keys=redact_keys(values),
        secret_key=values.secret("secret_key") or None,
    )
    url = database_url(values, environ)

    from riverui.cli.logs import configure_logging
    from riverui.cli.server import serve
    from riverui.storage.connect import connect
    from riverui.web.app import create_app

    configure_logging(format=config.log_format, level=config.log_level)
    driver = connect(
        url,
        action_timeout=dashboard_config.action_timeout,
        page_timeout=dashboard_config.page_timeout,
        schema=values.text("schema") or None,
    )
    app = create_app(
        driver,
        api_tokens=config.api_tokens,
        basic_auth=(config.basic_user, config.basic_password) if config.basic_user else None,
        close_driver=True,
        config=dashboard_config,
        hosts=None if config.authenticated or config.no_auth else _own_names(config),
        htpasswd=config.htpasswd,
        no_auth=not config.for_people and (config.no_auth or config.api_tokens is None),
    )
    if dashboard_config.secret_key is None:
        log.info(
            "RIVERUI_SECRET_KEY is not set: viewers' preferences are lost when this process ends,"
            " and are not shared with other processes"
        )
    serve(app, driver, config)
    return 0


@settings_options("host", "port", "prefix")
@riverui.command()
@click.argument("name", type=click.Choice(["minimal", "complete"]), default="minimal")
@click.pass_obj
def healthcheck(environ: Mapping[str, str], /, name: str, **flags: Any) -> int:
    """Ask the server on this machine for its health: exit code 0 or 1.

    `minimal`: the process answers. `complete`: its database does too.
    """
    values = choose(texts(flags), environ)
    return probe(serve_config(values, probing=True), name)


@riverui.command()
def version() -> None:
    """Print the version."""
    click.echo(f"riverui {__version__}")


@riverui.command()
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
@click.option("--fresh", is_flag=True, help="Start with an empty database.")
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
    no_auth: bool,
) -> int:
    """Try it out, with a database of its own and a live workload. Ctrl-C stops it."""
    if not is_loopback(host) and not no_auth:
        raise ConfigError(f"refusing to listen on {host} without authentication: pass --no-auth")

    from riverui.demo.run import demo

    wished = choose({}, environ).number("port") if port is None else port
    config = ServeConfig(host=host, no_auth=True, port=wished)
    return demo(config, any_port=port is None, data_dir=data_dir, fresh=fresh)


for command in (*COMMANDS, bench, token, worker):
    riverui.add_command(command)


def serve_config(values: Values, *, probing: bool = False) -> ServeConfig:
    """The settings of the server; ConfigError where they do not fit together. `probing` another one
    needs no sign-in.
    """
    level = values.text("log_level").lower() or "info"
    htpasswd = values.text("htpasswd")
    return ServeConfig(
        api_tokens=_api_tokens(values),
        basic_password=values.secret("basic_password"),
        basic_user=values.text("basic_user"),
        host=values.text("host"),
        htpasswd=Path(htpasswd) if htpasswd else None,
        log_format=values.text("log_format").lower() or "text",
        log_level="debug" if values.switch("debug") else {"warning": "warn"}.get(level, level),
        no_auth=probing or bool(values.text("healthcheck")) or values.switch("no_auth"),
        port=values.number("port"),
        prefix=values.path("prefix"),
        root_path=values.path("root_path"),
        silent_healthchecks=values.switch("silent_healthchecks"),
        trust_proxy=values.switch("trust_proxy"),
    )


def _api_tokens(values: Values) -> Path | str | None:
    lines, file = values.text("api_tokens"), values.text("api_tokens_file")
    if lines and file:
        raise ConfigError("RIVERUI_API_TOKENS and RIVERUI_API_TOKENS_FILE are both set: choose one")
    return Path(file) if file else lines or None


def redact_keys(values: Values) -> tuple[str, ...]:
    """The names to look for, those that come to mind where none are set."""
    names = values.words("redact_keys")
    return () if names == ("none",) else names or REDACT_KEYS


def probe(config: ServeConfig, name: str) -> int:
    """0 where the server on this machine says that it is well; otherwise 1, with its words on
    stderr.
    """
    if name not in ("minimal", "complete"):
        raise ConfigError(f"--healthcheck is {name!r}: use minimal or complete")
    connection = http.client.HTTPConnection(config.probe_host, config.port, timeout=4)
    try:
        connection.request("GET", f"{config.prefix}/api/health-checks/{name}")
        answer = connection.getresponse()
        body = answer.read(1000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return _fail(f"{config.probe_host}:{config.port} does not answer: {error}", 1)
    finally:
        connection.close()
    return 0 if answer.status == 200 else _fail(f"{name} health check: {answer.status} {body}", 1)


def _own_names(config: ServeConfig) -> frozenset[str]:
    return frozenset({"localhost", "127.0.0.1", "::1", config.bind_host.strip("[]").lower()})


def _fail(message: str, code: int) -> int:
    click.echo(f"riverui: {' '.join(message.split())}", err=True)
    return code
