"""Incidents are played as they are meant: what rows show by then, and who is right."""

from __future__ import annotations

import psycopg
import pytest

from bench.incidents.play import Server
from bench.incidents.score import score
from tests.conftest import with_database


@pytest.mark.parametrize(
    ("name", "minutes"), [("paused", 15), ("long_transaction", 40), ("blocked", 5)]
)
async def test_the_report_finds_what_was_played(admin_url: str, name: str, minutes: int) -> None:
    # Other processes play the others meanwhile.
    server = Server(admin_url, f"riverui_test_{name}")
    await server.prepare()
    try:
        results = await server.play(name, 1, (minutes,), ("alone", "dashboard"))
        assert [(result.reader, result.shown, bool(result.right)) for result in results] == [
            ("alone", True, True),
            ("dashboard", True, True),
        ]
        assert f"| {name} |" in score(results)
    finally:
        await server.close()
    with psycopg.connect(with_database(admin_url, "postgres")) as connection:
        row = connection.execute(
            "select count(*) from pg_database where datname like %s", [f"riverui_test_{name}%"]
        ).fetchone()
    assert row == (0,)


async def test_the_same_seed_is_the_same_case(admin_url: str) -> None:
    server = Server(admin_url, "riverui_test_seeds")
    await server.prepare()
    try:
        first, second = [await server.play("failures", 2, (15,), ("alone",)) for _ in range(2)]
        assert [result.problems for result in first] == [result.problems for result in second]
    finally:
        await server.close()
