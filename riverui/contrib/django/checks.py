"""What `manage.py check` says of riverui's settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import Error, Warning as CheckWarning

from riverui.contrib.django.config import river_settings
from riverui.contrib.django.tables import OWN_LINE, incomplete_line
from riverui.errors import ConfigError


def check_settings(app_configs: object = None, **others: object) -> Sequence[Any]:
    """Return what is wrong with `RIVERUI`."""
    try:
        river_settings().check()
    except ConfigError as error:
        words = str(error)
        if not words.startswith("RIVERUI"):
            words = f"RIVERUI: {words}"
        return [Error(words, id="riverui.E001")]
    return []


def check_tables(
    app_configs: object = None, *, databases: Sequence[str] | None = None, **others: object
) -> Sequence[Any]:
    """Return which tables the database lacks."""
    if check_settings() or river_settings().database not in (databases or ()):
        return []
    line = incomplete_line()
    if line == OWN_LINE:
        return [
            CheckWarning(
                "OWN_TABLES is on, but not all tables of riverui's own are there.",
                hint="Run manage.py riverui migrate-up --line riverui.",
                id="riverui.W001",
            )
        ]
    if line is None:
        return []
    return [
        CheckWarning(
            "River's tables are missing, or older than this riverui.",
            # In words that are right at the beginning of `migrate`, which checks the database, too.
            hint="manage.py migrate makes them.",
            id="riverui.W003",
        )
    ]
