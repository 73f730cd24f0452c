"""Jobs and queues go from one database to another, as they are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import riverui
from riverui.actions.copying import copy_all
from riverui.domain.figures import Tally
from riverui.domain.findings import Level
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.domain.jobs import JobRow, JobState, state_bits
from riverui.domain.periodic import NextRun
from riverui.domain.queues import QueueRow
from riverui.domain.sketch import Sketch
from riverui.domain.time import FIRST, LAST
from riverui.errors import BadRequest
from riverui.features.dead_letters.store import DeadJobListParams, DeadLetterStore
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.features.error_groups.domain.groups import (
    ErrorDecision,
    ErrorGroupSighting,
    ErrorState,
)
from riverui.features.error_groups.store import ErrorGroupStore
from riverui.features.figures.domain import Rollup, Waiting
from riverui.features.figures.store import RollupStore
from riverui.features.incidents.domain import Incident
from riverui.features.incidents.store import IncidentStore
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobDeleteBeforeParams, JobSelectParams
from riverui.testing import MemoryDatabase
from tests.contract.seeds import ENDS, NOW, ended, insert, job, running
from tests.drivers import connect

DAY = timedelta(days=1)


async def all_of(driver: Driver) -> tuple[list[JobRow], list[QueueRow]]:
    """Return all jobs and queues."""
    async with driver.reading() as executor:
        rows = await executor.jobs.row_list(JobSelectParams(limit=10_000))
        return list(rows), list(await executor.queues.row_list())


async def test_there_and_back(database_url: str) -> None:
    source, postgres, back = MemoryDatabase(), connect(database_url), MemoryDatabase()
    await insert(source, *[job(args=f'{{"n":{n}}}', tags=("a",)) for n in range(700)])
    await running(source, job("runs", queue="other"))
    for state in (*ENDS, JobState.RETRYABLE):
        await ended(source, state, job(f"is_{state}", queue=f"of_{state}"))
    async with source.transaction() as transaction:
        await transaction.queues.upsert("q")
        await transaction.queues.set_metadata_key("q", "a", "1")
        await transaction.queues.pause("q")
    steps: list[int] = []
    report = await copy_all(source, postgres, copied=steps.append)
    assert (report.complete, report.copied, steps) == (True, 705, [500, 205])
    report = await copy_all(postgres, back, copied=steps.append)
    assert report.complete
    rows, queues = await all_of(back)
    # Postgres prints JSON with spaces.
    before, queues_before = await all_of(source)
    assert [row._replace(args="", metadata="") for row in rows] == [
        row._replace(args="", metadata="") for row in before
    ]
    assert [row.args_dict for row in rows] == [row.args_dict for row in before]
    assert [queue.paused_at for queue in queues] == [queue.paused_at for queue in queues_before]
    await postgres.close()


async def test_a_copy_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    source, target = MemoryDatabase(), riverui.connect(f"sqlite:///{tmp_path}/jobs.db")
    await riverui.migrate(target)
    await insert(source, *[job()] * 1_200)

    def fail(copied: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await copy_all(source, target, copied=fail)
    with pytest.raises(BadRequest, match="--resume"):
        await copy_all(source, target, copied=fail)
    report = await copy_all(source, target, resume=True, copied=lambda _: None)
    assert (report.complete, report.copied) == (True, 700)
    await insert(target, job("own"))
    with pytest.raises(BadRequest, match="jobs of its own"):
        await copy_all(source, target, resume=True, copied=lambda _: None)


async def test_what_riverui_keeps_goes_along(database_url: str, own_tables: None) -> None:
    source, postgres, back = MemoryDatabase(), connect(database_url), MemoryDatabase()
    gone = JobDeleteBeforeParams(
        cancelled_before=None, completed_before=None, discarded_before=NOW + DAY, limit=999
    )
    states = state_bits([JobState.RUNNING])
    key: dict[str, Any] = {"unique_key": b"\x01\xff", "unique_states": states}
    await ended(source, JobState.DISCARDED, *[job(args='{"a": "ü"}', tags=("t",), **key)])
    await ended(source, JobState.DISCARDED, *[job(f"kind_{n}") for n in range(250)])
    minute = Rollup(
        at=NOW.replace(second=0, microsecond=0),
        span=timedelta(minutes=1),
        pairs={("q", "k"): Tally(completed=2, run=Sketch.from_spans([timedelta(seconds=3)] * 2))},
        waiting={"": Waiting(jobs=1, capped=True, oldest=timedelta(seconds=1))},
    )
    async with source.transaction() as tx:
        assert await DeadLetterStore(tx).dead_job_move_before(gone) == 251
        await RollupStore(tx).rollup_put([minute])
        await MarkStore(tx).mark_insert(MarkInsertParams(label="v1"), within=timedelta(0))
        await DurablePeriodicStore(tx).durable_periodic_save([NextRun("p", NOW, None)])
        incident = Incident(
            id="i",
            cause=Cause.DEPLOY,
            subject=Subject(),
            level=Level.WARN,
            title="t",
            headline="",
            opened_at=NOW,
            found_at=NOW,
            seen_at=NOW,
        )
        await IncidentStore(tx).incident_save(incident)
        sighting = ErrorGroupSighting(
            fingerprint="f", title="t", first_at=NOW, last_at=NOW, number=1, sample_job_id=1
        )
        await SequenceStore(tx).sequence_claim(["a\nb", "c"])
        await SequenceStore(tx).sequence_put([("a\nb", 7)], [("a\nb", 9), ("c", 8)])
        decision = ErrorDecision(state=ErrorState.RESOLVED, old_releases=("v1",))
        await ErrorGroupStore(tx).error_group_decide(sighting, decision, username="ada")
    for one, other in ((source, postgres), (postgres, back)):
        report = await copy_all(one, other, copied=lambda _: None)
        assert report.own_rows == 251 + len([*minute.rows()]) + 8
        # Again, as after an interruption.
        await copy_all(one, other, resume=True, copied=lambda _: None)
        assert await kept(other) == await kept(source)
    await postgres.close()


async def kept(driver: Driver) -> list[Any]:
    """Return what riverui keeps."""
    async with driver.reading() as executor:
        whole = DeadJobListParams(limit=1_000)
        letters = await DeadLetterStore(executor).dead_job_whole_list(whole)
        rollups = await RollupStore(executor).rollup_part_list(
            timedelta(minutes=1), since=NOW - DAY, until=NOW + DAY
        )
        return [
            [(each.died_at, each.job._replace(args="", metadata="")) for each in letters],
            [(rollup.at, rollup.weight, rollup.waiting) for rollup in rollups],
            list(await MarkStore(executor).mark_list(since=FIRST, until=LAST, limit=9)),
            list(await DurablePeriodicStore(executor).durable_periodic_list(limit=9)),
            list(await IncidentStore(executor).incident_open_list()),
            list(await ErrorGroupStore(executor).error_group_list(["f"])),
            list(await SequenceStore(executor).sequence_list_heads(after="", limit=9)),
        ]
