"""What Postgres itself can do on River's tables: the upper bound for every client."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime

import psycopg

from bench.engine.drain import Drain, Latency, lap

_COLUMNS = (
    "args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags"
)
_COPY = f"copy river_job ({_COLUMNS}) from stdin"
_SUPPLY = (
    "insert into river_job (args, kind, max_attempts) select '{\"num\": 1}', 'benchmark', 25"
    " from generate_series(1, %s)"
)
# Fetches and completes as River does, batch after batch, each its own transaction, and no client to
# wait for.
_LOOP = """
do $$
declare ids bigint[];
begin
  loop
    with locked as (
      select id from river_job where state = 'available' and queue = 'default' and scheduled_at <=
      now()
      order by priority, scheduled_at, id limit 1000 for update skip locked
    ), taken as (
      update river_job j set state = 'running', attempt = attempt + 1, attempted_at = now(),
        attempted_by = array_append(attempted_by, 'floor')
      from locked where j.id = locked.id returning j.id
    ) select array_agg(id) into ids from taken;
    commit;
    exit when ids is null;
    update river_job set state = 'completed', finalized_at = clock_timestamp()
    where id = any(ids) and state = 'running';
    commit;
  end loop;
end $$
"""
_FETCH = """
with locked as (
  select id from river_job where state = 'available' and queue = 'default' and scheduled_at <= now()
  order by priority, scheduled_at, id limit 100 for update skip locked
)
update river_job j set state = 'running', attempt = attempt + 1, attempted_at = now(),
  attempted_by = array_append(attempted_by, 'floor')
from locked where j.id = locked.id returning j.id
"""
_INSERT = """
with inserted as (
  insert into river_job (args, kind, max_attempts) values ('{"num": 1}', 'benchmark', 25) returning
  id
) select id, pg_notify('bench_insert', '{"queue": "default"}') from inserted
"""


def sql_loop(url: str, jobs: int, *, backends: int = 2) -> Drain:
    """Let two backends work the jobs off in plpgsql; return the figures."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SUPPLY, [jobs])
        connection.execute("vacuum (analyze) river_job")
    connections = [psycopg.connect(url, autocommit=True) for _ in range(backends)]
    threads = [threading.Thread(target=each.execute, args=(_LOOP,)) for each in connections]
    with lap() as working:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    left = (
        connections[0]
        .execute("select count(*) from river_job where state <> 'completed'")
        .fetchone()
    )
    for each in connections:
        each.close()
    if left != (0,):
        raise SystemExit(f"the loop left {left} of {jobs} jobs")
    return Drain(jobs=jobs, working=working.seconds)


def raw_copy(url: str, jobs: int, *, batch: int) -> float:
    """Return the rows a second that psycopg's COPY brings into River's table, in transactions of so
    many.
    """
    now = datetime.now(UTC).isoformat()
    with psycopg.connect(url, autocommit=True) as connection:
        with lap() as inserting:
            for start in range(0, jobs, batch):
                lines = [
                    '{"num":'
                    f" {number}}}\t{now}\tbenchmark\t25\t{{}}\t1\tdefault\t{now}\tavailable\t{{}}\n"
                    for number in range(start, min(start + batch, jobs))
                ]
                with connection.cursor().copy(_COPY) as copy:
                    copy.write("".join(lines))
        return jobs / inserting.seconds


async def listen_loop(url: str, *, samples: int, pause: float) -> Latency:
    """Insert a job with a NOTIFY on one connection, hear it on another, fetch the job on a third;
    return the figures.
    """
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as inserting,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as listening,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as fetching,
    ):
        await listening.execute("listen bench_insert")
        arrived: asyncio.Queue[float] = asyncio.Queue()

        async def work() -> None:
            async for _ in listening.notifies():
                rows = await (await fetching.execute(_FETCH)).fetchall()
                for _ in rows:
                    arrived.put_nowait(time.perf_counter())

        working = asyncio.create_task(work())
        times = []
        for _ in range(samples):
            start = time.perf_counter()
            await inserting.execute(_INSERT)
            times.append(await arrived.get() - start)
            await asyncio.sleep(pause)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return Latency.from_seconds(times)
