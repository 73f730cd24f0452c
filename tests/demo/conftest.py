"""Folders for demos that root starts."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def _passable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let Postgres pass through pytest's folders where root has to run it as nobody."""
    if os.geteuid() == 0:
        folder = tmp_path_factory.getbasetemp()
        while folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o711)
            folder = folder.parent
