"""All matching jobs by filter, as the dashboard does it, beside River UI's way: one statement for
each id.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from bench.cases import default_order
from bench.stopwatch import stopwatch
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.features.operations.runner import Operations
from riverui.features.operations.store import Operation, OperationStatus
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count
from riverui.web.config import DashboardConfig

JOBS = (1_000, 10_000)
"""Jobs of one action: as many as one call takes, and ten times that."""

# What each verb is asked for most, and what it changes.
_VERBS = {
    CANCEL: (
        JobState.AVAILABLE,
        (
            "update river_job j set state = 'cancelled', finalized_at = now(), metadata ="
            " jsonb_set(j.metadata, '{cancel_attempted_at}', to_jsonb(now())) from (select id,"
            " pg_notify('public.river_control', json_build_object('job_id', id)::text) from locked)"
            " l where j.id = l.id and j.state <> 'running' and j.finalized_at is null returning j.*"
        ),
    ),
    RETRY: (
        JobState.DISCARDED,
        (
            "update river_job j set state = 'available', finalized_at = null, scheduled_at = now(),"
            " max_attempts = case when j.attempt = j.max_attempts then j.max_attempts + 1 else"
            " j.max_attempts end from locked l where j.id = l.id and j.state <> 'running'"
            " returning j.*"
        ),
    ),
    DELETE: (
        JobState.COMPLETED,
        (
            "delete from river_job j using locked l where j.id = l.id and j.state <> 'running'"
            " returning j.*"
        ),
    ),
}
# River's client does the same for each id: it locks the row, changes it, and gives it back either
# way.
_ONE = """
with locked as (select id from river_job where id = %(id)s for update), changed as ({change})
select * from changed union select * from river_job where id = %(id)s and id not in (select id from
changed)
"""
_SUPPLY = """
insert into river_job (state, attempt, max_attempts, attempted_at, finalized_at, scheduled_at,
args, errors,
  kind, metadata, tags)
select state, attempt, max_attempts, attempted_at, finalized_at, scheduled_at, args, errors,
%(kind)s,
  metadata, tags
from river_job where state = %(state)s::text::river_job_state order by queue limit %(jobs)s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkFigures:
    """One verb on the same number of jobs both ways, in milliseconds."""

    verb: JobVerb
    jobs: int
    ours: float
    """Of all statements; the pauses between them, which are there for the workers' sake, left out.
    """
    ours_with_pauses: float
    loop: float
    longest: float
    """Of our statements."""


async def measure_bulk(
    driver: Driver,
    plain: psycopg.AsyncConnection[TupleRow],
    *,
    sizes: Sequence[int] = JOBS,
    repeats: int = 5,
) -> list[BulkFigures]:
    """Each verb on fresh jobs, both ways in turns; medians. Leaves the table as it was."""
    figures = [await _verb(driver, plain, verb, jobs, repeats) for verb in _VERBS for jobs in sizes]
    await plain.execute("vacuum (analyze) river_job")
    return figures


async def _verb(
    driver: Driver, plain: psycopg.AsyncConnection[TupleRow], verb: JobVerb, jobs: int, repeats: int
) -> BulkFigures:
    state, change = _VERBS[verb]
    statement = _ONE.format(change=change).encode()
    ours, with_pauses, loop, longest = [], [], [], 0.0
    operations = Operations(driver, DashboardConfig(), name="bench", pilot=plain_pilot())
    for _ in range(repeats):
        for kind in ("bulk_ours", "bulk_loop"):
            await plain.execute(_SUPPLY, {"kind": kind, "state": state, "jobs": jobs})
        await plain.execute("analyze river_job")
        async with driver.reading() as executor:
            cutoff = await executor.jobs.cutoff()
        with stopwatch() as watch:
            start = time.perf_counter()
            operation = await operations.start(
                Operation(
                    id=f"{verb.name}-{time.monotonic_ns()}",
                    verb=verb.name,
                    query=f"state:{state} kind:bulk_ours",
                    order=default_order(state),
                    cutoff=cutoff,
                    total=Count(value=jobs),
                    allowed=verb.right,
                )
            )
            await operations.held[operation.id]
            with_pauses.append((time.perf_counter() - start) * 1000)
            ours.append(watch.total)
            longest = max(longest, watch.longest)
        operation = await operations.get(operation.id) or operation
        assert operation.status is OperationStatus.DONE, operation.error
        assert operation.changed == jobs, operation
        cursor = await plain.execute("select id from river_job where kind = 'bulk_loop'")
        ids = [row[0] for row in await cursor.fetchall()]
        with stopwatch() as watch:
            async with plain.transaction():
                for job_id in ids:
                    await plain.execute(statement, {"id": job_id})
            loop.append(watch.total)
        await plain.execute("delete from river_job where kind in ('bulk_ours', 'bulk_loop')")
    return BulkFigures(
        verb=verb,
        jobs=jobs,
        ours=statistics.median(ours),
        ours_with_pauses=statistics.median(with_pauses),
        loop=statistics.median(loop),
        longest=longest,
    )
