"""Args and unique keys next to the real Go River: the same bytes, the same keys, the same jobs left
out.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.engine.args.job_args import JsonArgs, JsonText, Unique, decoder, encode, kind_of
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.insert.job_builder import JobBuilder, NotifyLimiter
from riverui.storage.interface import Driver
from tests.interop.worker import built

pytestmark = pytest.mark.interop

AT = datetime(2026, 8, 7, 19, 34, 56, 789_012, tzinfo=UTC)


class GoInserter:
    """Go's side, asked one thing at a time."""

    def __init__(self, binary: Path, *flags: str) -> None:
        self._process = subprocess.Popen(
            [binary, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer; AssertionError with Go's words."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def texts(self, **request: Any) -> list[str]:
        """Return what json.Marshal gives."""
        texts: list[str] = self.ask(**request).get("texts", [])
        return texts

    def insert(
        self, jobs: Sequence[InsertManyParams], *, keep: bool = False
    ) -> list[dict[str, Any]]:
        """Insert the same jobs through Go."""
        inserted: list[dict[str, Any]] = self.ask(jobs=[told(job) for job in jobs], keep=keep)[
            "inserted"
        ]
        return inserted

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


def told(job: InsertManyParams) -> dict[str, Any]:
    """Return a job as the Go program takes it; the args as text, which Go must be able to read into
    its struct.
    """
    opts = job.insert_opts or InsertOpts()
    unique = opts.unique_opts or UniqueOpts()
    period = (
        unique.by_period.total_seconds()
        if isinstance(unique.by_period, timedelta)
        else unique.by_period
    )
    said = {
        "kind": kind_of(job.args),
        "args": encode(job.args),
        "queue": opts.queue or "",
        "unique": {
            "by_args": bool(unique.by_args),
            "by_period": period or 0,
            "by_queue": unique.by_queue,
            "by_state": None
            if unique.by_state is None
            else [str(state) for state in unique.by_state],
            "exclude_kind": unique.exclude_kind,
        },
    }
    return said | ({"scheduled_at": opts.scheduled_at.isoformat()} if opts.scheduled_at else {})


@pytest.fixture(scope="session")
def unique_program() -> Path:
    return built("unique")


@pytest.fixture(scope="module")
def marshal(unique_program: Path) -> Iterator[GoInserter]:
    """Only for its json.Marshal."""
    go = GoInserter(unique_program)
    yield go
    go.close()


@pytest.fixture
def go(unique_program: Path, database_url: str) -> Iterator[GoInserter]:
    """On this test's database."""
    go = GoInserter(unique_program, f"-database-url={database_url}")
    yield go
    go.close()


# What Go's json.Marshal gives.

_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
_numbers = st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner) | st.dictionaries(_texts, inner),
    max_leaves=20,
)
_quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(_quick, max_examples=200)
@given(st.lists(_numbers, min_size=50, max_size=100))
def test_numbers_are_written_as_go_writes_them(marshal: GoInserter, numbers: list[float]) -> None:
    bits = [struct.pack(">d", number).hex() for number in numbers]

    assert marshal.texts(bits=bits) == [encode(JsonArgs("k", {"n": n}))[5:-1] for n in numbers]


@settings(_quick, max_examples=200)
@given(st.lists(_json, min_size=1, max_size=10))
def test_any_json_is_written_as_go_writes_it(marshal: GoInserter, values: list[Any]) -> None:
    # repr's digits are exact, so Go reads the very same numbers.
    assert marshal.texts(texts=values) == [encode(JsonArgs("k", {"v": v}))[5:-1] for v in values]


@settings(_quick, max_examples=50)
@given(
    st.lists(
        st.datetimes(
            min_value=datetime(1, 1, 3),  # noqa: DTZ001
            max_value=datetime(9999, 12, 29),  # noqa: DTZ001
            timezones=st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
            | st.just(UTC),
        ),
        min_size=20,
        max_size=50,
    )
)
def test_times_are_written_as_go_writes_them(marshal: GoInserter, times: list[datetime]) -> None:
    said = [json.loads(encode(JsonArgs("k", {"t": at})))["t"] for at in times]

    assert marshal.texts(times=said) == [f'"{text}"' for text in said]


# Structs of Go and their counterparts; see go/unique/kinds.go.


@dataclass
class Subset:
    kind: ClassVar[str] = "subset"
    recipient: Annotated[str, Unique]
    body: str = "b"
    count: Annotated[int, Unique] = field(default=0, metadata={"json": "count,omitempty"})
    upper: Annotated[str | None, Unique] = field(default=None, metadata={"json": "Upper"})


