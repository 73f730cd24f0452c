"""A program that a test runs as a process, with what it has printed so far."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.worker.conftest import wait_for


def environment(**others: str) -> dict[str, str]:
    """Return an environment with nothing of the test run's own but PATH and HOME."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    unbuffered = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return {**inherited, **unbuffered, **others}


class Program:
    """A process in a session of its own; its output is read from a thread."""

    def __init__(
        self, *command: str | Path, folder: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=environment() if environ is None else environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return "".join(list(self.lines))

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def prints(self, words: str) -> str:
        """Return the first line with these words, once it is printed."""

        def look() -> str:
            reading = self.reading
            line = next((line for line in list(self.lines) if words in line), "")
            assert line or reading, f"never printed {words!r}:\n{self.output}"
            return line

        return str(wait_for(look, seconds=60))

    @property
    def reading(self) -> bool:
        """Whether it may print more."""
        return self._reader.is_alive()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the process, and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(40)
        self._reader.join(5)
        return code

    def close(self) -> None:
        """Kill what still runs of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))
