"""Runs a command, and anew whenever Python code changes: for development."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import click

_POLL_SECONDS = 0.4
_PR_SET_PDEATHSIG = 1
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


def run_and_reload(command: Sequence[str], folder: Path) -> int:
    """Until SIGINT or SIGTERM, which are passed on; the exit code of the last run."""
    ending = threading.Event()
    process = _start(command)

    def pass_on(number: int, frame: FrameType | None) -> None:
        ending.set()
        process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    for changed in changes(folder, ending):
        click.echo(f"riverui: {changed.relative_to(folder)} has changed, restarting", err=True)
        process.terminate()
        process.wait()
        if ending.is_set():
            break
        process = _start(command)
    return process.wait()


def changes(folder: Path, ending: threading.Event) -> Iterator[Path]:
    """A file that changed, each time some did, until the event; by `watchfiles` where that is
    installed.
    """
    return _watched(folder, ending) if find_spec("watchfiles") else _polled(folder, ending)


def _watched(folder: Path, ending: threading.Event) -> Iterator[Path]:
    from watchfiles import PythonFilter, watch

    found = watch(folder, watch_filter=PythonFilter(), stop_event=ending, raise_interrupt=False)
    for batch in found:
        yield Path(min(path for _, path in batch))


def _polled(folder: Path, ending: threading.Event) -> Iterator[Path]:
    known = _stamps(folder)
    while not ending.wait(_POLL_SECONDS):
        now = _stamps(folder)
        if changed := {path for path, _ in known.items() ^ now.items()}:
            known = now
            yield min(changed)


def _stamps(folder: Path) -> dict[Path, int]:
    """When each Python file below the folder was last written."""
    stamps: dict[Path, int] = {}
    waiting = [folder]
    while waiting:
        try:
            for entry in waiting.pop().iterdir():
                if entry.suffix == ".py":
                    stamps[entry] = entry.stat().st_mtime_ns
                elif (
                    entry.name not in _SKIPPED and not entry.name.startswith(".") and entry.is_dir()
                ):
                    waiting.append(entry)
        except OSError:
            # Files come and go while an editor saves them.
            continue
    return stamps


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches us alone and is passed on once.
    return subprocess.Popen(command, preexec_fn=_end_with_parent, start_new_session=True)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
