"""Programs load only what they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    *("anyio", "asyncio", "bcrypt", "cronsim", "h11", "http.client", "itsdangerous", "jinja2"),
    *("msgspec", "prometheus_client", "psycopg", "psycopg_pool", "sqlalchemy", "starlette"),
    *("uvicorn", "riverui.engine", "riverui.storage", "riverui.web.app"),
)
"""What takes long to load."""
DASHBOARD = (
    *("anyio", "bcrypt", "click", "h11", "http.client", "itsdangerous", "jinja2"),
    *("prometheus_client", "sqlalchemy", "starlette", "uvicorn", "uvloop", "riverui.web"),
)
"""What no program loads that only inserts."""
SERVE = "serve --no-auth --host 203.0.113.1 --database-url postgres:///shop"
"""Loads all that serving needs, and fails because no machine has this address."""


@pytest.mark.parametrize(
    ("code", "needless"),
    [
        ("import riverui", (*HEAVY, "click", "email", "json", "logging")),
        (
            "import riverui; riverui.SyncClient('postgres:///shop')",
            (*DASHBOARD, "sqlite3", "riverui.engine.client"),
        ),
        ("import riverui; riverui.SyncClient('sqlite://')", (*DASHBOARD, "riverui.engine.client")),
        ("from riverui.cli.main import main; main(['--help'])", HEAVY),
        ("from riverui.cli.main import main; main(['serve', '--help'])", HEAVY),
        ("from riverui.cli.main import main; main(['job', 'list', '--help'])", HEAVY),
        ("from riverui.cli.main import main; main(['top', '--help'])", (*HEAVY, "textual")),
        (
            f"from riverui.cli.main import main; main({SERVE.split()})",
            ("cronsim", "prometheus_client", "sqlalchemy", "riverui.demo", "riverui.engine"),
        ),
    ],
)
def test_nothing_is_loaded_that_is_not_needed(code: str, needless: tuple[str, ...]) -> None:
    told = f"import sys; print('loaded:', *set(sys.modules) & set({needless}))"
    script = f"try:\n  {code}\nexcept SystemExit:\n  pass\n{told}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].split() == ["loaded:"]
