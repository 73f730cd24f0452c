"""`riverui serve --workers 2`: both answer, know one another's cookies and guesses, are replaced
when killed, and end with their supervisor.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from typing import Any

import httpx2
import psycopg
import pytest

from tests.ports import free_port
from tests.replicas.processes import Replica, alive, browser, replica, wait_for
from tests.web.html import parse

TWO = ("--workers", "2")


async def both_started(server: Replica) -> list[int]:
    await server.said("worker started", times=2)
    return server.workers


async def process_of(client: httpx2.AsyncClient) -> str:
    """Which process answered."""
    page = parse((await client.get("/about")).text).one(id="about")
    found = re.search(r"Process ?(\S+) \(one of 2\)", page.text)
    assert found
    return found[1]


async def test_both_answer_and_know_one_anothers_cookies(database_url: str) -> None:
    async with replica(database_url, *TWO) as server, browser(server.port) as client:
        workers = await both_started(server)
        await server.said("RIVERUI_SECRET_KEY is not set")
        await client.post("/preferences", data={"theme": "dark"})
        assert client.cookies

        seen: dict[str, int] = {}
        async with asyncio.timeout(60):
            while len(seen) < 2 or min(seen.values()) < 3:
                page = await client.get("/about")
                assert 'data-theme="dark"' in page.text
                name = await process_of(client)
                seen[name] = seen.get(name, 0) + 1
        assert {int(name.split(":")[1]) for name in seen} == set(workers)

        figures = (await client.get("/metrics")).text
        processes = set(re.findall(r'process="([^"]+)"', figures))
        assert processes <= seen.keys()
        assert len(processes) == 1
        assert 'river_jobs{state="running"}' in figures
        assert (await client.get("/api/health-checks/complete")).json() == {"status": "ok"}
        assert await server.stop() == 0
        assert "has stopped" in server.lines[-1]
        assert not alive(workers)
        assert not [line for line in server.lines if "Traceback" in line]
        (warning,) = [line for line in server.lines if "level=WARN" in line]
        assert "riverui migrate-up --line riverui" in warning
        assert "the tables of riverui" in warning


async def test_guesses_are_counted_together(database_url: str) -> None:
    async with replica(database_url, *TWO) as server:
        await both_started(server)
        async with browser(server.port, password="wrong") as guesser:
            statuses = [(await guesser.get("/jobs")).status_code for _ in range(30)]
        # As many as one process lets pass; meanwhile one more may have become possible.
        assert statuses[:10] == [401] * 10
        assert statuses[10:].count(401) <= 2
        assert set(statuses[10:]) <= {401, 429}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_requests_under_way_are_finished_at_the_end(database_url: str, number: int) -> None:
    async with replica(database_url, *TWO) as server, browser(server.port) as client:
        workers = await both_started(server)
        with psycopg.connect(database_url) as connection:
            connection.execute("lock table river_queue in access exclusive mode")
            asking = [asyncio.create_task(client.get("/queues")) for _ in range(4)]
            waiting = (
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database()"
            )

            async def all_wait() -> bool:
                with psycopg.connect(database_url, autocommit=True) as look:
                    row = look.execute(waiting).fetchone()
                return bool(row and row[0] == len(asking))

            await wait_for(all_wait)
            server.process.send_signal(number)

            async def told() -> bool:
                try:
                    async with asyncio.timeout(1):
                        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                    writer.close()
                except OSError:
                    return True
                return False

            assert alive(workers) == workers
            connection.rollback()
            answers = await asyncio.gather(*asking)
            assert [answer.status_code for answer in answers] == [200] * 4
        async with asyncio.timeout(20):
            assert await server.process.wait() == 0
        assert not alive(workers)
        assert await told()


async def test_a_killed_worker_is_replaced(database_url: str) -> None:
    async with replica(database_url, *TWO) as server, browser(server.port) as client:
        first, second = await both_started(server)
        os.kill(first, signal.SIGKILL)
        line = await server.said("a worker has ended and was replaced")
        assert f"pid={first} exit_code=-9" in line
        await server.said("worker started", times=3)
        assert set(alive(server.workers)) == {second, server.workers[-1]}

        async def by_the_new_one() -> bool:
            return int((await process_of(client)).split(":")[1]) == server.workers[-1]

        await wait_for(by_the_new_one)
        assert await server.stop() == 0
        assert not alive(server.workers)


async def test_workers_end_when_their_supervisor_is_killed(database_url: str) -> None:
    async with replica(database_url, *TWO) as server:
        workers = await both_started(server)
        server.process.kill()

        async def gone() -> bool:
            return not alive(workers)

        await wait_for(gone)


async def test_errors_of_each_worker_are_reported_once(database_url: str, tmp_path: Any) -> None:
    async def run(*argv: str, **environ: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "riverui", "serve", *argv),
            env={"PATH": os.environ["PATH"], "DATABASE_URL": database_url, **environ},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await process.communicate()
        return process.returncode, err.decode()

    missing = str(tmp_path / "users")
    code, told = await run(*TWO, PORT=str(free_port()), RIVERUI_HTPASSWD_FILE=missing)
    assert (code, len(told.splitlines())) == (2, 1)
    assert missing in told
    for number in ("0", "65", "-1", "many"):
        code, told = await run(f"--workers={number}")
        assert code == 2
        assert "workers" in told
