"""The documentation's site, built once for all tests of a run."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from docs._site.site import build


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return the folder of the built site; its source lies beside it."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    # The first worker builds it, the others wait; a build that failed is tried again, and told.
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "docs/site/llms.txt").exists():
            build(folder / "docs")
    return folder / "docs/site"
