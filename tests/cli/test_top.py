"""`riverui top`, on the database and on the API, and in a terminal of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.cli.conftest import Ways
from tests.cli.test_api import Stub, stub
from tests.test_cli import Run

__all__ = ["stub"]

Rows = Callable[[str], list[tuple[object, ...]]]
AT_MOST = 20.0
"""Seconds to wait for a frame: far longer than any takes."""


class Tty:
    """A program in a terminal, and what it shows there."""

    def __init__(self, *argv: str, **environ: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(80, 24, tell=False)
        self.before = termios.tcgetattr(self.slave)
        self.written = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "riverui", *argv],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environ},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, columns: int, lines: int, *, tell: bool = True) -> None:
        """Make the terminal another size."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def read(self, seconds: float = 0.1) -> bool:
        """Read what is written within so many seconds; return whether there was anything."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.written += os.read(self.master, 65_536).decode(errors="replace")
        return bool(ready)

    @property
    def frame(self) -> list[str]:
        """The lines of the newest whole frame, without colours."""
        frames = re.findall(r"\x1b\[\?2026h\x1b\[H(.*?)\x1b\[\?2026l", self.written, re.DOTALL)
        text = re.sub(r"\x1b\[[\d;]*[mK]", "", frames[-1]) if frames else ""
        return text.split("\r\n")

    def wait_for(self, fits: Callable[[list[str]], bool]) -> list[str]:
        """Return the first frame that fits."""
        until = time.monotonic() + AT_MOST
        while not fits(self.frame):
            assert time.monotonic() < until, "\n".join(self.frame) + self.written[-2_000:]
            self.read()
        return self.frame

    def shows(self, words: str) -> list[str]:
        """Return the first frame that has these words."""
        return self.wait_for(lambda lines: any(words in line for line in lines))

    def ended(self) -> int:
        """Return the exit code, once everything is read."""
        code = self.process.wait(AT_MOST)
        while self.read(0.05):
            pass
        return code

    def restored(self) -> bool:
        """Return whether the terminal is as it was before."""
        flags = termios.tcgetattr(self.slave)
        end = self.written.rstrip()
        shown = end.rfind("\x1b[?1049l") > end.rfind("\x1b[?1049h")
        cursor = end.rfind("\x1b[?25h") > end.rfind("\x1b[?25l")
        return flags == self.before and shown and cursor


Open = Callable[..., contextlib.AbstractContextManager[Tty]]


@pytest.fixture
def terminal() -> Open:
    """Run `riverui` in a terminal."""

    @contextlib.contextmanager
    def start(*argv: str, **environ: str) -> Iterator[Tty]:
        tty = Tty(*argv, **environ)
        try:
            yield tty
        finally:
            tty.process.kill()
            tty.process.wait()
            os.close(tty.master)
            os.close(tty.slave)

    return start


def test_one_frame_is_the_same_on_both(run: Run, ways: Ways) -> None:
    found = []
    for way in ways.both():
        code, out, err = run("top", "--once", **way)
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        for words in ("running 1", "discarded 1", "slow     paused", "timeout \\u001b[31m"):
            assert words in out, words
        assert out.startswith("riverui top  ")
        assert len(re.findall("^[✓⚠✗?] ", out, re.MULTILINE)) == 3
        # The title names what was asked; a dashboard that was just started knows no figures yet.
        known = out[out.index("\navailable") :]
        known = re.sub(r"(\d+ m )?\d+ s\b", "<time>", known)
        found.append([line.split()[:6] for line in known.splitlines()])
    assert found[0] == found[1]


def test_the_title_never_shows_a_password(run: Run, shop: str) -> None:
    line = make_conninfo(shop, password="secret")
    assert "password=secret" in line
    code, out, err = run("top", "--once", DATABASE_URL=line)
    assert (code, err) == (0, "")
    title = out.splitlines()[0]
    assert "secret" not in title
    assert f"/{conninfo_to_dict(shop)['dbname']} " in title


def test_it_needs_a_terminal(run: Run, shop: str) -> None:
    code, out, err = run("top", DATABASE_URL=shop)
    assert (code, out) == (2, "")
    assert "--once" in err


@pytest.mark.parametrize("name", ["database", "api"])
def test_keys_do_what_they_say(terminal: Open, ways: Ways, rows: Rows, name: str) -> None:
    with terminal("top", "--interval", "0.5", **getattr(ways, name)) as tty:
        first = tty.shows("› default")
        assert len(first) == 24
        assert any("› default" in line for line in first)
        tty.press("\x1b[B")
        tty.shows("› mail")
        tty.press("p")
        tty.shows("Pause queue mail? y/n")
        tty.press("y")
        tty.shows("Queue mail is paused.")
        assert rows("select paused_at is not null from river_queue where name = 'mail'") == [
            (True,)
        ]
        tty.press("\r")
        tty.shows("Jobs that match: queue:mail")
        tty.shows("mail_send")
        tty.press("c")
        tty.shows("1 job cancelled.")
        assert rows("select id from river_job where state = 'cancelled'") == [(2,)]
        tty.press("\x1b")
        tty.press("/kind:charge\r")
        tty.shows("Jobs that match: kind:charge")
        tty.press("\x1b[Bj\r")
        tty.shows("Job 3  discarded")
        tty.press("r")
        tty.shows("Job 3: 1 job will run again now.")
        tty.shows("Job 3  available")
        tty.resize(100, 40)
        tty.wait_for(lambda lines: len(lines) == 40)
        tty.press("\x1b")
        tty.shows("Jobs that match: kind:charge")
        tty.press("q")
        assert tty.ended() == 0
        assert tty.restored()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_the_terminal_is_given_back_however_it_ends(
    terminal: Open, shop: str, number: int, code: int
) -> None:
    with terminal("top", DATABASE_URL=shop) as tty:
        tty.shows("QUEUE")
        assert not tty.restored()
        tty.process.send_signal(number)
        assert tty.ended() == code
        assert tty.restored()
        assert "Traceback" not in tty.written


def test_the_terminal_is_given_back_where_something_is_wrong(terminal: Open, stub: Stub) -> None:
    url, _ = stub(200, b'{"at": "2026-11-21T09:00:00Z"}')
    with terminal("top", "--api", url) as tty:
        assert tty.ended() == 1
        assert tty.restored()
        assert "KeyError" in tty.written.rpartition("\x1b[?1049l")[2]


def test_colours_come_on_a_terminal_only_and_if_they_are_wanted(terminal: Open, shop: str) -> None:
    for besides, colored in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        with terminal("job", "list", DATABASE_URL=shop, **besides) as tty:
            assert tty.ended() == 0
            assert "discarded" in tty.written
            assert ("\x1b[" in tty.written) is colored
            # It is as wide as the terminal.
            lines = re.sub(r"\x1b\[[\d;]*m", "", tty.written).splitlines()
            assert max(map(len, lines)) <= 80


def test_who_quits_does_not_wait_for_a_dashboard_that_hangs(terminal: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with terminal("top", "--api", url) as tty:
            tty.shows("Reading")
            tty.press("q")
            assert tty.ended() == 0
            assert tty.restored()


def test_it_can_be_stopped_and_goes_on(terminal: Open, shop: str) -> None:
    with terminal("top", DATABASE_URL=shop) as tty:
        tty.shows("QUEUE")
        tty.process.send_signal(signal.SIGTSTP)
        # In a session of its own nobody can continue a program, so the kernel does not stop it.
        until = time.monotonic() + AT_MOST
        while "\x1b[?1049l" not in tty.written and time.monotonic() < until:
            tty.read()
        tty.process.send_signal(signal.SIGCONT)
        while tty.written.count("\x1b[?1049h") < 2 and time.monotonic() < until:
            tty.read()
        tty.written = tty.written.rpartition("\x1b[?1049h")[2]
        tty.shows("QUEUE")
        tty.press("q")
        assert tty.ended() == 0
        assert termios.tcgetattr(tty.slave) == tty.before


def test_what_cannot_be_read_is_told_and_tried_again(terminal: Open, ways: Ways, shop: str) -> None:
    with (
        terminal("top", "--interval", "0.5", **ways.api) as tty,
        psycopg.connect(shop, autocommit=True) as connection,
    ):
        tty.shows("QUEUE")
        connection.execute("alter table river_queue rename to away")
        tty.shows("Queues: ")
        connection.execute("alter table away rename to river_queue")
        tty.shows("QUEUE")
        tty.press("q")
        assert tty.ended() == 0
