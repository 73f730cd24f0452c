"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate

from riverui.contrib.django.checks import check_settings, check_tables


class RiveruiConfig(AppConfig):  # type: ignore[misc]  # Django comes without types
    """River's tables, commands and dashboard."""

    name = "riverui.contrib.django"
    label = "riverui"
    verbose_name = "River"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Take part in checks, and in what Django does with its test databases."""
        from riverui.contrib.django.tables import after_migrate

        checks.register(check_settings)
        checks.register(check_tables, checks.Tags.database)
        post_migrate.connect(after_migrate, sender=self, dispatch_uid="riverui.contrib.django")
