"""Listens in a thread for notifications that jobs have ended, while other threads wait for jobs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence

from riverui.engine.job_results import ids_of
from riverui.engine.limits import EngineLimits
from riverui.engine.notifier import JOB_ENDED
from riverui.errors import DatabaseError
from riverui.storage.interface import SyncListener, SyncListeningDriver

_LISTEN_SECONDS = 5.0
"""Seconds between checks whether a thread still waits, while no notification arrives."""
_REST_SECONDS = 8.0
"""Seconds before a lost connection is reopened: threads that wait poll in the meantime."""


class SyncNotifier:
    """Listens from `open` on; stops `results_linger_seconds` after the last call of it."""

    def __init__(
        self,
        driver: SyncListeningDriver,
        limits: EngineLimits,
        *,
        ended: Callable[[Sequence[int]], None],
        connected: Callable[[], None],
    ) -> None:
        self._connected = connected
        self._driver = driver
        self._ended = ended
        self._limits = limits
        self._listener: SyncListener | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._until = 0.0
        self._closing = threading.Event()

    @property
    def listening(self) -> bool:
        """Whether the listening connection is open, as far as is known."""
        return self._listener is not None

    def open(self) -> None:
        """Start listening, or extend it; threads that wait call this at each poll."""
        with self._lock:
            self._until = time.monotonic() + self._limits.results_linger_seconds
            # Threads do not survive a fork.
            if self._thread is None or not self._thread.is_alive():
                self._closing.clear()
                self._thread = threading.Thread(
                    target=self._run, name="riverui results", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        self._closing.set()
        with self._lock:
            thread, listener = self._thread, self._listener
        if listener is not None:
            listener.hang_up()
        if thread is not None and thread.is_alive():
            thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._listen()
                return
            except DatabaseError:
                self._closing.wait(_REST_SECONDS)
                if self._is_over():
                    return

    def _listen(self) -> None:
        listener = self._driver.sync_listener()
        try:
            listener.listen(JOB_ENDED)
            self._listener = listener
            self._connected()
            while not self._is_over():
                for _, payload in listener.heard(_LISTEN_SECONDS):
                    self._take(payload)
        finally:
            if self._listener is listener:
                self._listener = None
            listener.close()

    def _take(self, payload: str) -> None:
        try:
            message = json.loads(payload)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict):
            self._ended(ids_of(message))

    def _is_over(self) -> bool:
        if self._closing.is_set():
            return True
        with self._lock:
            if time.monotonic() < self._until:
                return False
            # The next `open` starts another thread.
            self._thread = None
            return True
