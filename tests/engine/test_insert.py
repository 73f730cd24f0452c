"""From args and options to rows: River's precedence, limits and checks, and the throttle on
wake-ups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar
from weakref import ref

import pytest

from riverui.domain.jobs import JobState
from riverui.engine.args.job_args import JsonArgs, encode
from riverui.engine.args.unique import unique_key, uniqueness
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import (
    InsertManyParams,
    InsertOpts,
    InsertRequest,
    UniqueOpts,
)
from riverui.engine.insert.job_builder import JobBuilder, NotifyLimiter, available_queues
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.errors import ArgsError, InsertError, UnknownJobKind
from riverui.storage.interface.engine_params import JobInsertParams

NOW = datetime(2026, 8, 7, 19, 34, 56, 789_000, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    strings: list[str]


@dataclass
class Opinionated:
    kind: ClassVar[str] = "opinionated"
    n: int = 0

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(
            max_attempts=3,
            metadata={"ignored": True},
            pending=True,
            priority=2,
            queue="own",
            tags=["from_args"],
            unique_opts=UniqueOpts(by_args=True),
        )


@dataclass
class Scheduled:
    kind: ClassVar[str] = "scheduled"

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(scheduled_at=LATER)


def builder(config: ClientConfig | None = None, *, enforce_unique: bool = True) -> JobBuilder:
    limiter = NotifyLimiter(timedelta(seconds=1))
    return JobBuilder(config or ClientConfig(), lambda: NOW, limiter, enforce_unique=enforce_unique)


def row_of(
    args: Any, opts: InsertOpts | None = None, *, by: JobBuilder | None = None
) -> JobInsertParams:
    """Return the row, which is the same with and without hooks, and for each of several such
    jobs.
    """
    by = by or builder()
    row = by.finish(by.prepare(args, opts))
    assert by.rows([args if opts is None else InsertManyParams(args, opts)] * 3) == [row] * 3
    return row


def test_a_job_without_any_options() -> None:
    assert row_of(Sort(["b", "a"])) == JobInsertParams(
        kind="sort", args='{"strings":["b","a"]}', created_at=NOW, scheduled_at=NOW
    )


def test_the_client_says_how_many_attempts() -> None:
    assert row_of(Sort([]), by=builder(ClientConfig(max_attempts=7))).max_attempts == 7


def test_args_have_options_of_their_own() -> None:
    unique = uniqueness(UniqueOpts(by_args=True))
    assert unique is not None

    assert row_of(Opinionated()) == JobInsertParams(
        kind="opinionated",
        args='{"n":0}',
        created_at=NOW,
        scheduled_at=NOW,
        state=JobState.AVAILABLE,
        max_attempts=3,
        metadata="{}",
        priority=2,
        queue="own",
        tags=("from_args",),
        unique_key=unique_key("opinionated", unique, '{"n":0}', "own", NOW),
        unique_states=0b11110101,
    )
    assert row_of(Scheduled()).state is JobState.SCHEDULED
    assert row_of(Scheduled()).scheduled_at == LATER


def test_the_call_wins_over_the_args() -> None:
    opts = InsertOpts(
        max_attempts=9,
        metadata={"b": 1, "a": "<"},
        priority=4,
        queue="call",
        scheduled_at=LATER.astimezone(timezone(timedelta(hours=3))),
        tags=[],
        unique_opts=UniqueOpts(by_queue=True),
    )
    unique = uniqueness(opts.unique_opts)
    assert unique is not None

    row = row_of(Opinionated(), opts)
    assert row == JobInsertParams(
        kind="opinionated",
        args='{"n":0}',
        created_at=NOW,
        scheduled_at=LATER,
        state=JobState.SCHEDULED,
        max_attempts=9,
        metadata='{"a":"\\u003c","b":1}',
        priority=4,
        queue="call",
        tags=(),
        unique_key=unique_key("opinionated", unique, "", "call", LATER),
        unique_states=0b11110101,
    )
    assert row.scheduled_at.tzinfo is UTC


def test_empty_unique_options_of_the_call_leave_those_of_the_args() -> None:
    assert row_of(Opinionated(), InsertOpts(unique_opts=UniqueOpts())).unique_key is not None


@pytest.mark.parametrize(
    ("opts", "state"),
    [
        (InsertOpts(), JobState.AVAILABLE),
        (InsertOpts(scheduled_at=LATER), JobState.SCHEDULED),
        (InsertOpts(scheduled_at=NOW - timedelta(days=1)), JobState.SCHEDULED),
        (InsertOpts(pending=True), JobState.PENDING),
        (InsertOpts(pending=True, scheduled_at=LATER), JobState.PENDING),
    ],
)
def test_the_state_a_job_starts_in(opts: InsertOpts, state: JobState) -> None:
    assert row_of(Sort([]), opts).state is state


def test_a_period_is_that_of_the_scheduled_time() -> None:
    opts = UniqueOpts(by_period=timedelta(hours=1))
    now, later, same = (
        row_of(Sort([]), InsertOpts(unique_opts=opts, scheduled_at=at)).unique_key
        for at in (None, LATER, NOW + timedelta(minutes=5))
    )
    assert now == same != later


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_attempts": 0}, "max_attempts must be a whole number of at least 1, not 0"),
        ({"max_attempts": "5"}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"metadata": ["a"]}, "metadata must be a dict, not list"),
        (
            {"metadata": {"n": float("nan")}},
            "metadata cannot be written as JSON: n: JSON has no nan",
        ),
        ({"metadata": {"t": "\0"}}, "metadata cannot be written as JSON: .*NUL"),
        ({"priority": 0}, "priority must be 1, 2, 3 or 4, not 0"),
        ({"priority": 5}, "priority"),
        ({"queue": ""}, "'' is not a valid queue name"),
        ({"queue": "Upper"}, "'Upper' is not a valid queue name"),
        ({"queue": "a__b"}, "is not a valid queue name"),
        ({"queue": "a_"}, "is not a valid queue name"),
        ({"queue": "default\n"}, "is not a valid queue name"),
        ({"queue": "x" * 65}, "is not a valid queue name"),
        ({"queue": ["q"]}, "is not a valid queue name"),
        ({"scheduled_at": datetime(2026, 1, 1)}, "scheduled_at must be a time with a time zone"),  # noqa: DTZ001
        ({"scheduled_at": "tomorrow"}, "scheduled_at must be"),
        ({"tags": "one"}, "tags must be a list"),
        ({"tags": ["ab"]}, "'ab'"),
        ({"tags": ["a,b,c"]}, "a,b,c"),
        ({"tags": ["abc-"]}, "abc-"),
        ({"tags": ["abc\n"]}, "abc"),
        ({"tags": ["größe"]}, "größe"),
        ({"tags": ["x" * 256]}, "xxx"),
        ({"unique_opts": UniqueOpts(by_period=0.1)}, "by_period"),  # type: ignore[arg-type]
    ],
)
def test_options_that_river_refuses(change: dict[str, Any], words: str) -> None:
    opts = replace(InsertOpts(), **change)
    with pytest.raises(InsertError, match=words):
        builder().rows([InsertManyParams(Sort([]), opts)])
    with pytest.raises(InsertError, match=words):
        builder().prepare(Sort([]), opts)


def test_options_at_their_limits() -> None:
    opts = InsertOpts(
        max_attempts=100_000,
        priority=4,
        queue="a" * 32 + "_" + "b" * 31,
        tags=["abc", "x" * 255, "A-1_"],
    )
    row = row_of(Sort([]), opts)
    assert row.max_attempts == 100_000
    assert row.queue == opts.queue
    assert row.tags == tuple(opts.tags or ())


def test_kinds_without_a_worker_are_refused_where_there_are_workers() -> None:
    workers = Workers()

    @workers.work(Sort)
    def sort(job: Job[Sort]) -> None: ...

    config = ClientConfig(workers=workers)
    assert row_of(Sort([]), by=builder(config)).kind == "sort"
    for insert in (
        builder(config).prepare,
        lambda args: builder(config).rows([Sort([]), args]),
    ):
        with pytest.raises(
            UnknownJobKind, match="no worker for jobs of kind 'scheduled'"
        ) as caught:
            insert(Scheduled())
        assert caught.value.kind == "scheduled"
    lax = ClientConfig(workers=workers, skip_unknown_job_check=True)
    assert row_of(Scheduled(), by=builder(lax)).kind == "scheduled"


def test_every_job_of_a_batch_has_its_own_options() -> None:
    first = InsertOpts(queue="first")
    rows = builder().rows(
        [
            Sort(["a"]),
            InsertManyParams(Sort(["b"]), first),
            InsertManyParams(Opinionated(1)),
            InsertManyParams(Opinionated(2), first),
            JsonArgs("any", {"x": 1}),
            InsertManyParams(Sort(["b"]), first),
        ]
    )
    assert [(row.kind, row.queue, row.priority) for row in rows] == [
        ("sort", "default", 1),
        ("sort", "first", 1),
        ("opinionated", "own", 2),
        ("opinionated", "first", 2),
        ("any", "default", 1),
        ("sort", "first", 1),
    ]
    assert len({row.unique_key for row in rows}) == 3
    assert available_queues(rows) == ["default", "first", "own"]


def test_a_test_client_enforces_no_uniqueness() -> None:
    row = row_of(Opinionated(), by=builder(enforce_unique=False))
    assert row.unique_key is None
    assert row.unique_states == 0


def request() -> InsertRequest:
    return builder().prepare(Opinionated(5))


def test_a_request_can_be_changed_until_it_is_a_row() -> None:
    by, asked = builder(), request()
    asked.encoded_args = '{"encrypted": "abc"}'
    asked.metadata["trace"] = "x"
    asked.tags.append("more")
    asked.max_attempts = 1
    asked.queue = "elsewhere"
    asked.scheduled_at = LATER
    row = by.finish(asked)

    assert row.args == '{"encrypted": "abc"}'
    assert row.metadata == '{"trace":"x"}'
    assert row.tags == ("from_args", "more")
    assert (row.max_attempts, row.queue, row.scheduled_at, row.state) == (
        1,
        "elsewhere",
        LATER,
        "available",
    )
    # What the job is about has not changed by being encrypted.
    assert row.unique_key == row_of(Opinionated(5)).unique_key


def test_a_request_can_become_unique_or_stop_being_so() -> None:
    by, asked = builder(), request()
    asked.unique_opts = None
    assert by.finish(asked).unique_key is None

    asked = by.prepare(Sort(["x"]))
    asked.unique_opts = UniqueOpts(by_args=True)
    assert (
        by.finish(asked).unique_key
        == row_of(Sort(["x"]), InsertOpts(unique_opts=UniqueOpts(by_args=True))).unique_key
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encoded_args": "[]"}, "the encoded args of the request: args must be a JSON object"),
        ({"encoded_args": b"\x00"}, "encoded args"),
        ({"metadata": "{}"}, "metadata must be a dict"),
        ({"priority": 9}, "priority"),
        ({"queue": "No"}, "is not a valid queue name"),
        ({"tags": ["a"]}, "not a valid tag"),
        ({"scheduled_at": datetime(2026, 1, 1)}, "scheduled_at"),  # noqa: DTZ001
    ],
)
def test_a_request_is_checked_again(change: dict[str, Any], words: str) -> None:
    asked = request()
    for name, value in change.items():
        setattr(asked, name, value)
    with pytest.raises(InsertError, match=words):
        builder().finish(asked)


def test_a_request_without_metadata_has_none() -> None:
    asked = request()
    asked.metadata = None  # type: ignore[assignment]
    assert builder().finish(asked).metadata == "{}"


def test_args_that_cannot_be_written_insert_nothing() -> None:
    with pytest.raises(ArgsError, match=r"strings\.0"):
        builder().rows([Sort(["fine"]), Sort([object()])])  # type: ignore[list-item]


@dataclass
class Boundless:
    """Writes a number that Postgres keeps and Go does not."""

    kind: ClassVar[str] = "boundless"

    def to_json(self) -> str:
        return '{"n": 1e999}'


def test_args_without_a_canonical_form_cannot_be_unique() -> None:
    opts = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    assert row_of(Boundless()).args == '{"n": 1e999}'
    for insert in (
        lambda: builder().prepare(Boundless(), opts),
        lambda: builder().rows([InsertManyParams(Boundless(), opts)]),
    ):
        with pytest.raises(ArgsError, match="no inf"):
            insert()
    asked = builder().prepare(Boundless())
    asked.unique_opts = opts.unique_opts
    with pytest.raises(InsertError, match="no inf"):
        builder().finish(asked)


@dataclass
class OfficialOpts:
    """The options of River's Python client 0.7, which know fewer things."""

    max_attempts: int | None = None
    priority: int | None = None
    queue: str | None = None
    scheduled_at: datetime | None = None
    tags: Sequence[Any] | None = None
    unique_opts: Any = None


