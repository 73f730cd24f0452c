"""The terminal of `riverui top`: its keys, its size, and its state afterwards, which is that from
before however the program ends.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The other screen, without a cursor, and without lines that go on in the next."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around a frame: terminals that know these show it at once."""
_KEYS = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[Z": "back tab",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b": "esc",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
}
_SEQUENCE = re.compile(r"\x1b(\[[\d;?]*[A-Za-z~]|O[A-Za-z])")
_MOST_KEYS = 4_096
"""Bytes that are read at once: a long line that is pasted."""


class Ended(BaseException):
    """A signal asks the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class Terminal:
    """The terminal while a program has it to itself."""

    def __init__(self, keys: int, screen: int) -> None:
        """Take the descriptors of the terminal to read and to write."""
        self._keys = keys
        self._screen = screen
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)

    def __enter__(self) -> Terminal:
        self._before = termios.tcgetattr(self._keys)
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._handle(number, self._end)
            self._handle(signal.SIGWINCH, lambda number, frame: self.wake())
            self._handle(signal.SIGTSTP, self._stop)
            self._handle(signal.SIGINT, signal.default_int_handler)
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # No signal, not even a second Ctrl-C, may come between.
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)
        woken, wake = self._woken, self._wake
        self._wake = -1
        try:
            self._give_back()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._handlers.clear()
            os.close(woken)
            os.close(wake)

    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        try:
            found = os.get_terminal_size(self._screen)
        except OSError:
            found = shutil.get_terminal_size()
        return max(found.columns, 1), max(found.lines, 1)

    def show(self, lines: list[str]) -> None:
        """Show a frame, written at once."""
        # Each line is cleared before it is written: behind a full one the last letter would go.
        text = "\r\n".join(f"\x1b[K{line}" for line in lines)
        self._write(f"{_BEGIN}\x1b[H{text}{_END}")

    def wake(self) -> None:
        """Have `wait` return; may be called from any thread."""
        # Where the pipe is full it is about to return as it is.
        with suppress(BlockingIOError):
            if self._wake >= 0:
                os.write(self._wake, b"!")

    def wait(self, seconds: float) -> list[str]:
        """Return the keys that are pressed, none where the time is up or something else is to be
        shown. Raise Ended where a signal asks for the end, or the terminal is gone.
        """
        ready, _, _ = select.select([self._keys, self._woken], [], [], max(seconds, 0.0))
        if self._woken in ready:
            os.read(self._woken, _MOST_KEYS)
        if self._keys not in ready:
            return []
        try:
            read = os.read(self._keys, _MOST_KEYS)
        except OSError:
            read = b""
        if not read:
            raise Ended(signal.SIGHUP)
        return pressed(read.decode(errors="replace"))

    def _take(self) -> None:
        tty.setcbreak(self._keys, termios.TCSANOW)
        self._write(_ENTER)

    def _give_back(self) -> None:
        try:
            self._write(_LEAVE)
        except OSError:
            # The terminal is gone.
            return
        finally:
            if self._before:
                try:
                    termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
                except termios.error:
                    self._before = []

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._screen, data) :]

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handlers[number] = signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        raise Ended(number)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Give the terminal back while the program is stopped (Ctrl-Z)."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        self.wake()


def pressed(text: str) -> list[str]:
    """Return the names of the keys that a terminal sent, and letters as they are; keys that nobody
    here knows are left out.
    """
    found, at = [], 0
    while at < len(text):
        # What begins with an escape goes on to a letter or a tilde; by itself it is a key.
        sequence = _SEQUENCE.match(text, at)
        told = sequence[0] if sequence else text[at]
        name = _KEYS.get(told) or (told if told.isprintable() else "")
        if name:
            found.append(name)
        at += len(told)
    return found
