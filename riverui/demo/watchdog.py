"""Keeps one Postgres server running for exactly as long as its parent process lives; `postgres.py`
starts it.

It uses the standard library only and is started by file name in isolated mode: quick, wherever
riverui lies. Standard input is the lifeline. It reaches its end when the parent is gone, however
the parent went.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

PORT = 5432
"""Names the socket file; nothing listens on TCP."""
USER = "riverui"

_NEW_USER_NAMESPACE = 0x10000000
"""Linux's CLONE_NEWUSER, for unshare(2)."""
_DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG, for prctl(2)."""
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"}
_SETTINGS = (
    "jit=off",
    "max_connections=300",
    "shared_buffers=64MB",
    "timezone=UTC",
    "unix_socket_permissions=0700",
)
_DURABLE = ("synchronous_commit=off",)
_THROWAWAY = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
_RETRY_SECONDS = 8.0
"""Seconds to retry a start: for 1-2 s after its postmaster was killed, a cluster counts as in use.
"""
_READY_WITHIN = 60.0
"""Seconds for a server to take connections: after a crash it has its log to replay first."""


class Refused(Exception):
    """The server cannot be started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """Runs Postgres programs: they refuse to run as root, so root lends them another identity."""

    binaries: Path
    prepare: Callable[[], None]
    """Runs in the child between fork and exec."""
    user: int | None = None
    """The user id to switch to and who must own the files; None keeps the own one."""
    group: int | None = None

    def start(self, program: str, *arguments: str | Path, output: int) -> subprocess.Popen[bytes]:
        """Start a program of the Postgres installation, its output going to the file descriptor."""
        return subprocess.Popen(
            [self.binaries / program, *arguments],
            preexec_fn=self.prepare,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_ENVIRONMENT,
            user=self.user,
            group=self.group,
            extra_groups=None if self.user is None else [],
        )

    def run(self, program: str, *arguments: str | Path) -> str:
        """Return the output of a program that ends by itself; raise Refused where it fails."""
        process = self.start(program, *arguments, output=subprocess.PIPE)
        output = process.communicate()[0].decode(errors="replace").strip()
        if process.returncode:
            raise Refused(f"{program} failed: {output[-500:] or process.returncode}")
        return output


def main() -> int:
    """Read the request from the command line, answer with a line of JSON, and stay until the parent
    ends.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=Path)
    parser.add_argument(
        "--data-dir", type=Path, help="kept; without it a temporary folder is used and removed"
    )
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    request = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with contextlib.ExitStack() as stack:
            home = stack.enter_context(_home(request.data_dir))
            runner = _runner(request.binaries, home)
            cluster = _cluster(runner, home, fresh=request.fresh)
            socket = stack.enter_context(_socket_folder(runner, home))
            stack.enter_context(_server(runner, home, cluster, socket, durable=request.durable))
            _answer(host=str(socket), port=PORT, user=USER)
            sys.stdin.buffer.read()
    except Refused as refusal:
        _answer(error=str(refusal))
        return 1
    except OSError as error:
        _answer(error=f"cannot use {error.filename or request.data_dir}: {error.strerror or error}")
        return 1
    return 0


def _answer(**fields: object) -> None:
    # The parent may be gone already; then there is nobody to tell, and the lifeline ends anyway.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps(fields).encode() + b"\n")


@contextlib.contextmanager
def _home(data_dir: Path | None) -> Iterator[Path]:
    """Yield the folder for everything, locked: at most one server runs at a time."""
    home = data_dir or Path(tempfile.mkdtemp(prefix="riverui-data-"))
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (home / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"another one is already running on {home}") from None
            yield home
    finally:
        if data_dir is None:
            shutil.rmtree(home, ignore_errors=True)


def _runner(binaries: Path, home: Path) -> Runner:
    """Return a runner as oneself; as root inside a user namespace, or without those as another
    user.
    """
    plain = Runner(binaries=binaries, prepare=_die_with_parent)
    if os.geteuid() and _named(os.geteuid()):
        return plain
    nobody = pwd.getpwnam("nobody")
    spaced = replace(plain, prepare=lambda: _enter_namespace(nobody.pw_uid, nobody.pw_gid))
    if sys.platform == "linux" and _works(spaced, home):
        return spaced
    if os.geteuid():
        return plain
    home.chmod(home.stat().st_mode | 0o001)
    switched = replace(plain, user=nobody.pw_uid, group=nobody.pw_gid)
    if _works(switched, home):
        return switched
    # The programs lie below /root, say. A copy beside the data can be reached when the data can.
    copy = home / "postgres"
    switched = replace(switched, binaries=_copy(binaries, copy))
    if _works(switched, home):
        return switched
    shutil.rmtree(copy)
    raise Refused(
        f"root runs Postgres as the user nobody, who cannot reach {home}: "
        "choose a data folder below /var/lib, or start as another user"
    )


def _works(runner: Runner, home: Path) -> bool:
    """Return whether programs run this way and can reach the data."""

    def prepare() -> None:
        runner.prepare()
        os.stat(home / "lock")

    try:
        replace(runner, prepare=prepare).run("initdb", "-V")
    except (OSError, Refused, subprocess.SubprocessError):
        return False
    return True


def _named(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGINT, 0, 0, 0)


def _enter_namespace(uid: int, gid: int) -> None:
    """Make the process count as another user inside; its files still belong to the real one."""
    real_uid, real_gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None).unshare(_NEW_USER_NAMESPACE):
        raise PermissionError("user namespaces are not available")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {real_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {real_gid} 1")
    # Changing identity clears this setting, so it comes last.
    _die_with_parent()


def _copy(binaries: Path, place: Path) -> Path:
    """Copy a Postgres installation so that every user can run it; return the copy's folder of
    programs.
    """
    installation = binaries.resolve().parent
    package = installation.parent
    copied = place / package.name / installation.name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(installation, copied, symlinks=True)
    # Wheels keep their shared libraries in a folder beside the package.
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name)
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
    return copied / binaries.name


def _cluster(runner: Runner, home: Path, *, fresh: bool) -> Path:
    """Return the folder of the database cluster, made at the first start; one for each major
    version of Postgres.
    """
    version = runner.run("postgres", "-V")
    if not (major := re.search(r"\) (\d+)", version)):
        raise Refused(f"{runner.binaries} holds an unknown Postgres: {version}")
    cluster = home / f"pg{major[1]}"
    if cluster.exists():
        _end_leftover(cluster)
        if fresh and (cluster / "PG_VERSION").exists():
            shutil.rmtree(cluster)
    if not cluster.exists():
        new = home / f"{cluster.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        _give(new, runner)
        options = ("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        runner.run("initdb", "--pgdata", new, "--username", USER, *options)
        # initdb may be stopped halfway: only a whole cluster gets the name.
        new.rename(cluster)
    _give(cluster, runner)
    return cluster


def _give(folder: Path, runner: Runner) -> None:
    """Make the folder's owner the one Postgres will run as: root may change its way between two
    starts.
    """
    owner = os.geteuid() if runner.user is None else runner.user
    group = os.getegid() if runner.group is None else runner.group
    if folder.stat().st_uid != owner:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, group, follow_symlinks=False)


def _end_leftover(cluster: Path) -> None:
    """End or forget the server of a watchdog that was killed; the lock says that it is nobody
    else's.
    """
    note = cluster / "postmaster.pid"
    try:
        pid = int(note.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return
    if not _serves(pid, cluster):
        # The number may be another process's by now, which would keep Postgres from starting.
        note.unlink(missing_ok=True)
        return
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + _RETRY_SECONDS
    while _serves(pid, cluster) and time.monotonic() < deadline:
        time.sleep(0.02)


def _serves(pid: int, cluster: Path) -> bool:
    """Return whether the process is a Postgres on this cluster."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cwd").resolve(strict=True) == cluster.resolve()
        except OSError:
            return False
    asked = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
    )
    return str(cluster).encode() in asked.stdout


