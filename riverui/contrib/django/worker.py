"""What `manage.py riverui_worker` runs."""

from __future__ import annotations

import logging
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
    loggers = told.get("loggers", {})
    if "root" in told or "" in loggers:
        # The command line has put a handler of its own there meanwhile.
        dictConfig({**told, "disable_existing_loggers": False})
    elif "django" not in loggers:
        # Django's own for the console of `runserver` would tell each of its lines a second time.
        django = logging.getLogger("django")
        for handler in django.handlers[:]:
            if type(handler) is logging.StreamHandler:
                django.removeHandler(handler)
    return made