@dataclass
class Customer:
    id: Annotated[int, Unique]
    name: str = "n"


@dataclass
class Account:
    region: Annotated[str, Unique]
    customer: Customer | None = None


@dataclass
class Nested:
    kind: ClassVar[str] = "nested"
    trace: str
    account: Account
    customer: Annotated[Customer | None, Unique] = None
    at: Annotated[datetime, Unique] = AT


@dataclass
class Base:
    shard: Annotated[int, Unique]
    label: str


@dataclass
class Embedded(Base):
    kind: ClassVar[str] = "embedded"
    id: Annotated[int, Unique] = 7


@dataclass
class Address:
    street: str
    lines: list[str]


@dataclass
class Whole:
    kind: ClassVar[str] = "whole"
    address: Annotated[Address, Unique]
    tags: Annotated[dict[str, int], Unique]
    other: str = "o"


@dataclass
class InnerKey:
    value: Annotated[str, Unique] = field(metadata={"json": "inner@key"})


@dataclass
class Literally:
    kind: ClassVar[str] = "literal"
    ampersand: Annotated[str, Unique] = field(default="1", metadata={"json": "a&b"})
    bang: Annotated[str, Unique] = field(default="2", metadata={"json": "!bang"})
    colon: Annotated[str, Unique] = field(default="3", metadata={"json": ":x"})
    dollar: Annotated[str, Unique] = field(default="4", metadata={"json": "$x"})
    literal: Annotated[str, Unique] = field(default="5", metadata={"json": "outer.key.inner@key"})
    nested: InnerKey = field(default_factory=lambda: InnerKey("6"), metadata={"json": "outer.key"})
    unicode: Annotated[str, Unique] = field(default="7", metadata={"json": "é"})
    x: Annotated[str, Unique] = "8"


@dataclass
class Node:
    hidden: str
    name: Annotated[str, Unique]
    next: Annotated[Node | None, Unique] = None


@dataclass
class Recursive:
    kind: ClassVar[str] = "recursive"
    root: Annotated[Node, Unique]


@dataclass
class Values:
    kind: ClassVar[str] = "values"
    text: str
    whole: int
    number: float
    flag: bool
    maybe: str | None
    list: list[float]
    map: dict[str, float]
    bytes: bytes
    at: datetime
    duration: timedelta
    omitted: str = field(default="", metadata={"json": "omitted,omitempty"})
    structs: Sequence[Address] = ()


def values(**changes: Any) -> Values:
    said: dict[str, Any] = {
        "text": "<é>&\u2028",
        "whole": -(2**63),
        "number": 1e21,
        "flag": False,
        "maybe": None,
        "list": [1.0, 1e-7],
        "map": {"z": 0.1, "a": 1.0},
        "bytes": b"\xff\x00",
        "at": AT,
        "duration": timedelta(seconds=1.5),
        "structs": [Address("s", [])],
    }
    return Values(**{**said, **changes})


ARGS: Sequence[Any] = [
    Subset("ann@example.com"),
    Subset("ann@example.com", count=3, upper="<U>"),
    Nested("t", Account("eu")),
    Nested("t", Account("eu", Customer(1)), Customer(2, "whole")),
    Embedded(3, "l"),
    Whole(Address("High St", ["b", "a"]), {"z": 1, "a": 2}),
    Literally(),
    Recursive(Node("h", "1", Node("h2", "2"))),
    values(),
    JsonArgs(
        "anything", {"b": {"y": [1.5, None], "x": "<"}, "a.b": 1, "": 2, "é": "ü", 'q"': True}
    ),
]


def keys_of(jobs: Sequence[InsertManyParams]) -> list[str]:
    """Our unique keys."""
    builder = JobBuilder(ClientConfig(), lambda: AT, NotifyLimiter(timedelta(seconds=1)))
    return [(row.unique_key or b"").hex() for row in builder.rows(jobs)]


UNIQUE_OPTS: Mapping[str, UniqueOpts] = {
    "args": UniqueOpts(by_args=True),
    "15 minutes": UniqueOpts(by_period=timedelta(minutes=15)),
    "7 days": UniqueOpts(by_period=timedelta(days=7)),
    "5 hours": UniqueOpts(by_period=timedelta(hours=5)),
    "queue": UniqueOpts(by_queue=True),
    "states": UniqueOpts(by_state=["available", "pending", "running", "scheduled", "cancelled"]),
    "any kind": UniqueOpts(by_args=True, exclude_kind=True),
    "everything": UniqueOpts(by_args=True, by_period=timedelta(hours=1), by_queue=True),
}


