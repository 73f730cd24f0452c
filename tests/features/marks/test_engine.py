"""A client marks its release in charts once, and works even if that fails."""

from __future__ import annotations

import psycopg

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.engine.conftest import Playground
from tests.own_tables import OWN_TABLES
from tests.worker.conftest import StartWorker, start_worker

__all__ = ["start_worker"]


async def marks(play: Playground) -> list[tuple[str, str]]:
    rows = await play.rows("select label, release from riverui_mark order by created_at")
    return [(row["label"], row["release"]) for row in rows]


async def make_table(play: Playground) -> None:
    driver = connect(play.database_url)
    await migrate(driver, "up", line="riverui")
    await driver.close()


async def test_the_first_client_of_a_release_marks_it(play: Playground) -> None:
    await make_table(play)
    first = await play.start(release=" v1\n" + "x" * 300)

    async def marked() -> bool:
        return bool(await marks(play))

    await play.until(marked)
    cut = ("v1 " + "x" * 300)[:200]
    assert await marks(play) == [(cut, cut)]
    (row,) = await play.rows("select username, at from riverui_mark")
    assert row["username"] == first.id
    assert row["at"].second == 0

    await play.start(release="v1 " + "x" * 300)
    await play.start(release="v2")

    async def twice() -> bool:
        return len(await marks(play)) == 2

    await play.until(twice)
    assert await marks(play) == [(cut, cut), ("v2", "v2")]


async def test_without_the_table_it_works(play: Playground) -> None:
    await play.start(release="v1")
    job = await play.insert()
    await play.in_state(job, "completed")


async def test_a_table_of_another_kind_does_not_prevent_work(play: Playground) -> None:
    await play.connection.execute("create table riverui_mark (odd integer)")
    await play.start(release="v1")
    job = await play.insert()
    await play.in_state(job, "completed")


def test_it_marks_its_release(start_worker: StartWorker, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(OWN_TABLES)
        with start_worker("shop:client", RIVERUI_RELEASE="v1.4.2") as worker:
            worker.said("marked the release v1.4.2")
        rows = connection.execute("select label, release from riverui_mark").fetchall()
    assert rows == [("v1.4.2", "v1.4.2")]
