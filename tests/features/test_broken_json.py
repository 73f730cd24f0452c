"""Features read a job in a SQLite file whose JSON is broken, and so stop for no other job."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from riverui.domain.jobs import JobState
from riverui.domain.partitions import Partition
from riverui.features.dead_letters.store import DeadJobListParams, DeadLetterStore
from riverui.features.error_groups.failed_jobs import FailedJobStore
from riverui.features.figures.store import JobFigures
from riverui.features.heartbeats.store import ClientStore
from riverui.features.sequences.store import SequenceStore
from riverui.storage.connect import connect
from riverui.storage.interface.engine_params import JobDeleteBeforeParams, JobFetchParams
from riverui.storage.sqlite.file import Connection
from riverui.storage.stores.candidates import CandidateStore
from tests.features.both import SqliteMake, file

__all__ = ["file"]

BROKEN = dict.fromkeys(("args", "attempted_by", "errors", "metadata", "tags"), "{broken")


async def test_every_feature_reads_it(file: Path) -> None:
    now = datetime.now(UTC)
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        make = SqliteMake(Connection(raw))
        ids = {state: await make.job(state) for state in ("available", "running", "retryable")}
        ids["discarded"] = await make.job("discarded", finalized_at=now - timedelta(days=9))
        ids["completed"] = await make.job("completed", attempt=2)
        for name, text in BROKEN.items():
            raw.execute(f"update river_job set {name} = ?", [text])
    driver, by = connect(f"sqlite:///{file}"), Partition(by_args=("n",))
    everything = list(ids.values())
    async with driver.transaction() as tx:
        candidates = CandidateStore(tx)
        params = JobFetchParams(client_id="me", queue="default", limit=5)
        (found,) = await candidates.job_candidate_list(params, [by], window=9)
        assert found.keys[by] == '{"n": null}'
        (claimed,) = await candidates.job_claim(params, [found.id])
        assert claimed.attempted_by[-1] == "me"
        errors = await FailedJobStore(tx).job_error_list(everything)
        assert {row.id for row in errors} == {ids["retryable"], ids["discarded"]}
        await FailedJobStore(tx).recovered_job_list(now + timedelta(hours=1), looked_at=9, limit=9)
        seen = await ClientStore(tx).client_seen_list(cap=9, newest=9, held=9, limit=9)
        assert [client.id for client in seen] == ["me"]
        minutes = [(now - timedelta(days=10), now + timedelta(hours=1))]
        await JobFigures(tx).job_ended_failure_list(minutes)
        await JobFigures(tx).job_unfinished_failure_list(now - timedelta(days=10))
        sequences = SequenceStore(tx)
        assert await sequences.sequence_key_get_many(everything) == {}
        assert await sequences.sequence_place(ids["completed"]) is None
        await sequences.sequence_claim(["k"])
        await sequences.sequence_put([("k", ids["completed"])], [("k", ids["retryable"])])
        assert list(await sequences.sequence_advance(["k"])) == ["k"]
        letters = DeadLetterStore(tx)
        old = JobDeleteBeforeParams(
            cancelled_before=None, completed_before=None, discarded_before=now, limit=9
        )
        assert await letters.dead_job_move_before(old) == 1
        kept = await letters.dead_job_keep_many([ids["completed"]], user="ada")
        assert list(kept.changes.changed) == [ids["completed"]]
        await tx.jobs.delete_many(kept.changes.changed)
        assert len((await letters.dead_job_list(DeadJobListParams())).rows) == 2
        for field in ("args", "errors", "metadata", "output", "job"):
            await letters.dead_job_text_piece(ids["discarded"], field, size=99)
        assert await letters.dead_job_get(ids["discarded"]) is not None
        assert await letters.dead_job_text_get(ids["discarded"]) is not None
        assert await letters.dead_job_row_get(ids["discarded"]) is not None
        undone = await letters.dead_job_undo_many([ids["completed"]])
        assert list(undone.changed) == [ids["completed"]]
        back = await letters.dead_job_restore_many([ids["discarded"]])
        assert list(back.changed) == [ids["discarded"]]
        row = await tx.jobs.row_get(ids["discarded"])
        assert row is not None
        assert row.state is JobState.DISCARDED
    await driver.close()