@pytest.mark.short
def test_structs_of_go_have_the_same_json_and_the_same_keys(go: GoInserter) -> None:
    jobs = [
        InsertManyParams(args, InsertOpts(queue="emails", scheduled_at=AT, unique_opts=opts))
        for args in ARGS
        for opts in UNIQUE_OPTS.values()
    ]
    answers = go.insert(jobs)

    assert [answer["args"] for answer in answers] == [encode(job.args) for job in jobs]
    assert [answer["key"] for answer in answers] == keys_of(jobs)
    assert {answer["states"] for answer in answers} == {"11110101", "11010011"}


@pytest.mark.short
def test_go_reads_what_we_write_and_we_read_what_go_writes(go: GoInserter) -> None:
    jobs = [InsertManyParams(args) for args in ARGS if type(args) is not JsonArgs]
    for job, answer in zip(jobs, go.insert(jobs), strict=True):
        assert decoder(type(job.args))(answer["args"]) == job.args


@pytest.mark.short
@settings(_quick, max_examples=30)
@given(st.lists(st.dictionaries(_texts, _json), min_size=1, max_size=10))
def test_any_args_have_the_same_key(go: GoInserter, objects: list[dict[str, Any]]) -> None:
    opts = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    jobs = [InsertManyParams(JsonArgs("any_args", value), opts) for value in objects]

    assert [answer["key"] for answer in go.insert(jobs)] == keys_of(jobs)


def _object_text(parts: Sequence[tuple[str, str, str]]) -> str:
    """Return an object with these keys and values, each pair behind some white space."""
    return "{" + ",".join(f"{space}{key}{space}:{value}" for space, key, value in parts) + " }"


_raw_numbers = st.sampled_from(
    ["0", "-0", "1", "1.0", "1.50", "1e2", "1E+2", "0.1e-3", "123456789012345678901234567890"]
)
_raw_texts = st.builds(json.dumps, _texts, ensure_ascii=st.booleans()) | st.sampled_from(
    [r'"\/"', r'"\u003c<"', '"a"', r'"\u0061"', '"\u2028"', r'"\u00e9"', '"\x7f"']
)
_raw_objects = st.deferred(
    lambda: st.lists(
        st.tuples(st.sampled_from(["", " ", "\n\t"]), _raw_texts, _raw_values), max_size=5
    ).map(_object_text)
)
_raw_values: st.SearchStrategy[str] = (
    st.sampled_from(["null", "true", "[ 1.0, { } ]"]) | _raw_numbers | _raw_texts | _raw_objects
)
"""JSON in all the ways in which somebody may write it: digits, white space, escapes, any order of
keys, and keys twice.
"""


@settings(_quick, max_examples=30)
@given(st.lists(_raw_objects, min_size=10, max_size=30))
def test_text_that_is_inserted_as_it_is_has_the_same_key(go: GoInserter, texts: list[str]) -> None:
    opts = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    jobs = [InsertManyParams(JsonText("any_text", text), opts) for text in texts]

    assert [answer["key"] for answer in go.insert(jobs)] == keys_of(jobs)


