"""A child process as its parent sees it: started, sent messages, heard, killed, waited for."""

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
"""Where Linux has a container's share of processors, as time in a period."""
_MESSAGES_AT_ONCE = 100
"""Messages of one child that are handled in a turn of the event loop: a job that logs in a loop
sends thousands a second.
"""
_LAST_WORDS_SECONDS = 1.0
"""For which a channel is read after its child has ended: others may hold the child's end open."""


def start_interpreter(module: str, *arguments: int, **options: Any) -> subprocess.Popen[bytes]:
    """Start an interpreter that calls `main(*arguments)` of a module of ours; OSError where it
    cannot be started.
    """
    # A program in which Python is embedded tells multiprocessing where the interpreter is.
    from multiprocessing.spawn import get_executable

    command = (
        f"import sys; sys.path.append({_ROOT!r}); from {module} import main; main(*{arguments!r})"
    )
    executable = os.fsdecode(get_executable() or sys.executable)
    return subprocess.Popen([executable, "-P", "-c", command], **options)  # noqa: S603 - our own


class Channel(asyncio.Protocol, Generic[M]):
    """An event loop's end: calls `take` for each message, and `closed` once no more will come, with
    the error where something came that is no message.
    """

    def __init__(
        self, types: Any, take: Callable[[M], None], closed: Callable[[ValueError | None], None]
    ) -> None:
        self.closed = asyncio.Event()
        """Set once no more messages will come."""
        self._frames: Frames[M] = Frames(types)
        self._loop = asyncio.get_running_loop()
        self._on_closed = closed
        self._take = take
        self._transport: asyncio.Transport | None = None

    async def open(self, end: socket.socket) -> None:
        """Begin, on this end of a pair of sockets."""
        end.setblocking(False)
        await self._loop.create_unix_connection(lambda: self, sock=end)

    def send(self, message: object) -> None:
        """Send a message without waiting; one that nobody will read is lost."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(message))

    def close(self) -> None:
        """Close this end, once what was sent is on its way."""
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
        """Report that no more will come."""
        self._end(None)

    def _handle(self) -> None:
        """Handle some messages, and the others in the next turn of the event loop."""
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
        """Make one that is not started; `types` are the messages that it may send."""
        self.ended = asyncio.Event()
        """Set once it has ended, and all that it sent was handled."""
        self.exit_code: int | None = None
        """Below 0 the signal that ended it."""
        self.pid = 0
        """Once it was started."""
        self._channel: Channel[M] = Channel(types, self.take, self.closed)
        self._group = False
        """Whether it has a process group of its own."""
        self._loop = asyncio.get_running_loop()

    # What a subclass says

    def take(self, message: M) -> None:
        """Handle a message of the child."""

    def silent(self, error: ValueError | None) -> None:
        """Handle that the child sends no more though it has not ended, with the error where it has
        sent what is no message.
        """

    def over(self) -> None:
        """Handle its end, right after `ended` was set."""

    # What its owner does

    async def launch(self, module: str) -> None:
        """Start an interpreter that calls `main(fd, parent_pid)` of a module, with its end of the
        channel; OSError where it cannot be started.

        It has a process group of its own: Ctrl-C is for its parent, and signals reach what it has
        started as well.
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
        """Begin to hear what the child sends, by this end of the channel."""
        try:
            await self._channel.open(end)
        except BaseException:
            end.close()
            self.signal(signal.SIGKILL)
            raise

    def send(self, message: object) -> None:
        """Send a message without waiting; one that the child will not read is lost."""
        self._channel.send(message)

    def hang_up(self) -> None:
        """Close the channel, from which the child knows that it should end."""
        self._channel.close()

    def signal(self, number: int) -> None:
        """Send a signal to the process, and to those that it has started where it has a group."""
        if self.pid and self.exit_code is None:
            with suppress(OSError):
                (os.killpg if self._group else os.kill)(self.pid, number)

    def exited(self, exit_code: int) -> None:
        """Note that the process has ended: what it sent before is still handled."""
        self.exit_code = exit_code
        if self._channel.closed.is_set():
            self._finish()
        else:
            self._loop.call_later(_LAST_WORDS_SECONDS, self._finish)

    def closed(self, error: ValueError | None) -> None:
        """Note that nothing more will come through the channel."""
        if self.exit_code is not None:
            self._finish()
        else:
            self.silent(error)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of the process, in a thread."""
        exit_code = process.wait()
        # The loop may be closed already, where its program ended without stopping the client.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.exited, exit_code)

    def _finish(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self._channel.close()
            self.over()


def processors() -> int:
    """Return how many processors this process may use: fewer than the machine has, where a
    container or its affinity says so.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = _CPU_LIMIT.read_text(encoding="ascii").split()
        return max(1, min(count, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        # No such file, or `max`: no limit.
        return count
