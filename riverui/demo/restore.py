"""Writes the past of the demo's shop into a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.demo.shop import QUEUES
from riverui.domain.jobs import AttemptError, JobRow, JsonText
from riverui.domain.queues import QueueRow
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.storage.connect import connect
from riverui.storage.interface.engine_params import JobSelectParams

FIRST_ID = 4_812_000
"""The id of the first job, as in a database that is not new."""
_LAST = 1_000
"""Jobs with the highest ids among which the newest is: incidents add old ones."""
Encode = Callable[[object], str]


async def restore(
    url: str,
    rows: Callable[[datetime | None], Sequence[Mapping[str, Any]]],
    encode: Encode,
    *,
    paused_at: Mapping[str, datetime] | None = None,
    marks: Sequence[tuple[datetime, str]] = (),
) -> None:
    """Insert the jobs that `rows` returns for the time of the newest one, and marks. An empty
    database gets the shop's queues, some of them paused.
    """
    driver = connect(url)
    try:
        async with driver.transaction() as db:
            found = await db.jobs.row_list(JobSelectParams(limit=_LAST, descending=True))
            first = found[0].id + 1 if found else FIRST_ID
            jobs = rows(max((row.created_at for row in found), default=None))
            await db.jobs.restore_many(
                [_job(row, number, encode) for number, row in enumerate(jobs, first)]
            )
            if not found:
                await db.queues.restore_many(_queues(paused_at or {}))
            for at, label in marks:
                mark = MarkInsertParams(label=label, at=at)
                await MarkStore(db).mark_insert(mark, within=timedelta(0))
    finally:
        await driver.close()


def _job(row: Mapping[str, Any], id: int, encode: Encode) -> JobRow:
    """Return a job, without its unique key, which a living one may hold."""
    errors = [AttemptError(**error) for error in row.get("errors", ())]
    return JobRow(
        id=id,
        state=row["state"],
        attempt=row.get("attempt", 0),
        max_attempts=row["max_attempts"],
        attempted_at=row.get("attempted_at"),
        created_at=row["created_at"],
        finalized_at=row.get("finalized_at"),
        scheduled_at=row["scheduled_at"],
        priority=row["priority"],
        args=encode(row["args"]),
        attempted_by=tuple(row.get("attempted_by", ())),
        errors=tuple(errors),
        kind=row["kind"],
        metadata=encode(row["metadata"]),
        queue=row["queue"],
        tags=tuple(row["tags"]),
        unique_key=None,
        unique_states=0,
    )


def _queues(paused_at: Mapping[str, datetime]) -> list[QueueRow]:
    now = datetime.now(UTC)
    return [
        QueueRow(
            name=queue.name,
            created_at=now - timedelta(days=41),
            metadata=JsonText(text="{}", size=2),
            paused_at=paused_at.get(queue.name),
            updated_at=now,
        )
        for queue in QUEUES
    ]
