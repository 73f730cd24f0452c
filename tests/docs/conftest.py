"""The documentation's site, built once for all tests of a run, and commands that its pages name."""

from __future__ import annotations

import fcntl
import shlex
from pathlib import Path

import pytest

from docs._site.site import build
from riverui.cli.main import main
from tests.docs.programs import Run


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return the folder of the built site; its source is in the folder next to it."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    # The first worker builds it, the others wait; a failed build is repeated.
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "docs/site/llms.txt").exists():
            build(folder / "docs")
    return folder / "docs/site"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a command in this process."""

    def call(command: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        printed = capfd.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return call
