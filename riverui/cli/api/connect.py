"""The settings of commands that use the API, and the API that these name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from riverui.cli.settings import SETTINGS, Setting, Values, choose, database_url
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.cli.api.client import Api, Transport

_DATABASE = ("database_url", "database_password_file", "schema")

CLIENT_SETTINGS = (
    *(setting for setting in SETTINGS if setting.name in _DATABASE),
    Setting(
        name="api",
        group="Client",
        env="RIVERUI_API_URL",
        flag="--api",
        metavar="URL",
        default_words="the database itself",
        help=(
            "Use this dashboard instead of the database, e.g. https://jobs.example/river; it may"
            " contain a user and password."
        ),
    ),
    Setting(
        name="api_token",
        group="Client",
        env="RIVERUI_API_TOKEN",
        metavar="TOKEN",
        secret=True,
        help="API token for that dashboard, as `riverui token` prints it.",
    ),
)
"""In the order of the help and the documentation."""


@contextmanager
def open_api(environ: Mapping[str, str], flags: Mapping[str, Any]) -> Iterator[Api]:
    """Yield the API that the settings name; raise ConfigError if they are not valid."""
    from riverui.cli.api.client import Api

    api = Api(_transport(choose(flags, environ, CLIENT_SETTINGS), environ))
    try:
        yield api
    finally:
        api.close()


def dashboard_url(values: Values) -> str:
    """Return the URL of the dashboard, or an empty string for the database.

    Flags take precedence over the environment, and a dashboard over a database.
    """
    if {"api", "database_url"} <= values.flagged:
        raise ConfigError("--api and --database-url: name a dashboard or a database, not both")
    return "" if "database_url" in values.flagged else values.text("api")


def _transport(values: Values, environ: Mapping[str, str]) -> Transport:
    if url := dashboard_url(values):
        from riverui.cli.api.remote import RemoteApi

        return RemoteApi(url, token=values.text("api_token"))
    from riverui.cli.api.local import LocalApi

    return LocalApi(
        database_url(values, environ),
        schema=values.text("schema") or None,
        user=environ.get("USER", "") or environ.get("LOGNAME", ""),
    )
