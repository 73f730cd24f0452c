"""Programs that set up Django, each a process of its own, as settings are global."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import django
import pytest
from psycopg.conninfo import conninfo_to_dict

collect_ignore = ["test_tasks_backend.py"] if django.VERSION < (6,) else []
"""Django has tasks of its own from 6.0 on."""

_SETTINGS = """
import json, sys
from django.conf import settings
given = json.loads(sys.argv[1])
if given.pop("psycopg2"):
    # Django takes psycopg 3 where it finds both.
    sys.modules["psycopg"] = None
    import django.db.backends.postgresql.base
    del sys.modules["psycopg"]
settings.configure(
    ALLOWED_HOSTS=["*"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    # As few as will do: each has tables to make.
    INSTALLED_APPS=[*given.pop("apps"), "riverui.contrib.django"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    ROOT_URLCONF="__main__",
    SECRET_KEY="a key for tests alone",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
        "OPTIONS": {"context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]}}],
    USE_TZ=True,
    **given,
)
urlpatterns = []
import django
django.setup()
from django.core.management import call_command
from django.db import connection, connections, transaction
import riverui
import riverui.contrib.django as river

def rows(sql, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()
"""

RunDjango = Callable[..., list[str]]


def database(url: str, **options: Any) -> dict[str, Any]:
    """Return a database as Django's settings have it."""
    if url.startswith("sqlite:///"):
        name = url.removeprefix("sqlite:///")
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": name, **options}
    parts = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts["host"],
        "PORT": parts.get("port", ""),
        **options,
    }


def django_process(
    program: str,
    url: str,
    *,
    apps: Sequence[str] = (),
    psycopg2: bool = False,
    **settings: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program with Django set up; `default` is the database of the URL unless given."""
    given = {"DATABASES": {"default": database(url)}, "apps": apps, "psycopg2": psycopg2}
    given |= settings
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", _SETTINGS + program, json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=inherited,
    )


@pytest.fixture
def run_django() -> RunDjango:
    """Run a program with Django set up, and return the lines that it prints; an error fails."""

    def run(program: str, url: str, **settings: Any) -> list[str]:
        done = django_process(program, url, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run
