"""The page about Django, followed to the letter in a new project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

PAGE = Path(__file__).parents[2] / "docs/jobs/django.md"
_FILE = re.compile(r"^```python\n# (\w+/\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_new_project_does_what_the_page_says(empty_database_url: str, tmp_path: Path) -> None:
    """Each block begins with the name of a file: a new one, or one to add to."""
    parts = conninfo_to_dict(empty_database_url)
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "DJANGO_SUPERUSER_PASSWORD": "pw",
        "PGDATABASE": str(parts["dbname"]),
        "PGHOST": str(parts["host"]),
        "PGPASSWORD": str(parts.get("password") or ""),
        "PGPORT": str(parts.get("port") or ""),
        "PGUSER": str(parts.get("user") or ""),
    }

    def run(*words: str, folder: Path) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    project = tmp_path / "mysite"
    run("-m", "django", "startproject", "mysite", folder=tmp_path)
    run("manage.py", "startapp", "shop", folder=project)
    text = PAGE.read_text(encoding="utf-8")
    blocks = _FILE.findall(text)
    assert len(blocks) == text.count("```python\n") - text.count("<!-- not run") == 11
    for name, code in blocks:
        file = project / name
        # What startapp writes is a few words and an import.
        before = file.read_text() if file.exists() and name.startswith("mysite") else ""
        file.write_text(before + code)
    run("manage.py", "makemigrations", "shop", folder=project)
    run("manage.py", "migrate", folder=project)
    assert "no issues" in run("manage.py", "check", "--database", "default", folder=project)
    seen = "from riverui.contrib.django import worker_client as make; print(make().periodic_jobs)"
    assert "count-orders" in run("manage.py", "shell", "-c", seen, folder=project)
    assert re.search(r"Ran 2 tests.*\n\nOK", run("manage.py", "test", folder=project))
