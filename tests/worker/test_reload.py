"""Changes of code are noticed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from riverui.cli.worker import reload


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[queue.Queue[set[Path]]]:
    """Collect the files whose change was noticed, each."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/old.py").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/x.py").write_text("")
    ending = threading.Event()
    found: queue.Queue[set[Path]] = queue.Queue()

    def watch() -> None:
        for paths in reload.changes(tmp_path, ending):
            found.put(paths)

    watching = threading.Thread(target=watch)
    watching.start()
    # From when on changes are seen, shows only in one that is.
    for number in range(200):
        (tmp_path / "first.py").write_text("#" * number)
        try:
            found.get(timeout=0.1)
            break
        except queue.Empty:
            continue
    yield found
    ending.set()
    watching.join(10)
    assert not watching.is_alive()


def seen_until(found: queue.Queue[set[Path]], expected: Path) -> set[Path]:
    """Return what was noticed up to the expected file; one change may be noticed more than once."""
    seen: set[Path] = set()
    while expected not in seen:
        seen |= found.get(timeout=10)
    return seen


def test_file_changes_are_noticed(changed: queue.Queue[set[Path]], tmp_path: Path) -> None:
    new = tmp_path / "package/new.py"
    new.write_text("x = 1")
    seen_until(changed, new)
    (tmp_path / "package/old.py").unlink()
    seen_until(changed, tmp_path / "package/old.py")
    while not changed.empty():
        changed.get()
    new.write_text("x = 22")
    seen_until(changed, new)


def test_other_files_are_left_out(changed: queue.Queue[set[Path]], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".hidden/x.py").write_text("y = 1")
    marker = tmp_path / "marker.py"
    marker.write_text("")
    assert seen_until(changed, marker) <= {marker, tmp_path / "first.py"}
