"""The embedded Postgres starts, keeps its data, and never outlives its parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from riverui.demo.postgres import EmbeddedPostgres, find_binaries
from riverui.errors import DemoUnavailable

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def wait_for(happened: Callable[[], bool], *, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def hold(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE / "hold.py"), str(home)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def address(process: subprocess.Popen[str]) -> tuple[Path, int]:
    """Return the folder of the held server's socket, and how often the data have been opened."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("postgresql://"), line + process.stdout.read()
    url, visits = line.split()
    return Path(parse_qs(urlsplit(url).query)["host"][0]), int(visits)


def release(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=20)


def postgres(home: Path) -> int:
    """Return the process id of the server on this folder."""
    (note,) = home.glob("pg*/postmaster.pid")
    return int(note.read_text().splitlines()[0])


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_it_starts_stops_and_starts_again(home: Path) -> None:
    for visit in (1, 2):
        process = hold(home)
        socket, visits = address(process)
        assert visits == visit
        pid = postgres(home)
        release(process)
        assert process.returncode == 0
        assert not alive(pid)
        assert not socket.exists()
        assert not (home / "socket").is_symlink()


def test_it_ends_with_a_killed_parent(home: Path) -> None:
    process = hold(home)
    socket, _ = address(process)
    pid = postgres(home)
    process.kill()
    release(process)
    # The next one may start at once: it waits for the end of this one.
    again = hold(home)
    assert address(again)[1] == 2
    release(again)
    wait_for(lambda: not alive(pid) and not socket.exists())


def test_a_killed_server_starts_again(home: Path) -> None:
    process = hold(home)
    address(process)
    os.kill(postgres(home), signal.SIGKILL)
    process.kill()
    release(process)
    again = hold(home)
    assert address(again)[1] >= 1
    release(again)


def test_programs_that_only_their_owner_can_reach(home: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    installation = find_binaries().parent
    package = tmp_path / installation.parent.name
    shutil.copytree(installation, package / installation.name, symlinks=True)
    libraries = installation.parent.with_name(f"{installation.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, tmp_path / libraries.name)
    binaries = package / installation.name / "bin"
    with (
        EmbeddedPostgres(home, durable=False, binaries=binaries) as server,
        psycopg.connect(server.url) as connection,
    ):
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_stale_process_id_does_not_keep_it_from_starting(home: Path) -> None:
    process = hold(home)
    address(process)
    (note,) = home.glob("pg*/postmaster.pid")
    left = note.read_text().splitlines()
    release(process)
    # After a restart of the machine the number may be another process's: here, this one's.
    note.write_text("\n".join([str(os.getpid()), *left[1:]]))
    again = hold(home)
    assert address(again)[1] == 2
    release(again)


def test_a_second_one_reports_that_one_is_running(home: Path) -> None:
    with (
        EmbeddedPostgres(home, durable=True),
        pytest.raises(DemoUnavailable, match="already running"),
        EmbeddedPostgres(home, durable=True),
    ):
        pass


def test_fresh_throws_the_data_away(home: Path) -> None:
    for fresh, seen in ((False, 0), (False, 1), (True, 0)):
        with (
            EmbeddedPostgres(home, durable=False, fresh=fresh) as server,
            psycopg.connect(server.url) as connection,
        ):
            connection.execute("create table if not exists visits (n int)")
            assert connection.execute("select count(*) from visits").fetchone() == (seen,)
            connection.execute("insert into visits values (1)")


def test_fresh_spares_a_folder_that_is_no_database(home: Path) -> None:
    version = subprocess.run(
        [find_binaries() / "postgres", "-V"], capture_output=True, text=True, check=True
    )
    folder = home / f"pg{version.stdout.split()[2].split('.')[0]}"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(DemoUnavailable), EmbeddedPostgres(home, durable=False, fresh=True):
        pass
    assert (folder / "thesis.tex").exists()


def test_a_server_for_the_moment_leaves_no_folder() -> None:
    with EmbeddedPostgres(None, durable=False) as server:
        with psycopg.connect(server.url) as connection:
            row = connection.execute("show data_directory").fetchone()
        assert row is not None
        folder = Path(row[0])
        assert folder.exists()
    assert not folder.parent.exists()


def test_it_listens_on_no_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PGPORT", "1"), ("PGDATA", "/nowhere"), ("LC_ALL", "xx_XX")):
        monkeypatch.setenv(name, value)
    with EmbeddedPostgres(home, durable=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("show timezone").fetchone() == ("UTC",)
        assert connection.execute("show listen_addresses").fetchone() == ("",)
        # Root's server is nobody, who must be able to pass through.
        assert home.stat().st_mode & 0o077 == (0o001 if os.geteuid() == 0 else 0)


def test_programs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DemoUnavailable, match=str(tmp_path)):
        find_binaries(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DemoUnavailable, match=r"pip install 'riverui\[demo\]'"):
        find_binaries(wheels=(), debian=Path("/nowhere"))
    for major in ("9", "15", "17", "common"):
        folder = tmp_path / major / "bin"
        folder.mkdir(parents=True)
        for program in ("initdb", "postgres"):
            (folder / program).touch()
    assert find_binaries(wheels=(), debian=tmp_path) == tmp_path / "17" / "bin", "the newest"


def test_windows_reports_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with (
        pytest.raises(DemoUnavailable, match="DATABASE_URL"),
        EmbeddedPostgres(None, durable=False),
    ):
        pass
