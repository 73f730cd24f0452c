"""The Django app, and its checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.checks import Error, Warning as CheckWarning
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from riverui.contrib.django.config import river_settings
from riverui.contrib.django.tables import OWN_LINE, incomplete_line
from riverui.errors import ConfigError


class RiveruiConfig(AppConfig):  # type: ignore[misc]  # Django comes without types
    """River's tables, commands and dashboard."""

    name = "riverui.contrib.django"
    label = "riverui"
    verbose_name = "River"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks, and the tables of test databases."""
        from riverui.contrib.django.tables import after_migrate, prepare

        checks.register(check_settings)
        checks.register(check_tables, checks.Tags.database)
        connection_created.connect(prepare, dispatch_uid="riverui.contrib.django")
        post_migrate.connect(after_migrate, sender=self, dispatch_uid="riverui.contrib.django")


def check_settings(app_configs: object = None, **others: object) -> Sequence[Any]:
    """Return the error in `RIVERUI`, if any."""
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
    """Return a warning if tables are missing."""
    if check_settings() or river_settings().database not in (databases or ()):
        return []
    line = incomplete_line()
    if line == OWN_LINE:
        return [
            CheckWarning(
                "OWN_TABLES is on, but some of riverui's own tables are missing.",
                hint="Run manage.py riverui migrate-up --line riverui.",
                id="riverui.W001",
            )
        ]
    if line is None:
        return []
    return [
        CheckWarning(
            "River's tables are missing, or older than this riverui.",
            # Also shown at the beginning of `migrate`, which checks the database.
            hint="manage.py migrate makes them.",
            id="riverui.W003",
        )
    ]