@dataclass
class OfficialUnique:
    by_args: Any = None
    by_period: int | None = None
    by_queue: Any = None
    by_state: Sequence[Any] | None = None


@dataclass
class OfficialSort:
    strings: list[str]
    kind: str = "sort"

    def to_json(self) -> str:
        return encode(Sort(self.strings))

    def insert_opts(self) -> OfficialOpts:
        return OfficialOpts(priority=3, unique_opts=OfficialUnique(by_args=True, by_period=900))


def test_args_of_the_official_client_bring_its_options() -> None:
    ours = InsertOpts(
        priority=3, unique_opts=UniqueOpts(by_args=True, by_period=timedelta(minutes=15))
    )

    assert row_of(OfficialSort(["x"])) == row_of(Sort(["x"]), ours)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_wake_ups_are_one_for_each_queue_with_work_to_do() -> None:
    rows = builder().rows(
        [
            InsertManyParams(Sort([]), InsertOpts(queue="b")),
            InsertManyParams(Sort([]), InsertOpts(queue="a")),
            InsertManyParams(Sort([]), InsertOpts(queue="b")),
            InsertManyParams(Sort([]), InsertOpts(queue="pending", pending=True)),
            InsertManyParams(Sort([]), InsertOpts(queue="later", scheduled_at=LATER)),
        ]
    )
    assert available_queues(rows) == ["b", "a"]


def test_wake_ups_are_throttled_for_each_queue_alone() -> None:
    clock = Clock()
    limiter = NotifyLimiter(timedelta(milliseconds=100), clock=clock)

    assert limiter.allow("a")
    clock.now = 0.1
    assert not limiter.allow("a")
    assert limiter.allow("b")
    clock.now = 0.1001
    assert limiter.allow("a")
    limiter.take_back(["a", "unknown"])
    assert limiter.allow("a")


class Name(str):
    """A text for which a test can check that nothing references it any more."""

    __slots__ = ("__weakref__",)


def test_the_throttle_forgets_queues_that_are_long_past() -> None:
    clock = Clock()
    limiter = NotifyLimiter(timedelta(milliseconds=100), clock=clock)
    names = []
    for n in range(2500):
        clock.now += 0.01
        name = Name(f"q{n}")
        assert limiter.allow(name)
        names.append(ref(name))
    assert sum(held() is not None for held in names) < 1100
