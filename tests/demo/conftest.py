"""Folders for the data of demos."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@contextmanager
def data_dir() -> Iterator[Path]:
    """Yield a place for data that every user may reach, unlike pytest's own folders: root runs
    Postgres as nobody.
    """
    with TemporaryDirectory(prefix="riverui-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "data"


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield a place for data."""
    with data_dir() as folder:
        yield folder
