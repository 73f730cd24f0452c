"""`riverui health`; what it finds is tested beside the verdict."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import psycopg

from riverui.domain.figures import Tally
from riverui.domain.sketch import Sketch
from riverui.features.figures.domain import HOUR, Rollup, begin
from riverui.features.figures.store import RollupStore
from riverui.storage.connect import connect
from tests.test_cli import Run, run

__all__ = ["run"]


def test_nothing_to_do(run: Run, database_url: str) -> None:
    code, out, err = run("health", DATABASE_URL=database_url)
    assert (code, err) == (0, "")
    assert out.startswith("✓ Nothing to do. No job waits, runs or is due later.")


def test_what_is_found(run: Run, database_url: str) -> None:
    url = {"DATABASE_URL": database_url}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into river_queue (name, created_at, updated_at, paused_at) values"
            " ('default', now(), now(), now() - interval '1 hour'),"
            " (E'\\u202eliam', now(), now(), now())"
        )
        connection.execute(
            "insert into river_job (kind, args, scheduled_at)"
            " values ('mail', '{}', now() - interval '30 minutes')"
        )
    code, out, _ = run("health", **url)
    assert code == 2
    assert "✗ All 2 queues are paused. 1 job waits there, the oldest for 30 m" in out
    assert "    ✗ Paused queues: Paused for 1 h 0 m, with 1 job" in out
    assert "\u202e" not in out
    code, out, _ = run("health", "--json", **url)
    told = json.loads(out)
    assert (code, told["level"], told["cause"]) == (2, "critical", "paused")


def test_what_is_usual_comes_from_stored_figures(run: Run, database_url: str) -> None:
    url = {"DATABASE_URL": database_url}
    assert run("migrate-up", "--line", "riverui", **url)[0] == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into river_job (kind, args, scheduled_at)"
            " values ('mail', '{}', now() - interval '9 minutes');"
            "insert into river_job (kind, args, state, attempt, max_attempts, attempted_at,"
            " attempted_by) values ('mail', '{}', 'running', 1, 25, now(), '{me}')"
        )
        _, unusual, _ = run("health", **url)
        assert "Queue default is behind. The oldest job there has waited 9 m" in unusual
        asyncio.run(store_a_week(database_url))
        before = connection.execute("select count(*) from riverui_rollup").fetchone()
        _, usual, _ = run("health", **url)
        # It only looks.
        assert connection.execute("select count(*) from riverui_rollup").fetchone() == before
    assert "Queue default is behind" not in usual


def test_objectives_count(run: Run, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into river_job (kind, args, state, attempt, max_attempts, scheduled_at,"
            " attempted_at, attempted_by, finalized_at) select 'mail', '{}', 'completed', 1, 25,"
            " t - interval '50 seconds', t, '{me}', t from generate_series("
            " now() - interval '58 minutes', now() - interval '10 seconds', '5 seconds') as t"
        )
    code, out, _ = run("health", DATABASE_URL=database_url, RIVERUI_SLO="default=99% < 5s")
    assert code == 2
    assert "99 % of jobs start within 5 s" in out
    code, _, err = run("health", DATABASE_URL=database_url, RIVERUI_SLO="default is fast")
    assert code == 2
    assert "write it like mail=99.9% < 5s" in err


async def store_a_week(database_url: str) -> None:
    """Store hours in which each job waited for eight minutes."""
    wait = Sketch.from_spans([timedelta(minutes=8)] * 100)
    now = begin(datetime.now(UTC), HOUR)
    driver = connect(database_url)
    async with driver.transaction() as db:
        await RollupStore(db).rollup_put(
            [
                Rollup(
                    at=now - n * HOUR,
                    span=HOUR,
                    pairs={("default", "mail"): Tally(completed=100, wait=wait)},
                )
                for n in range(1, 8 * 24)
            ]
        )
    await driver.close()


def test_a_database_that_is_away(run: Run) -> None:
    code, out, err = run("health", DATABASE_URL="postgres://127.0.0.1:1/none")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
