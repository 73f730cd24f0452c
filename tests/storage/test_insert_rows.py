"""What the fast path of inserts makes is what the constructors make."""

from __future__ import annotations

from datetime import UTC, datetime

from riverui.domain.jobs import JobRow, JobState
from riverui.storage.interface import insert_rows
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams

NOW = datetime(2026, 11, 24, 9, 0, tzinfo=UTC)
LATER = datetime(2026, 11, 24, 10, 0, tzinfo=UTC)
PARAMS = JobInsertParams(
    kind="mail",
    args='{"to":1}',
    created_at=NOW,
    scheduled_at=LATER,
    state=JobState.SCHEDULED,
    max_attempts=40_000,
    metadata='{"a":1}',
    priority=3,
    queue="mails",
    tags=("one", "two"),
    unique_key=b"key",
    unique_states=0b11110101,
)


def test_rows_of_other_args() -> None:
    assert insert_rows.rows_like(PARAMS, str)(7) == PARAMS._replace(args="7")
    made = insert_rows.unique_rows_like(PARAMS)("{}", b"other")
    assert made == PARAMS._replace(args="{}", unique_key=b"other")
    assert type(made) is JobInsertParams


def test_columns() -> None:
    other = PARAMS._replace(args="{}", unique_key=None)
    assert insert_rows.columns([PARAMS, other]) == {
        name: (getattr(PARAMS, name), getattr(other, name)) for name in PARAMS._fields
    }


def test_rows_of_inserted_jobs() -> None:
    job = JobRow(
        id=5,
        state=JobState.SCHEDULED,
        attempt=0,
        max_attempts=32_767,
        attempted_at=None,
        created_at=NOW,
        finalized_at=None,
        scheduled_at=LATER,
        priority=3,
        args='{"to":1}',
        attempted_by=(),
        errors=(),
        kind="mail",
        metadata='{"a":1}',
        queue="mails",
        tags=("one", "two"),
        unique_key=b"key",
        unique_states=0b11110101,
    )
    (found,) = insert_rows.results([PARAMS], [5], 32_767)
    assert found == InsertResult(job, False)
    assert (type(found), type(found.job)) == (InsertResult, JobRow)
