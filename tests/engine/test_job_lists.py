"""Lists of jobs: River's parameters, and cursors that its clients understand."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from riverui.domain.jobs import JobState
from riverui.engine.job_lists import JobDeleteManyParams, JobListCursor, JobListOrder, JobListParams
from riverui.storage.interface.engine_params import JobSelectParams

NOON = datetime(2026, 8, 7, 12, 0, 0, 120_000, tzinfo=UTC)

CURSORS = [
    (
        JobListCursor(id=1, kind="a", queue="default", sort_field=JobListOrder.ID, time=None),
        "eyJpZCI6MSwia2luZCI6ImEiLCJxdWV1ZSI6ImRlZmF1bHQiLCJzb3J0X2ZpZWxkIjoiaWQiLCJ0aW1lIjoiMDAwMS0wMS0wMVQwMDow"
        "MDowMFoifQ==",
    ),
    (
        JobListCursor(
            id=2**53 + 1,
            kind="mail<b>·ü&",
            queue="q-1",
            sort_field=JobListOrder.TIME,
            time=datetime(2026, 8, 7, 19, 0, 0, 120_000, tzinfo=UTC),
        ),
        "eyJpZCI6OTAwNzE5OTI1NDc0MDk5Mywia2luZCI6Im1haWxcdTAwM2NiXHUwMDNlwrfDvFx1MDAyNiIsInF1ZXVlIjoicS0xIiwic29y"
        "dF9maWVsZCI6InRpbWUiLCJ0aW1lIjoiMjAyNi0wOC0wN1QxOTowMDowMC4xMloifQ==",
    ),
    (
        JobListCursor(
            id=7,
            kind="k???>>>",
            queue="q",
            sort_field=JobListOrder.SCHEDULED_AT,
            time=datetime(2026, 8, 7, 19, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=2))),
        ),
        "eyJpZCI6Nywia2luZCI6Ims_Pz9cdTAwM2VcdTAwM2VcdTAwM2UiLCJxdWV1ZSI6InEiLCJzb3J0X2ZpZWxkIjoic2NoZWR1bGVkX2F0"
        "IiwidGltZSI6IjIwMjYtMDgtMDdUMTc6MDA6MDAuMTIzNDU2WiJ9",
    ),
]
"""The texts are what Go River v0.51.1 makes of them: `UnmarshalText`, then `MarshalText`."""


def select(**given: Any) -> JobSelectParams:
    found = JobListParams(**given).select()
    assert found is not None
    return found


def text_of(**changes: Any) -> str:
    """Return a cursor's text with other contents."""
    named = {
        "id": 1,
        "kind": "a",
        "queue": "q",
        "sort_field": "id",
        "time": "2026-08-07T12:00:00Z",
    } | changes
    return base64.urlsafe_b64encode(json.dumps(named).encode()).decode()


@pytest.mark.parametrize(("cursor", "text"), CURSORS)
def test_cursors_are_river_s_both_ways(cursor: JobListCursor, text: str) -> None:
    assert str(cursor) == text
    assert JobListCursor.parse(text) == cursor


def test_times_of_go_are_read_in_any_zone_and_precision() -> None:
    cursor = JobListCursor.parse(text_of(time="2026-08-07T14:00:00.120000999+02:00"))
    assert cursor.time == NOON
    assert JobListCursor.parse(text_of(time="0001-01-01T00:00:00Z")).time is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "!!!!",
        "e30=",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b"\xff\xff").decode(),
        text_of(id="1"),
        text_of(sort_field="created_at"),
        text_of(time="yesterday"),
        text_of(time="2026-08-07T12:00:00"),
        text_of(time=None),
        text_of()[:-2],
    ],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a job list cursor"):
        JobListCursor.parse(text)


def test_the_default_is_the_first_hundred_of_all_by_id() -> None:
    assert JobListParams().select() == JobSelectParams(limit=100, order="id")


