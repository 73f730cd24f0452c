"""How a number of things is written."""

from __future__ import annotations

from riverui.domain.text import counted


def test_one_thing_is_written_in_the_singular() -> None:
    written = [counted(count, "job") for count in (0, 1, 2, 1_203)]
    assert written == ["0 jobs", "1 job", "2 jobs", "1,203 jobs"]
