"""Changes of code are noticed, with and without watchfiles."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from riverui.cli.worker import reload


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[list[Path]]:
    """Collects the files whose change was noticed, by polling."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/old.py").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/x.py").write_text("")
    ending = threading.Event()
    found: list[Path] = []
    seen = threading.Event()

    def watch() -> None:
        for path in reload._polled(tmp_path, ending):
            found.append(path)
            seen.set()

    watching = threading.Thread(target=watch)
    watching.start()
    # What is there at the start counts as known; from when on, shows only in what is noticed.
    for number in range(200):
        (tmp_path / "first.py").write_text("#" * number)
        if seen.wait(0.05):
            break
    assert seen.wait(1)
    time.sleep(2 * reload._POLL_SECONDS)
    found.clear()
    yield found
    ending.set()
    watching.join(5)
    assert not watching.is_alive()


def wait_for_one(found: list[Path]) -> Path:
    deadline = threading.Event()
    for _ in range(200):
        if found:
            return found.pop(0)
        deadline.wait(0.05)
    raise AssertionError("nothing was noticed")


def test_new_changed_and_removed_files_are_noticed(changed: list[Path], tmp_path: Path) -> None:
    new = tmp_path / "package/new.py"
    new.write_text("x = 1")
    assert wait_for_one(changed) == new
    new.write_text("x = 22")
    assert wait_for_one(changed) == new
    (tmp_path / "package/old.py").unlink()
    assert wait_for_one(changed) == tmp_path / "package/old.py"


def test_other_files_are_left_out(changed: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".hidden/x.py").write_text("y = 1")
    marker = tmp_path / "marker.py"
    marker.write_text("")
    assert wait_for_one(changed) == marker
