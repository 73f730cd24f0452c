"""The frames of `riverui top`: what stands in them, and that they fit."""

from __future__ import annotations

import re
from typing import Any

import pytest

from riverui.cli.terminal import Screen, columns_of
from riverui.cli.top.board import Board
from riverui.cli.top.frame import HELP, View, frame
from riverui.cli.top.tty import pressed

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


def section(level: str, label: str) -> dict[str, str]:
    return {"level": level, "label": label, "headline": "Of it there is this to say. " * 5}


def overview(queues: int = 3, running: int = 3, failures: int = 3) -> dict[str, Any]:
    """Return an answer of the API with so many rows."""
    failed = {**JOB, "state": "discarded", "error": "boom \x1b[2J " * 20}
    return {
        "at": "2026-11-21T09:00:00Z",
        "health": {
            "sections": [
                section("ok", "Work is flowing."),
                section("critical", "\x1b[31mmail is failing."),
                section("unknown", "These figures are old."),
            ]
        },
        "states": [
            {"state": "available", "count": 12_000, "precision": "at_least"},
            {"state": "completed", "count": 9_800_000, "precision": "estimated"},
        ],
        "queues": [{**QUEUE, "name": f"mail{n}"} for n in range(queues)],
        "queue_cap": 1_000,
        "running": [{**JOB, "id": 100 + n} for n in range(running)],
        "failures": [{**failed, "id": 200 + n} for n in range(failures)],
        "missing": "",
    }


def view(**changes: Any) -> View:
    return View(**{"where": "shop", "overview": overview(), **changes})


def bare(line: str) -> str:
    """Return a line without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", line)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60), (40, 12), (20, 5), (1, 1)])
@pytest.mark.parametrize("rows", [0, 2, 300])
@pytest.mark.parametrize("colors", [True, False])
def test_a_frame_fits_every_terminal(size: tuple[int, int], rows: int, colors: bool) -> None:
    width, height = size
    screen = Screen(colors=colors, width=width)
    told = overview(rows, rows, rows)
    for shown in (
        view(overview=told),
        view(overview=None),
        view(overview=told, found=told["running"][:0]),
        view(overview=told, lines=HELP),
        view(overview=told, prompt="x" * 300),
        view(overview=told, question="Pause queue mail?", trouble="gone " * 99, message="done"),
    ):
        lines = frame(shown, screen, height=height)
        assert len(lines) == height
        if width >= 80:
            assert all(columns_of(bare(line)) <= width for line in lines)
        assert all("\x1b" not in bare(line) for line in lines)
        assert colors or all("\x1b" not in line for line in lines)


def test_what_stands_in_it() -> None:
    lines = frame(view(), Screen(width=80), height=24)
    assert lines[0].split() == ["riverui", "top", "shop", "09:00:00", "UTC"]
    assert lines[1].startswith("✓ Work is flowing. Of it")
    assert lines[2].startswith("✗ \\u001b[31mmail is failing.")
    assert lines[5] == "available 12,000+   completed ≈ 9,800,000"
    assert lines[7].split() == [
        *("QUEUE", "STATE", "WAITING", "RUNNING", "RETRYING", "OLDEST", "WAIT", "A", "MINUTE")
    ]
    assert lines[8].split() == [
        *("›", "mail0", "active", "1,000+", "3", "2", "4", "m", "12", "s", "118")
    ]
    assert lines[-1].startswith("q quit")
    # All three tables are there.
    assert [line.split()[0] for line in lines if re.match("  [A-Z]{3}", line)] == [
        *("QUEUE", "RUNNING", "FAILED")
    ]


def test_what_is_missing_is_told() -> None:
    told = {**overview(), "queues": None, "running": None, "missing": "It took too long."}
    lines = frame(view(overview=told), Screen(width=80), height=24)
    assert "Queues: It took too long." in lines
    assert "Running longest: It took too long." in lines
    allowed = {**told, "missing": "", "states": None}
    assert "Queues: You may not see them." in frame(view(overview=allowed), Screen(width=80))


def test_the_selected_row_is_always_in_sight_and_stays_selected() -> None:
    asked: list[object] = []
    board = Board(view(overview=overview(300, 2, 2)), Screen(), asked.append)
    for _ in range(150):
        board.press("down")
    assert any("› mail150" in line for line in frame(board.view, Screen(width=80), height=24))
    # Others come and go; the row is known by its name.
    board.view.overview = overview(151, 2, 2)
    board.press("up")
    assert board.view.key("queues") == "mail149"
    board.press("end")
    board.press("down")
    assert board.view.key("queues") == "mail150"
    board.view.overview = overview(3, 2, 2)
    assert board.view.key("queues") == "mail0"
    board.press("tab")
    board.press("j")
    assert (board.view.section, board.view.key("running")) == ("running", "101")
    board.press("back tab")
    board.press("back tab")
    assert board.view.section == "failures"
    assert asked == []


def test_nothing_is_paused_before_somebody_agrees() -> None:
    asked: list[object] = []
    board = Board(view(), Screen(), asked.append)
    for key in ("p", "n"):
        assert board.press(key)
    assert (asked, board.view.question) == ([], "")
    board.press("p")
    assert board.view.question == "Pause queue mail0?"
    # Not even quitting: any other key is a no.
    assert board.press("q")
    assert asked == []
    board.press("p")
    board.press("y")
    assert len(asked) == 1
    assert not board.press("q")


def test_a_search_is_typed_and_help_closed() -> None:
    asked: list[object] = []
    board = Board(view(), Screen(), asked.append)
    for key in ["/", *"kind:q", "backspace", "x", "esc"]:
        assert board.press(key)
    assert (board.view.prompt, asked) == (None, [])
    for key in ["/", *"a q", "enter"]:
        board.press(key)
    assert len(asked) == 1
    board.press("?")
    assert board.view.lines == HELP
    board.press("c")
    assert len(asked) == 1, "no job is shown"
    board.press("esc")
    assert board.view.lines is None


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[Bjé", ["up", "down", "j", "é"]),
        ("\x1bOA\t\x1b[Z\r\n", ["up", "tab", "back tab", "enter", "enter"]),
        ("\x1b", ["esc"]),
        ("\x1b\x1b[A\x1b/", ["esc", "up", "esc", "/"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        ("\x1b[15~x\x1b[1;5Cy", ["x", "y"]),
        ("\x7f\x08\x00\x01", ["backspace", "backspace"]),
    ],
)
def test_keys_are_known_by_what_terminals_send(text: str, keys: list[str]) -> None:
    assert pressed(text) == keys
