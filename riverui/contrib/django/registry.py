"""The workers of a Django project: one registry, filled by the modules of its apps."""

from __future__ import annotations

from django.utils.module_loading import autodiscover_modules

from riverui.contrib.django.config import river_settings
from riverui.engine.work.workers import Workers

workers = Workers()
"""Where the apps of the project register what works their jobs."""


def discover() -> Workers:
    """Import the `tasks` and `jobs` of all installed apps, and return what they registered."""
    autodiscover_modules(*river_settings().tasks_modules)
    return workers
