"""`riverui queue`, on the database and on the API."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest

from tests.cli.conftest import Both, Ways
from tests.test_cli import Run

Rows = Callable[[str], list[tuple[object, ...]]]
PAUSED = "select name from river_queue where paused_at is not null order by name"


def test_queues_stand_in_a_table(both: Both) -> None:
    code, out, err = both("queue", "list")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["QUEUE", "STATE", "WAITING", "RUNNING", "LIMIT", "SEEN"]
    assert [line[:5] for line in lines[1:]] == [
        ["default", "active", "0", "1", "—"],
        ["mail", "active", "2", "0", "—"],
        ["slow", "paused", "0", "0", "—"],
    ]


def test_a_program_gets_what_the_api_has(both: Both) -> None:
    _, out, _ = both("queue", "list", "--json")
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["default", "mail", "slow"]
    _, out, _ = both("queue", "get", "mail", "--json")
    assert json.loads(out)["count_available"] == 2


def test_one_queue_and_none(both: Both, shop: str) -> None:
    _, out, _ = both("queue", "get", "slow")
    assert out.splitlines()[1].split()[:2] == ["slow", "paused"]
    assert both("queue", "get", "nope") == (1, "", "riverui: Queue not found: nope.\n")
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute(
            "insert into river_queue (name, created_at, updated_at, metadata) values"
            " (E'a/b c?d\\x1b', now(), now(), '{\"concurrency\": {\"global_limit\": 7}}')"
        )
    _, out, _ = both("queue", "get", "a/b c?d\x1b")
    assert out.splitlines()[1].startswith("a/b c?d\\u001b  active        0        0      7")


@pytest.mark.parametrize("name", ["database", "api"])
def test_queues_are_paused_and_resumed(run: Run, ways: Ways, rows: Rows, name: str) -> None:
    way = dict(getattr(ways, name))
    code, out, _ = run("queue", "pause", "mail", "slow", **way)
    assert code == 0
    assert out.splitlines() == [
        "Queue mail is paused. Running jobs finish; no new ones start.",
        "Queue slow was already paused.",
    ]
    assert rows(PAUSED) == [("mail",), ("slow",)]
    assert run("queue", "resume", "mail", **way)[1] == "Queue mail is resumed.\n"
    assert run("queue", "resume", "mail", **way)[1] == "Queue mail was not paused.\n"
    assert run("queue", "pause", "--all", **way)[1] == "Paused 2 queues: default, mail.\n"
    assert run("queue", "pause", "--all", **way)[1] == "All queues were already paused.\n"
    assert rows(PAUSED) == [("default",), ("mail",), ("slow",)]
    assert run("queue", "resume", "--all", **way)[1] == "Resumed 3 queues: default, mail, slow.\n"
    assert rows(PAUSED) == []
    assert run("queue", "pause", "nope", **way) == (1, "", "riverui: Queue not found: nope.\n")
    for argv in (["pause"], ["pause", "mail", "--all"]):
        code, out, err = run("queue", *argv, **way)
        assert (code, out) == (2, "")
        assert "say which queues to pause" in err
