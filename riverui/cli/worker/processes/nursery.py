"""Forks worker processes, out of a process that is safe to fork.

Workers share the memory of what riverui and its libraries loaded, and begin without loading it
again. The nursery has no event loop, no thread, no connection, and none of the program's own code:
each worker imports that by itself, so that it need not bear being forked, and a restart runs what
is there by then. A supervisor has all of these, and so it forks nothing but the nursery, first.
"""

from __future__ import annotations

import array
import gc
import os
import select
import signal
import socket
import struct
import sys
from dataclasses import dataclass
from typing import NamedTuple

NUMBER = struct.Struct("!I")
"""How the supervisor names the process that it wants; its end of a channel comes along."""
_FAILED = 1 << 8
"""How the system tells exit code 1: of a process that could not be forked, whose pid is told as
0.
"""
_OURS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that are for the supervisor; those of a whole group or container reach all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forked:
    """Tells a new worker process which one it is, and leads to its supervisor."""

    number: int
    channel: socket.socket


class Ended(NamedTuple):
    """A process that has ended."""

    pid: int
    exit_code: int
    """Below 0 the signal that ended it."""


def fork_nursery() -> socket.socket | Forked:
    """Return, in the process that called, what leads to a new nursery; and in each worker that
    comes out of it, which one that is.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    # What is there by now is shared for as long as nobody writes to it, the collector included.
    gc.collect()
    gc.freeze()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
    if os.fork():
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return ours
    ours.close()
    # Ctrl-C in a terminal is for the supervisor alone, which passes it on once.
    os.setsid()
    for number in _OURS:
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return _fork_on_demand(theirs)


def fork_worker(nursery: socket.socket, number: int, channel: socket.socket) -> None:
    """Ask a nursery for a process, which gets this end of a channel."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [channel.fileno()]))
    nursery.sendmsg([NUMBER.pack(number)], [rights])


def read_told(line: bytes) -> tuple[int, int] | Ended:
    """Return what a nursery tells: the number and pid of a new process, or one that ended."""
    what, first, second = line.split()
    if what == b"forked":
        return int(first), int(second)
    return Ended(int(first), os.waitstatus_to_exitcode(int(second)))


def _fork_on_demand(supervisor: socket.socket) -> Forked:
    """Fork what the supervisor wants and tell it what ends, until it is gone; return in each of
    the workers.
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
            _tell_ended(supervisor)
        if supervisor.fileno() not in readable:
            continue
        asked, files, _, _ = socket.recv_fds(supervisor, NUMBER.size, 1)
        if not asked:
            # It has ended: so will the workers, whose channels end too.
            os._exit(0)
        number = NUMBER.unpack(asked)[0]
        channel = socket.socket(fileno=files[0])
        try:
            pid = os.fork()
        except OSError:
            # There are too many processes, or too little memory: perhaps there will be.
            channel.close()
            _tell(supervisor, b"forked %d 0\nended 0 %d\n" % (number, _FAILED))
            continue
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Before it works any job, there is nothing that has to end well.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            supervisor.close()
            os.close(wakes)
            os.close(woken)
            return Forked(number=number, channel=channel)
        channel.close()
        _tell(supervisor, b"forked %d %d\n" % (number, pid))


def _tell_ended(supervisor: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _tell(supervisor, b"ended %d %d\n" % (pid, status))


def _tell(supervisor: socket.socket, line: bytes) -> None:
    try:
        supervisor.sendall(line)
    except OSError:
        os._exit(0)


def _ignore(number: int, frame: object) -> None:
    # A handler, unlike SIG_IGN, is not passed on to the programs that jobs start.
    pass
