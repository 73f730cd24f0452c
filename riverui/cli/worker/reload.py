"""Runs a command, and restarts it whenever Python code changes: for development."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import click

from riverui.errors import ConfigError

_PR_SET_PDEATHSIG = 1
"""Linux's option of prctl: the signal to get when the parent ends; from <sys/prctl.h>."""


def run_and_reload(command: Sequence[str], folder: Path) -> int:
    """Run the command, again after each change, and return the exit code of its last run.

    SIGINT and SIGTERM are passed on to it, and end the loop.
    """
    ending = threading.Event()
    found = changes(folder, ending)
    process = _start(command)

    def pass_on(number: int, frame: FrameType | None) -> None:
        ending.set()
        process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    for changed in found:
        name = min(changed).relative_to(folder)
        click.echo(f"riverui: {name} has changed, restarting", err=True)
        process.terminate()
        process.wait()
        if ending.is_set():
            break
        process = _start(command)
    return process.wait()


def changes(folder: Path, ending: threading.Event) -> Iterator[set[Path]]:
    """Yield changed Python files below the folder, at each change, until the event is set.

    Hidden folders are ignored. Raise ConfigError if `watchfiles` is not installed.
    """
    try:
        from watchfiles import Change, PythonFilter, watch
    except ModuleNotFoundError:
        raise ConfigError("--reload needs watchfiles: pip install 'riverui[reload]'") from None
    is_python = PythonFilter()

    def counts(change: Change, path: str) -> bool:
        inside = Path(path).relative_to(folder).parts[:-1]
        return is_python(change, path) and not any(part.startswith(".") for part in inside)

    found = watch(folder, watch_filter=counts, stop_event=ending, raise_interrupt=False)
    return ({Path(path) for _, path in batch} for batch in found)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C reaches only this process, which passes it on once.
    return subprocess.Popen(command, preexec_fn=_end_with_parent, start_new_session=True)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
