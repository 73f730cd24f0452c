"""The settings of the commands that ask a database, or the API of a running dashboard."""

from __future__ import annotations

from riverui.cli.settings import SETTINGS, Setting

_DATABASE = ("database_url", "database_password_file", "schema")

CLIENT_SETTINGS = (
    *(setting for setting in SETTINGS if setting.name in _DATABASE),
    Setting(
        name="api",
        group="Client",
        env="RIVERUI_API_URL",
        flag="--api",
        metavar="URL",
        default_words="the database is asked",
        help=(
            "Ask this dashboard instead of the database, e.g. https://jobs.example/river; a user"
            " and password may stand in it."
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
"""In the order in which help and documentation tell them."""