@contextlib.contextmanager
def _socket_folder(runner: Runner, home: Path) -> Iterator[Path]:
    """Yield a private folder with a short name, as sockets' paths must be short; `home/socket`
    links to it.
    """
    link = home / "socket"
    if link.is_symlink():
        # Left over from a watchdog that was killed.
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()
    usual = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="riverui-", dir=usual if len(usual) < 60 else "/tmp"))  # noqa: S108
    try:
        _give(folder, runner)
        link.symlink_to(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        link.unlink(missing_ok=True)


@contextlib.contextmanager
def _server(
    runner: Runner, home: Path, cluster: Path, socket: Path, *, durable: bool
) -> Iterator[None]:
    """Yield a server that takes connections; stop it by a fast shutdown, then by an
    immediate one.
    """
    settings = (*_SETTINGS, *(_DURABLE if durable else _THROWAWAY))
    arguments = ["-D", str(cluster), "-k", str(socket), "-h", "", "-p", str(PORT)]
    for setting in settings:
        arguments += ["-c", setting]
    with (home / "postgres.log").open("wb") as log:
        process = runner.start("postgres", *arguments, output=log.fileno())
        try:
            started = time.monotonic()
            while not _ready(cluster, process.pid):
                waited = time.monotonic() - started
                if (
                    process.poll() is not None
                    and waited < _RETRY_SECONDS
                    and _in_use(home / "postgres.log")
                ):
                    time.sleep(0.25)
                    process = runner.start("postgres", *arguments, output=log.fileno())
                elif process.poll() is not None or waited > _READY_WITHIN:
                    raise Refused(f"Postgres did not start: {_last_words(home / 'postgres.log')}")
                time.sleep(0.01)
            yield
        finally:
            for signal_, seconds in ((signal.SIGINT, 8), (signal.SIGQUIT, 3), (signal.SIGKILL, 2)):
                process.send_signal(signal_)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                    break


def _ready(cluster: Path, pid: int) -> bool:
    try:
        lines = (cluster / "postmaster.pid").read_text().split("\n")
    except OSError:
        return False
    return lines[0] == str(pid) and len(lines) > 7 and lines[7].strip() == "ready"


def _in_use(log: Path) -> bool:
    """Return whether Postgres gave up because it took the cluster for another server's."""
    told = log.read_text(errors="replace")
    return "lock file" in told or "still in use" in told


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    told = [line.partition("FATAL:")[2].strip() for line in lines if "FATAL:" in line]
    return (told or lines or ["its log is empty"])[-1]


if __name__ == "__main__":
    sys.exit(main())
