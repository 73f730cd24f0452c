"""`riverui mark`: marks a deploy in charts, once."""

from __future__ import annotations

import re
import time

import psycopg
import pytest

from tests.test_cli import Run, run

__all__ = ["run"]


def test_it_marks_once(run: Run, database_url: str) -> None:
    url = {"DATABASE_URL": database_url}
    assert run("migrate-up", "--line", "riverui", **url)[0] == 0
    options = ["--url", "https://git.example/v1", "--release", "9f3c", "--by", "ci"]
    code, out, err = run("mark", "v1 \x1b[2J", *options, **url)
    assert (code, out) == (2, "")
    assert "control characters" in err
    code, out, err = run("mark", "v1", *options, **url)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"Marked v1 at \d{4}-\d\d-\d\d \d\d:\d\d UTC\.\n", out)
    code, out, _ = run("mark", "v1", **url)
    assert code == 0
    assert out.startswith("Nothing to do: there is a mark v1 at ")
    at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 86_400))
    assert run("mark", "v0", "--at", at, USER="ada", **url)[0] == 0
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select label, release, url, username from riverui_mark order by at"
        ).fetchall()
    assert rows == [
        ("v0", "", "", "ada"),
        ("v1", "9f3c", "https://git.example/v1", "ci"),
    ]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["v1"], "run `riverui migrate-up --line riverui`."),
        ([""], "a label"),
        (["v1", "--at", "noon"], "--at noon: write it with a time zone"),
        (["v1", "--url", "ftp://x"], "must begin with https://"),
    ],
)
def test_what_cannot_be_marked(run: Run, database_url: str, argv: list[str], words: str) -> None:
    code, out, err = run("mark", *argv, DATABASE_URL=database_url)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
