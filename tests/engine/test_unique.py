"""Unique keys: the texts and hashes of River's own tests, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, ClassVar, Optional

import msgspec
import pydantic
import pytest

from riverui.domain.jobs import JobState
from riverui.engine.args.gojson import Unfit
from riverui.engine.args.job_args import JsonArgs, Unique, encode, unique_form
from riverui.engine.args.unique import key_text, unique_args, unique_key, uniqueness
from riverui.engine.insert.insert_opts import UniqueOpts
from riverui.errors import InsertError
from tests.cases import cases

AT = datetime(2026, 8, 7, 19, 34, 56, 789_000, tzinfo=UTC)


def text_of(args: Any, kind: str = "worker_1", at: datetime = AT, **opts: Any) -> str:
    unique = uniqueness(UniqueOpts(**opts))
    assert unique is not None
    counted = (
        unique_args(unique_form(args, encode(args)), type(args), unique.keys)
        if unique.by_args
        else ""
    )
    text = key_text(kind, unique, counted, "email_queue", at)
    assert len(unique_key(kind, unique, counted, "email_queue", at)) == 32
    return text


@dataclass
class Email:
    recipient: Annotated[str, Unique]
    subject: Annotated[str, Unique]
    body: str = "This is a test email."
    template_id: int = 101


@dataclass
class Empty:
    pass


@dataclass
class Generic:
    description: str = "A generic job without unique fields."
    count: int = 10


@dataclass
class Task:
    task_id: str = "task_123"


KEYS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "924d0ae47cfc7fa39a6ac83c366368583aa6406612772dd007cad2527989ed80": (
        "worker_1", Email("user@example.com", "Test Email"), {"by_args": True}
    ),
    "57514e752744015802c9d4d4935f9d216a943cf859a21e577b65741dac7302e4": (
        "worker_3", Generic(), {"by_args": True}
    ),
    "8a7ac299a41c27cd6f9fd578368f1330752168a7bf53761a5baba22ec7ab226a": (
        "worker_1", Empty(), {"by_args": True}
    ),
    "4b48cf5f2559d1de919b01391108cc5577d10e6e56a10bda33618b98b6054252": (
        "worker_5", Task(), {"by_args": True, "exclude_kind": True}
    ),
    "26b1abe28abd7a0d215b0881bff7a77e408d71da6166d43272c0179ea058d3dc": (
        "worker_6", Task(), {"by_queue": True}
    ),
    "6ad46d4771a5db81e05a454f0cae07dc75bd0a77152255d4852a7463161df3cb": (
        "worker_7", Task(), {"by_state": []}
    ),
    "114688228fada13bf03015e1165a5d9117385f5233db648dbc612795afb76a12": (
        "worker_4", Task(), {"by_period": timedelta(hours=1)}
    ),
}  # fmt: skip
"""Keys that River gives jobs of a kind, with their args and options."""


def test_the_keys_are_rivers() -> None:
    with cases() as case:
        for key, (kind, args, opts) in KEYS.items():
            with case((kind, opts)):
                unique = uniqueness(UniqueOpts(**opts))
                assert unique is not None
                counted = unique_args(encode(args), type(args))
                assert unique_key(kind, unique, counted, "email_queue", AT).hex() == key


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a<b&c>": 1}, '{"a<b&c>":1}'),
        ({"x": 2, ":x": 1}, '{":x":1,"x":2}'),
        ({"line\nbreak": 1, "tab\t": 2}, r'{"line\nbreak":1,"tab\t":2}'),
        ({"\x7f": 1}, '{"\x7f":1}'),
        ({"a": 2, "": 1}, '{"":1,"a":2}'),
        ({'quote"slash\\': 1}, r'{"quote\"slash\\":1}'),
        ({"file.name": "a", "file": {"name": "b"}}, '{"file":{"name":"b"},"file.name":"a"}'),
        ({"10": 2, "0": 1}, '{"0":1,"10":2}'),
        ({"b": None, "a": {"y": 1, "x": [1, 2]}}, '{"a":{"x":[1,2],"y":1},"b":null}'),
        ({"é<": 1}, r'{"é\u003c":1}'),
        ({"\u2029": 2, "\u2028": 1}, r'{"\u2028":1,"\u2029":2}'),
        ({"a": "<é>"}, r'{"a":"\u003cé\u003e"}'),
        ({}, "{}"),
    ],
)
def test_all_args_count_with_their_top_level_sorted(data: dict[str, Any], expected: str) -> None:
    assert text_of(JsonArgs("k", data), by_args=True) == f"&kind=worker_1&args={expected}"


@dataclass
class Sloppy:
    text: str

    def to_json(self) -> str:
        return self.text


def test_to_json_counts_as_a_struct_of_go_would_have_written_it() -> None:
    sloppy = '{ "b": {"y": 1.0, "x": "\\u00e9<"},\n "a": [1, 2.50, 1e30, 12345678901234567890123] }'

    assert text_of(Sloppy(sloppy), by_args=True) == (
        r'&kind=worker_1&args={"a":[1,2.5,1e+30,12345678901234567890123],"b":{"y":1,"x":"é\u003c"}}'
    )


def test_numbers_that_no_float_holds_cannot_count() -> None:
    with pytest.raises(Unfit, match="no inf"):
        text_of(Sloppy('{"n": 1e999}'), by_args=True)


@dataclass
class Addresses:
    recipient: Annotated[str, Unique]
    bcc: str = ""


@dataclass
class Headers:
    addresses: Annotated[Optional[Addresses], Unique]  # noqa: UP045
    subject: Annotated[str, Unique]


@dataclass
class Deep:
    headers: Annotated[Headers | None, Unique]
    body: str = ""


@dataclass
class Heir(Addresses):
    subject: Annotated[str, Unique] = "s"


@dataclass
class Plain:
    recipient: str
    bcc: str = ""


@dataclass
class Whole:
    addresses: Annotated[Plain, Unique]
    subject: Annotated[str, Unique]


@dataclass
class Node:
    name: Annotated[str, Unique]
    next: Annotated[Node | None, Unique] = None
    hidden: str = ""


@dataclass
class Tree:
    root: Annotated[Node, Unique]


@dataclass
class Twice:
    first: Addresses
    second: Addresses
    third: Annotated[Addresses, Unique]


@dataclass
class Optionally:
    phone: Annotated[str, Unique]
    message: Annotated[str, Unique] = field(default="", metadata={"json": "message,omitempty"})


@dataclass
class Renamed:
    inner: Plain
    nested: Annotated[str, Unique] = field(metadata={"json": "outer.key"}, default="n")
    dollar: Annotated[str, Unique] = field(metadata={"json": "$x"}, default="d")
    upper: Annotated[str, Unique] = field(metadata={"json": "Y"}, default="u")
    unicode: Annotated[str, Unique()] = field(metadata={"json": "é<"}, default="e")


class Model(pydantic.BaseModel):
    customer: Annotated[int, Unique] = pydantic.Field(alias="customerId")
    nested: Addresses
    trace: str


class Struct(msgspec.Struct, rename="camel"):
    customer_id: Annotated[int, Unique]
    trace: str


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (Email("a", "b"), '{"recipient":"a","subject":"b"}'),
        (
            Deep(Headers(Addresses("a"), "b")),
            '{"headers":{"addresses":{"recipient":"a"},"subject":"b"}}',
        ),
        (Deep(Headers(None, "b")), '{"headers":{"subject":"b"}}'),
        (Deep(None), ""),
        (Heir("a"), '{"recipient":"a","subject":"s"}'),
        (Whole(Plain("a"), "b"), '{"addresses":{"recipient":"a","bcc":""},"subject":"b"}'),
        (
            Tree(Node("1", Node("2", hidden="h"))),
            '{"root":{"name":"1","next":{"name":"2","next":null,"hidden":"h"}}}',
        ),
        (
            Twice(Addresses("a"), Addresses("b"), Addresses("c", "d")),
            '{"first":{"recipient":"a"},"third":{"recipient":"c","bcc":"d"}}',
        ),
        (Optionally("555"), '{"phone":"555"}'),
        (Renamed(Plain("")), r'{"$x":"d","Y":"u","outer.key":"n","é\u003c":"e"}'),
        (
            Model(customerId=1, nested=Addresses("a"), trace="t"),
            '{"customerId":1,"nested":{"recipient":"a"}}',
        ),
        (Struct(1, "t"), '{"customerId":1}'),
    ],
)
def test_marked_fields_count_alone(args: Any, expected: str) -> None:
    assert text_of(args, by_args=True) == f"&kind=worker_1&args={expected}"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["count"], '{"count":10}'),
        (
            ["description", "count", "count"],
            '{"count":10,"description":"A generic job without unique fields."}',
        ),
        (["absent", "count"], '{"count":10}'),
        (["absent"], ""),
    ],
)
def test_keys_by_name_are_the_official_clients(keys: Sequence[str], expected: str) -> None:
    assert text_of(Generic(), by_args=keys) == f"&kind=worker_1&args={expected}"


@pytest.mark.parametrize(
    ("period", "at", "start"),
    [
        (timedelta(hours=1), AT, "2026-08-07T19:00:00Z"),
        (900, AT, "2026-08-07T19:30:00Z"),
        (timedelta(hours=24), AT, "2026-08-07T00:00:00Z"),
        (timedelta(days=7), AT, "2026-08-03T00:00:00Z"),  # a Monday, as year 1 began
        (timedelta(hours=5), AT, "2026-08-07T19:00:00Z"),
        (timedelta(seconds=1), AT, "2026-08-07T19:34:56Z"),
        (1.5, AT, "2026-08-07T19:34:55Z"),
        (900, AT.astimezone(timezone(timedelta(hours=-5, minutes=-45))), "2026-08-07T19:30:00Z"),
        (timedelta(days=365 * 3000), AT, "0001-01-01T00:00:00Z"),
    ],
)
def test_periods_count_from_year_1_in_utc(period: Any, at: datetime, start: str) -> None:
    assert text_of(Task(), by_period=period, at=at) == f"&kind=worker_1&period={start}"


def test_all_parts_together() -> None:
    assert text_of(Task(), by_args=True, by_period=60, by_queue=True) == (
        '&kind=worker_1&args={"task_id":"task_123"}&period=2026-08-07T19:34:00Z&queue=email_queue'
    )


def test_options_that_ask_for_nothing_are_none() -> None:
    for opts in (
        None,
        UniqueOpts(),
        UniqueOpts(by_args=[]),
        UniqueOpts(by_period=0),
        UniqueOpts(by_args=None),
    ):
        assert uniqueness(opts) is None


REQUIRED = ["available", "pending", "running", "scheduled"]


@pytest.mark.parametrize(
    ("states", "bits"),
    [
        (None, 0b11110101),
        ([], 0b11110101),
        (REQUIRED, 0b11010001),
        ([*REQUIRED, JobState.CANCELLED, "discarded"], 0b11011011),
        (list(JobState), 0b11111111),
    ],
)
def test_states_are_one_byte(states: Any, bits: int) -> None:
    unique = uniqueness(UniqueOpts(by_queue=True, by_state=states))
    assert unique is not None
    assert unique.states == bits


@pytest.mark.parametrize(
    ("opts", "words"),
    [
        ({"exclude_kind": True}, "exclude_kind needs by_args"),
        ({"exclude_kind": True, "by_state": REQUIRED}, "exclude_kind needs by_args"),
        ({"by_period": 0.5}, "at least a second"),
        ({"by_period": timedelta(seconds=-5)}, "at least a second"),
        ({"by_state": ["available"]}, "must have pending, running, scheduled"),
        ({"by_state": [*REQUIRED, "lost"]}, "lost"),
        ({"by_args": "id"}, "True, or a list"),
    ],
)
def test_options_that_river_refuses(opts: dict[str, Any], words: str) -> None:
    with pytest.raises(InsertError, match=words):
        uniqueness(UniqueOpts(**opts))


@dataclass
class Numbered:
    one: Annotated[int, Unique] = field(default=1, metadata={"json": "1"})


@dataclass
class Unresolved:
    kind: ClassVar[str] = "unresolved"
    other: Annotated[Nowhere, Unique]  # type: ignore[name-defined]  # noqa: F821


def test_fields_that_river_takes_for_places_in_a_list() -> None:
    with pytest.raises(InsertError, match="'1'"):
        text_of(Numbered(), by_args=True)
    with pytest.raises(InsertError, match="'0'"):
        text_of(Task(), by_args=["0"])


def test_annotations_that_mean_nothing() -> None:
    with pytest.raises(InsertError, match="Nowhere"):
        text_of(Unresolved(1), by_args=True)
