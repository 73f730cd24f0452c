"""A primary and a hot standby that follows it, both of this test's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import psycopg

from riverui.demo.postgres import EmbeddedPostgres, find_binaries
from tests.conftest import with_database

_BACKUP_SECONDS = 60
"""For the base backup of a server with next to nothing in it: a slow machine takes five."""


def binaries() -> Path:
    """Return the folder of the Postgres programs that the tests use."""
    given = os.environ.get("RIVERUI_PG_BIN")
    return find_binaries(Path(given) if given else None)


class Servers:
    """A running pair; the standby can be stopped and started again."""

    def __init__(self, home: Path, primary: str) -> None:
        self.primary = primary
        """The address of its maintenance database."""
        self.standby = ""
        """The same of the standby, while that runs."""
        self._home = home / "standby"
        self._running: ExitStack | None = None

    def start(self) -> None:
        """Start the standby."""
        self._running = ExitStack()
        server = EmbeddedPostgres(self._home, durable=False, binaries=binaries())
        self.standby = self._running.enter_context(server).url

    def stop(self) -> None:
        """Stop the standby, if it runs."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def pause(self) -> None:
        """Pause replay on the standby."""
        with psycopg.connect(self.standby, autocommit=True) as connection:
            connection.execute("select pg_wal_replay_pause()")

    def resume(self) -> None:
        """Resume replay on the standby."""
        with psycopg.connect(self.standby, autocommit=True) as connection:
            connection.execute("select pg_wal_replay_resume()")

    def urls(self, database: str) -> tuple[str, str]:
        """Return the addresses of a database on both."""
        return with_database(self.primary, database), with_database(self.standby, database)


@contextmanager
def streaming(
    prepare: Callable[[str], None] | None = None, *, settings: Sequence[str] = ()
) -> Iterator[Servers]:
    """Yield a primary, given to `prepare` before the backup is made of it, and its standby with
    these lines of configuration.
    """
    programs = binaries()
    # Not pytest's own folder: its name is too long for a socket.
    with TemporaryDirectory(prefix="riverui-standby-") as folder:
        home = Path(folder)
        # Root's servers run as `nobody`, who needs access to the folder.
        home.chmod(0o711)
        with EmbeddedPostgres(home / "primary", durable=False, binaries=programs) as primary:
            if prepare is not None:
                prepare(primary.url)
            (cluster,) = (home / "primary").glob("pg*[0-9]")
            servers = Servers(home, primary.url)
            (home / "standby").mkdir()
            data = home / "standby" / cluster.name
            host = parse_qs(urlsplit(primary.url).query)["host"][0]
            where = ["-h", host, "-U", "riverui", "-D", str(data)]
            subprocess.run(
                [programs / "pg_basebackup", *where, "-R", "-c", "fast"],
                check=True,
                capture_output=True,
                timeout=_BACKUP_SECONDS,
            )
            with (data / "postgresql.auto.conf").open("a") as configuration:
                configuration.writelines(f"{line}\n" for line in settings)
            servers.start()
            try:
                yield servers
            finally:
                servers.stop()