@settings(_quick, max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.datetimes(
                min_value=datetime(1970, 1, 1),  # noqa: DTZ001
                max_value=datetime(9990, 1, 1),  # noqa: DTZ001
                timezones=st.integers(-23 * 60, 23 * 60).map(
                    lambda m: timezone(timedelta(minutes=m))
                ),
            ),
            st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=400))
            | st.integers(1, 10**6).map(lambda seconds: timedelta(seconds=seconds)),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_any_period_has_the_same_key(
    go: GoInserter, times: list[tuple[datetime, timedelta]]
) -> None:
    jobs = [
        InsertManyParams(
            JsonArgs("any_period", {}),
            # Go is told the period as a number of seconds, which is exact for whole milliseconds.
            InsertOpts(
                scheduled_at=at,
                unique_opts=UniqueOpts(
                    by_period=timedelta(milliseconds=period // timedelta(milliseconds=1))
                ),
            ),
        )
        for at, period in times
    ]
    assert [answer["key"] for answer in go.insert(jobs)] == keys_of(jobs)


# Live: whoever comes second leaves the job out.


@pytest.mark.parametrize("args", ARGS, ids=kind_of)
async def test_go_inserts_and_python_skips(driver: Driver, go: GoInserter, args: Any) -> None:
    jobs = [
        InsertManyParams(args, InsertOpts(queue="emails", scheduled_at=AT, unique_opts=opts))
        for opts in UNIQUE_OPTS.values()
    ]
    first = go.insert(jobs, keep=True)
    results = await Client(driver).insert_many(jobs)

    assert not any(answer["duplicate"] for answer in first)
    assert all(result.unique_skipped_as_duplicate for result in results)
    assert [result.job.id for result in results] == [answer["id"] for answer in first]
    assert [result.job.unique_key for result in results] == [
        bytes.fromhex(answer["key"]) for answer in first
    ]


@pytest.mark.parametrize("args", ARGS, ids=kind_of)
async def test_python_inserts_and_go_skips(driver: Driver, go: GoInserter, args: Any) -> None:
    jobs = [
        InsertManyParams(args, InsertOpts(queue="emails", scheduled_at=AT, unique_opts=opts))
        for opts in UNIQUE_OPTS.values()
    ]
    first = await Client(driver).insert_many(jobs)
    second = go.insert(jobs, keep=True)

    assert not any(result.unique_skipped_as_duplicate for result in first)
    assert all(answer["duplicate"] for answer in second)
    assert [answer["id"] for answer in second] == [result.job.id for result in first]


async def test_another_kind_with_the_same_key_keeps_its_kind(
    driver: Driver, go: GoInserter, connection: AsyncConnection[DictRow]
) -> None:
    opts = InsertOpts(unique_opts=UniqueOpts(by_args=True, exclude_kind=True))
    [first] = go.insert([InsertManyParams(JsonArgs("theirs", {"n": 1}), opts)], keep=True)
    result = await Client(driver).insert(JsonArgs("ours", {"n": 1}), opts)

    assert result.unique_skipped_as_duplicate
    assert (result.job.id, result.job.kind) == (first["id"], "theirs")
    assert (await (await connection.execute("select kind from river_job")).fetchall()) == [
        {"kind": "theirs"}
    ]


@pytest.mark.parametrize("state", ["completed", "cancelled", "discarded"])
async def test_only_the_chosen_states_count(
    driver: Driver, go: GoInserter, connection: AsyncConnection[DictRow], state: str
) -> None:
    job = InsertManyParams(Subset("ann"), InsertOpts(unique_opts=UniqueOpts(by_args=True)))
    go.insert([job], keep=True)
    await connection.execute(
        "update river_job set state = %s::river_job_state, finalized_at = now()", [state]
    )

    result = await Client(driver).insert(job.args, job.insert_opts)
    assert result.unique_skipped_as_duplicate is (state == "completed")
    [third] = go.insert([job], keep=True)
    assert third["duplicate"]


@pytest.mark.short
async def test_equal_keys_in_one_batch(driver: Driver, go: GoInserter) -> None:
    opts = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    [there] = go.insert([InsertManyParams(Subset("go"), opts)], keep=True)
    results = await Client(driver).insert_many(
        [InsertManyParams(Subset(name), opts) for name in ("a", "go", "a", "b", "go")]
    )

    assert [result.unique_skipped_as_duplicate for result in results] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert results[1].job.id == results[4].job.id == there["id"]
    assert results[2].job.id == results[0].job.id
    assert all(
        answer["duplicate"]
        for answer in go.insert([InsertManyParams(Subset("b"), opts)], keep=True)
    )


async def test_rows_are_alike(
    driver: Driver, go: GoInserter, connection: AsyncConnection[DictRow]
) -> None:
    """Nothing but ids and times of their own tells who inserted a job."""
    jobs = [
        InsertManyParams(values(), InsertOpts(queue="emails")),
        InsertManyParams(
            Subset("a"), InsertOpts(scheduled_at=AT, unique_opts=UniqueOpts(by_args=True))
        ),
    ]
    go.insert(jobs, keep=True)
    theirs = await (await connection.execute("delete from river_job returning *")).fetchall()
    await Client(driver).insert_many(jobs)
    ours = await (await connection.execute("select * from river_job order by id")).fetchall()

    own = {"id", "created_at"}
    for one, other in zip(sorted(theirs, key=lambda row: row["id"]), ours, strict=True):
        differing = own if one["state"] == "scheduled" else own | {"scheduled_at"}
        assert {k: v for k, v in one.items() if k not in differing} == {
            k: v for k, v in other.items() if k not in differing
        }


def test_every_struct_of_go_has_its_counterpart() -> None:
    source = (Path(__file__).parent / "go" / "unique" / "kinds.go").read_text()
    kinds = {kind_of(args) for args in ARGS if type(args) is not JsonArgs}
    assert all(f'return "{kind}"' in source for kind in kinds)
    assert source.count("Kind() string") == len(kinds) + 1
