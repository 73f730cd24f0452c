"""`riverui top`: its texts, its keys on the database and on the API, and a terminal of its own."""

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
from html import unescape
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from textual.pilot import Pilot

from riverui.cli.api.connect import open_api
from riverui.cli.terminal import Screen, columns_of
from riverui.cli.top.app import Question, ShownJob, Top
from riverui.cli.top.lines import all_lines
from tests.cli.conftest import Ways
from tests.cli.test_api import Stub, stub
from tests.test_cli import Run

__all__ = ["stub"]

Rows = Callable[[str], list[tuple[object, ...]]]
AT_MOST = 20.0
"""Seconds to wait for what is to be shown: far longer than it takes."""


class Tty:
    """A program in a terminal, and what it shows there."""

    def __init__(self, *argv: str, **environ: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
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

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def read(self, seconds: float = 0.1) -> bool:
        """Read what is written within so many seconds; return whether there was anything."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.written += os.read(self.master, 65_536).decode(errors="replace")
        return bool(ready)

    def shows(self, words: str) -> None:
        """Wait until these words have been written."""
        until = time.monotonic() + AT_MOST
        while words not in self.written:
            assert time.monotonic() < until, self.written[-2_000:]
            self.read()

    def ended(self) -> int:
        """Return the exit code, once everything is read."""
        code = self.process.wait(AT_MOST)
        while self.read(0.05):
            pass
        return code

    def restored(self) -> bool:
        """Return whether the terminal is as it was before."""
        flags = termios.tcgetattr(self.slave)
        shown = self.written.rfind("\x1b[?1049l") > self.written.rfind("\x1b[?1049h")
        cursor = self.written.rfind("\x1b[?25h") > self.written.rfind("\x1b[?25l")
        return flags == self.before and shown and cursor


QUEUE: dict[str, Any] = {
    "name": "mail",
    "registered": True,
    "paused_at": None,
    "available": 1_000,
    "running": 3,
    "scheduled": 0,
    "retryable": 2,
    "oldest_waiting_at": "2026-11-21T08:55:48Z",
    "ended_per_minute": 118.4,
}
JOB: dict[str, Any] = {
    "id": 7,
    "kind": "mail_send",
    "queue": "mail",
    "state": "running",
    "attempt": 1,
    "max_attempts": 25,
    "attempted_at": "2026-11-21T08:59:00Z",
    "error": None,
}


def overview(rows: int = 3) -> dict[str, Any]:
    """Return an answer of the API with so many rows in each table."""
    verdicts = (
        ("ok", "Work is flowing."),
        ("critical", "\x1b[31mmail is failing."),
        ("unknown", "These figures are old."),
    )
    failed = {**JOB, "state": "discarded", "error": "boom \x1b[2J " * 20}
    return {
        "at": "2026-11-21T09:00:00Z",
        "health": {
            "sections": [
                {"level": level, "label": label, "headline": "Of it there is this to say. " * 5}
                for level, label in verdicts
            ]
        },
        "states": [
            {"state": "available", "count": 12_000, "precision": "at_least"},
            {"state": "completed", "count": 9_800_000, "precision": "estimated"},
        ],
        "queues": [{**QUEUE, "name": f"mail{n}"} for n in range(rows)],
        "queue_cap": 1_000,
        "running": [{**JOB, "id": 100 + n} for n in range(rows)],
        "failures": [{**failed, "id": 200 + n} for n in range(rows)],
        "missing": "",
    }


def bare(line: str) -> str:
    """Return a line without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", line)


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


@pytest.mark.parametrize("width", [80, 100, 200, 40, 1, None])
@pytest.mark.parametrize("rows", [0, 3, 300])
@pytest.mark.parametrize("colors", [True, False])
def test_lines_fit_every_terminal(width: int | None, rows: int, colors: bool) -> None:
    lines = all_lines(overview(rows), "shop", Screen(colors=colors, width=width))
    if width is None or width >= 80:
        assert all(columns_of(bare(line)) <= (width or 100) for line in lines)
    assert all("\x1b" not in bare(line) for line in lines)
    assert colors or all("\x1b" not in line for line in lines)


def test_what_the_lines_say() -> None:
    lines = all_lines(overview(), "shop", Screen(width=80))
    assert lines[0].split() == ["riverui", "top", "shop", "09:00:00", "UTC"]
    assert lines[1].startswith("✓ Work is flowing. Of it")
    assert lines[3].startswith("✗ \\u001b[31mmail is failing.")
    assert lines[8] == "available 12,000+   completed ≈ 9,800,000"
    assert lines[10].split() == [
        *("QUEUE", "STATE", "WAITING", "RUNNING", "RETRYING", "OLDEST", "WAIT", "A", "MINUTE")
    ]
    assert lines[11].split() == ["mail0", "active", "1,000+", "3", "2", "4", "m", "12", "s", "118"]
    titles = [line.split()[0] for line in lines if re.match(" *[A-Z]{3}", line)]
    assert titles == ["QUEUE", "RUNNING", "FAILED"]

    slow = {**overview(), "queues": None, "running": None, "missing": "It took too long."}
    lines = all_lines(slow, "shop", Screen(width=80))
    assert "Queues: It took too long." in lines
    assert "Running longest: It took too long." in lines
    assert "Queues: You may not see them." in all_lines(
        {**slow, "missing": "", "states": None}, "shop", Screen(width=80)
    )


def test_once_prints_the_same_on_both(run: Run, ways: Ways) -> None:
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


def test_without_textual_it_names_the_command_to_install_it(
    run: Run, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "riverui.cli.top.app", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    code, out, err = run("top", DATABASE_URL=shop)
    assert (code, out) == (2, "")
    assert err == "riverui: top needs textual: pip install 'riverui[top]'\n"
    assert run("top", "--once", DATABASE_URL=shop)[0] == 0


async def shown(pilot: Pilot[int], words: str) -> None:
    """Wait until these words are on the screen."""
    app, until = pilot.app, time.monotonic() + AT_MOST
    while True:
        await pilot.pause(0.05)
        text = unescape(re.sub(r"<[^>]+>", "", app.export_screenshot()))
        # Spaces at the end of a part in one style are left out.
        if re.sub(r"\s", "", words) in re.sub(r"\s", "", text):
            return
        assert time.monotonic() < until, f"{words}: {text}"


@pytest.mark.parametrize("name", ["database", "api"])
async def test_keys_do_what_they_say(ways: Ways, rows: Rows, name: str) -> None:
    paused = "select paused_at is not null from river_queue where name = 'mail'"
    with open_api(getattr(ways, name), {}) as api:
        app = Top(api, place="shop", interval=0.5)
        async with app.run_test(size=(100, 40), notifications=True) as pilot:
            await shown(pilot, "mail")
            await pilot.press("down", "p")
            await shown(pilot, "Pause queue mail? y/n")
            # Not even quitting: any other key is a no.
            await pilot.press("q")
            assert not isinstance(app.screen, Question)
            await pilot.press("p", "y")
            await shown(pilot, "Queue mail is paused.")
            assert rows(paused) == [(True,)]
            await pilot.press("enter")
            await shown(pilot, "queue:mail")
            await shown(pilot, "mail_send")
            await pilot.press("c")
            await shown(pilot, "1 job cancelled.")
            assert rows("select id from river_job where state = 'cancelled'") == [(2,)]
            await pilot.press("escape", "slash", *"kind:charge", "enter")
            await shown(pilot, "discarded")
            await pilot.press("j", "enter")
            await shown(pilot, "Job 3  discarded")
            await pilot.press("r")
            await shown(pilot, "Job 3: 1 job will run again now.")
            await shown(pilot, "Job 3  available")
            await pilot.press("question_mark")
            await shown(pilot, "Pause or resume")
            await pilot.press("question_mark", "escape")
            await shown(pilot, "kind:charge")
            assert not isinstance(app.screen, ShownJob)
            await pilot.press("q", "escape", "q")
        assert app.return_value is None
        assert app.return_code == 0


async def test_the_cursor_stays_on_its_row_and_errors_are_shown(ways: Ways, shop: str) -> None:
    new = "insert into river_queue (name, created_at, updated_at) values ('first', now(), now())"
    with open_api(ways.api, {}) as api, psycopg.connect(shop, autocommit=True) as connection:
        app = Top(api, place="shop", interval=0.1)
        async with app.run_test(size=(100, 40), notifications=True) as pilot:
            await shown(pilot, "mail")
            await pilot.press("j")
            connection.execute(new)
            await shown(pilot, "first")
            await pilot.press("p")
            await shown(pilot, "Pause queue mail? y/n")
            await pilot.press("n")
            connection.execute("alter table river_queue rename to away")
            await shown(pilot, "Queues: ")
            connection.execute("alter table away rename to river_queue")
            await shown(pilot, "QUEUE")


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


def test_the_terminal_is_given_back_after_a_mistake(terminal: Open, stub: Stub) -> None:
    url, _ = stub(200, b'{"at": "2026-11-21T09:00:00Z"}')
    with terminal("top", "--api", url) as tty:
        assert tty.ended() == 1
        assert tty.restored()
        assert "KeyError" in tty.written


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
