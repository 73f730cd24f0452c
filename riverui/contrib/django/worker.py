"""What `manage.py riverui_worker` runs."""

from __future__ import annotations

from logging.config import dictConfig

from django.conf import settings

from riverui.contrib.django.client import worker_client
from riverui.engine.client import Client


def client() -> Client:
    """Return the client that works the project's jobs, with the project's own log handlers.

    Where LOGGING says what becomes of all records (`root`), that holds for the worker too;
    elsewhere its lines are riverui's.
    """
    made = worker_client()
    told = settings.LOGGING
    if "root" in told or "" in told.get("loggers", {}):
        # The command line has put a handler of its own there meanwhile.
        dictConfig({**told, "disable_existing_loggers": False})
    return made