@pytest.mark.parametrize(
    ("order", "states", "column", "filtered"),
    [
        ("id", None, "id", ()),
        ("scheduled_at", None, "scheduled_at", ()),
        ("finalized_at", None, "finalized_at", ("cancelled", "completed", "discarded")),
        ("finalized_at", ["completed"], "finalized_at", ("completed",)),
        ("time", None, "scheduled_at", ()),
        ("time", ["available"], "scheduled_at", ("available",)),
        ("time", ["retryable", "completed"], "scheduled_at", ("retryable", "completed")),
        ("time", ["running"], "attempted_at", ("running",)),
        ("time", ["completed", "running"], "finalized_at", ("completed", "running")),
        ("time", ["cancelled"], "finalized_at", ("cancelled",)),
        ("time", ["discarded"], "finalized_at", ("discarded",)),
    ],
)
def test_the_column_of_an_order_depends_on_the_first_state(
    order: str, states: list[str] | None, column: str, filtered: tuple[str, ...]
) -> None:
    found = select(order_by=order, states=states)
    assert (found.order, found.states) == (column, tuple(JobState(state) for state in filtered))


@pytest.mark.parametrize("states", [["available"], ["completed", "running"]])
def test_unfinished_jobs_cannot_be_ordered_by_their_end(states: list[str]) -> None:
    with pytest.raises(ValueError, match=r"(available|running) have no finalized_at"):
        JobListParams(order_by="finalized_at", states=states)


@pytest.mark.parametrize("first", [0, -1, 10_001])
def test_a_page_has_1_to_10_000_jobs(first: int) -> None:
    for params in (JobListParams, JobDeleteManyParams):
        with pytest.raises(ValueError, match="1 to 10,000"):
            params(first=first, ids=[1]) if params is JobDeleteManyParams else params(first=first)


def test_filters_are_handed_on() -> None:
    found = select(
        ids=[1, 2],
        kinds={"mail"},
        metadata={"customer": {"id": 7}},
        priorities=[1],
        queues=["q"],
        tags_all=["a"],
        tags_any=("b", "c"),
        descending=True,
        first=5,
    )
    assert found == JobSelectParams(
        ids=(1, 2),
        kinds=("mail",),
        metadata='{"customer":{"id":7}}',
        priorities=(1,),
        queues=("q",),
        tags_all=("a",),
        tags_any=("b", "c"),
        descending=True,
        limit=5,
    )
    assert select(metadata='{"as": "it is"}').metadata == '{"as": "it is"}'


@pytest.mark.parametrize("name", ["ids", "kinds", "priorities", "queues", "states", "tags_any"])
def test_an_empty_filter_lets_nothing_pass(name: str) -> None:
    # A program that has computed no id at all does not mean every job.
    nothing: dict[str, Any] = {name: []}
    assert JobListParams(**nothing).select() is None
    assert select(tags_all=[]) == JobSelectParams()


@pytest.mark.parametrize("name", ["ids", "kinds", "priorities", "queues", "states"])
def test_an_empty_filter_deletes_nothing(name: str) -> None:
    nothing: dict[str, Any] = {name: []}
    assert JobDeleteManyParams(**nothing).select() is None
    nothing["kinds" if name != "kinds" else "queues"] = ["some"]
    assert JobDeleteManyParams(**nothing).select() is None


def test_deleting_without_any_filter_has_to_be_meant() -> None:
    with pytest.raises(ValueError, match="unsafe_all"):
        JobDeleteManyParams()
    with pytest.raises(ValueError, match="unsafe_all"):
        JobDeleteManyParams(unsafe_all=True, kinds=["a"])
    assert JobDeleteManyParams(unsafe_all=True).select() == JobSelectParams()
    assert JobDeleteManyParams(states=["completed"], first=7).select() == JobSelectParams(
        states=(JobState.COMPLETED,), limit=7
    )


def test_a_cursor_belongs_to_its_order() -> None:
    by_time = JobListCursor(id=3, kind="a", queue="q", sort_field=JobListOrder.TIME, time=NOON)
    assert select(order_by="time", after=by_time).after == (NOON, 3)
    assert select(order_by="time", after=str(by_time)).after == (NOON, 3)
    with pytest.raises(ValueError, match="ordered by time, not id"):
        select(after=by_time)
    by_id = JobListCursor(id=3, kind="a", queue="q", sort_field=JobListOrder.ID, time=None)
    assert select(after=by_id).after == (None, 3)
