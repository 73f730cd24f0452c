"""Fork worker processes from a process that is safe to fork.

Workers share the memory of what riverui and its libraries loaded, and begin without loading it
again. The fork server has no event loop, no thread, no connection, and none of the program's own
code: each worker imports that itself, so that the code need not support forking, and a restart runs
the current code. A supervisor has all of these, so it forks only the fork server, and that first.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import sys
from typing import NamedTuple

import msgspec

from riverui.ipc.connection import frame

_NUMBER = struct.Struct("!I")
"""A request of the supervisor: a process number, sent with the end of its channel."""
_SUPERVISOR_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals for the supervisor, which reach all processes if sent to a group or container."""


class ForkedWorker(NamedTuple):
    """The identity of a new worker process."""

    number: int
    channel: socket.socket
    """Leads to its supervisor."""


class Forked(msgspec.Struct, tag=True):
    """A process was forked; pid 0 if that failed."""

    number: int
    pid: int


class Exited(msgspec.Struct, tag=True):
    """A process has ended."""

    pid: int
    exit_code: int
    """Negative: the signal that ended it."""


def start_fork_server() -> socket.socket | ForkedWorker:
    """Return, in the calling process, the socket of a new fork server, which sends Forked and
    Exited; and in each worker that it forks, a ForkedWorker.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    # Memory is shared until it is written to, also by the garbage collector.
    gc.collect()
    gc.freeze()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SUPERVISOR_SIGNALS)
    if os.fork():
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return ours
    ours.close()
    # Ctrl-C in a terminal is for the supervisor alone, which passes it on once.
    os.setsid()
    for number in _SUPERVISOR_SIGNALS:
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return _serve(theirs)


def fork_worker(fork_server: socket.socket, number: int, channel: socket.socket) -> None:
    """Ask a fork server for a process with this number, which gets this end of a channel."""
    socket.send_fds(fork_server, [_NUMBER.pack(number)], [channel.fileno()])


def _serve(supervisor: socket.socket) -> ForkedWorker:
    """Fork what the supervisor asks for and report what ends, until the supervisor has ended;
    return in each of the workers.
    """
    wakes, woken = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, _ignore)
    while True:
        readable, _, _ = select.select([supervisor.fileno(), wakes], [], [])
        if wakes in readable:
            os.read(wakes, 4096)
            _report_ended(supervisor)
        if supervisor.fileno() not in readable:
            continue
        asked, files, _, _ = socket.recv_fds(supervisor, _NUMBER.size, 1)
        if not asked:
            # The workers notice it as well: their channels are closed.
            os._exit(0)
        number = _NUMBER.unpack(asked)[0]
        channel = socket.socket(fileno=files[0])
        try:
            pid = os.fork()
        except OSError:
            # There are too many processes, or too little memory, at the moment.
            pid = 0
        else:
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # Before it works jobs, it may be killed at any time.
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                supervisor.close()
                os.close(wakes)
                os.close(woken)
                return ForkedWorker(number, channel)
        channel.close()
        _send(supervisor, Forked(number, pid))


def _report_ended(supervisor: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _send(supervisor, Exited(pid, os.waitstatus_to_exitcode(status)))


def _send(supervisor: socket.socket, message: Forked | Exited) -> None:
    try:
        supervisor.sendall(frame(message))
    except OSError:
        os._exit(0)


def _ignore(number: int, frame: object) -> None:
    # A handler, unlike SIG_IGN, is not passed on to the programs that jobs start.
    pass
