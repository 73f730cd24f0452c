"""A child process from its parent's view: start, messages, signals, end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from riverui.ipc.connection import Frames, frame

M = TypeVar("M")

_ROOT = str(Path(__file__).parents[2])
"""The folder of the package riverui."""
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""A container's CPU limit on Linux, as time per period."""
_MESSAGES_AT_ONCE = 100
"""Messages of one child handled per turn of the event loop: a job that logs in a loop sends
thousands a second.
"""
_LAST_WORDS_SECONDS = 1.0
"""Seconds to read a channel after its child has ended: other processes may hold the child's end
open.
"""


def start_interpreter(module: str, *arguments: int, **options: Any) -> subprocess.Popen[bytes]:
    """Start an interpreter that calls `main(*arguments)` of a riverui module; OSError if it cannot
    start.
    """
    # If Python is embedded, the program sets the interpreter's path in multiprocessing.
    from multiprocessing.spawn import get_executable

    command = (
        f"import sys; sys.path.append({_ROOT!r}); from {module} import main; main(*{arguments!r})"
    )
    executable = os.fsdecode(get_executable() or sys.executable)
    return subprocess.Popen([executable, "-P", "-c", command], **options)  # noqa: S603 - our own


class Channel(asyncio.Protocol, Generic[M]):
    """The event loop's end: calls `take` for each message, and `closed` at the end, with the error
    if the data was not a message.
    """

    def __init__(
        self, types: Any, take: Callable[[M], None], closed: Callable[[ValueError | None], None]
    ) -> None:
        self.closed = asyncio.Event()
        """Set when no more messages can arrive."""
        self._frames: Frames[M] = Frames(types)
        self._loop = asyncio.get_running_loop()
        self._on_closed = closed
        self._take = take
        self._transport: asyncio.Transport | None = None

    async def open(self, end: socket.socket) -> None:
        """Start on this end of a socket pair."""
        end.setblocking(False)
        await self._loop.create_unix_connection(lambda: self, sock=end)

    def send(self, message: object) -> None:
        """Send a message without waiting; it is lost if the other end is closed."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(message))

    def close(self) -> None:
        """Close this end after pending data is sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Handle the messages that have arrived."""
        self._frames.feed(data)
        self._handle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that no more messages can arrive."""
        self._end(None)

    def _handle(self) -> None:
        """Handle some messages, and the rest in the next turn of the event loop."""
        for _ in range(_MESSAGES_AT_ONCE):
            if self.closed.is_set():
                return
            try:
                message = self._frames.next()
            except ValueError as error:
                self._end(error)
                return
            if message is None:
                self._read(True)
                return
            self._take(message)
        self._read(False)
        self._loop.call_soon(self._handle)

    def _read(self, on: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading() if on else transport.pause_reading()

    def _end(self, error: ValueError | None) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self.close()
            self._on_closed(error)


class ChildProcess(Generic[M]):
    """A child process, its channel and its end. A subclass handles its messages."""

    def __init__(self, types: Any) -> None:
        """Create one without starting it; `types` are the messages that it may send."""
        self.ended = asyncio.Event()
        """Set when it has ended, and all its messages were handled."""
        self.exit_code: int | None = None
        """Negative: the signal that ended it."""
        self.pid = 0
        """0 before the start."""
        self._channel: Channel[M] = Channel(types, self.take, self.closed)
        self._group = False
        """Whether it has a process group of its own."""
        self._loop = asyncio.get_running_loop()

    # For subclasses to implement

    def take(self, message: M) -> None:
        """Handle a message of the child."""

    def silent(self, error: ValueError | None) -> None:
        """Handle that the child has closed its channel without ending; `error` is set if it sent
        invalid data.
        """

    def over(self) -> None:
        """Handle its end, right after `ended` was set."""

    # For the owner to call

    async def launch(self, module: str) -> None:
        """Start an interpreter that calls `main(fd, parent_pid)` of a module, with its end of the
        channel; OSError if it cannot start.

        It has its own process group: Ctrl-C reaches only its parent, and signals also reach the
        processes it has started.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = start_interpreter(
                    module, theirs.fileno(), os.getpid(), pass_fds=[theirs.fileno()],
                    process_group=0, stdin=subprocess.DEVNULL,
                )  # fmt: skip
        except BaseException:
            ours.close()
            self._finish()
            raise
        self.pid, self._group = process.pid, True
        threading.Thread(
            target=self._wait, args=(process,), name=f"riverui-child-{self.pid}", daemon=True
        ).start()
        await self.connect(ours)

    async def connect(self, end: socket.socket) -> None:
        """Start receiving messages of the child on this end of the channel."""
        try:
            await self._channel.open(end)
        except BaseException:
            end.close()
            self.signal(signal.SIGKILL)
            raise

    def send(self, message: object) -> None:
        """Send a message without waiting; it is lost if the child does not read it."""
        self._channel.send(message)

    def hang_up(self) -> None:
        """Close the channel, which makes the child end."""
        self._channel.close()

    def signal(self, number: int) -> None:
        """Send a signal to the process, and to its process group if it has one."""
        if self.pid and self.exit_code is None:
            with suppress(OSError):
                (os.killpg if self._group else os.kill)(self.pid, number)

    def exited(self, exit_code: int) -> None:
        """Record that the process has ended; messages it sent before are still handled."""
        self.exit_code = exit_code
        if self._channel.closed.is_set():
            self._finish()
        else:
            self._loop.call_later(_LAST_WORDS_SECONDS, self._finish)

    def closed(self, error: ValueError | None) -> None:
        """Record that the channel is closed."""
        if self.exit_code is not None:
            self._finish()
        else:
            self.silent(error)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of the process, in a thread."""
        exit_code = process.wait()
        # The loop may be closed already, if its program ended without stopping the client.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.exited, exit_code)

    def _finish(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self._channel.close()
            self.over()


def processors() -> int:
    """Return how many processors this process may use: less than the machine has if a container or
    the affinity limits it.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = _CPU_LIMIT.read_text(encoding="ascii").split()
        return max(1, min(count, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        # No such file, or `max`: unlimited.
        return count
