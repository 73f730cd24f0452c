"""Job args: their JSON, which is Go's, and the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    cast,
)
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from riverui.engine.args.job_args import (
    JsonArgs,
    decoder,
    encode,
    insert_opts_of,
    kind_aliases_of,
    kind_of,
    plugins_of,
    unique_form,
)
from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.insert.job_builder import JobBuilder, NotifyLimiter
from riverui.errors import ArgsError, ConfigError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Point(Enum):
    ORIGIN = "0,0"


class Extra(TypedDict):
    name: str
    size: NotRequired[int]


Id = NewType("Id", int)


@dataclass
class Address:
    street: str
    number: int = 0


@dataclass
class Everything:
    kind: ClassVar[str] = "everything"
    text: str
    whole: int
    number: float
    flag: bool
    maybe: str | None
    address: Address
    addresses: list[Address]
    by_name: dict[str, Address]
    by_number: dict[int, bool]
    at: datetime
    day: date
    span: timedelta
    data: bytes
    uuid: UUID
    price: Decimal
    colour: Colour
    level: Level
    point: Point
    mode: Literal["fast", "slow", 3]
    pair: tuple[int, str]
    several: tuple[int, ...]
    names: set[str]
    either: int | str
    id: Id
    anything: Any
    extra: Extra
    sequence: Sequence[int]
    mapping: Mapping[str, float]
    parent: Optional[Everything] = None  # noqa: UP045
    renamed: str = field(default="", metadata={"json": "Renamed,omitempty"})
    hidden: str = field(default="unseen", metadata={"json": "-"})


def everything(**changes: Any) -> Everything:
    values: dict[str, Any] = {
        "text": 'a "quoted" <b> & é\n\u2028',
        "whole": 10**30,
        "number": 1.0,
        "flag": True,
        "maybe": None,
        "address": Address("High St", 4),
        "addresses": [Address("a"), Address("b", 2)],
        "by_name": {"z": Address("z"), "a": Address("a")},
        "by_number": {2: False, 10: True},
        "at": datetime(2026, 8, 7, 19, 4, 5, 120_000, tzinfo=UTC),
        "day": date(2026, 8, 7),
        "span": timedelta(hours=1, microseconds=1),
        "data": b"\x00\xff",
        "uuid": UUID(int=1),
        "price": Decimal("1.10"),
        "colour": Colour.BLUE,
        "level": Level.HIGH,
        "point": Point.ORIGIN,
        "mode": 3,
        "pair": (1, "x"),
        "several": (3, 2, 1),
        "names": {"b", "a"},
        "either": "text",
        "id": Id(7),
        "anything": [None, {"deep": [1.5]}],
        "extra": {"name": "n"},
        "sequence": [1, 2],
        "mapping": {"y": 1e21, "x": 1e-7},
    }
    return Everything(**{**values, **changes})


EVERYTHING = (
    r'{"text":"a \"quoted\" \u003cb\u003e \u0026'
    r' é\n\u2028","whole":1000000000000000000000000000000,'
    r'"number":1,"flag":true,"maybe":null,"address":{"street":"High St","number":4},'
    r'"addresses":[{"street":"a","number":0},{"street":"b","number":2}],'
    r'"by_name":{"a":{"street":"a","number":0},"z":{"street":"z","number":0}},"by_number":{"10":true,"2":false},'
    r'"at":"2026-08-07T19:04:05.12Z","day":"2026-08-07","span":3600000001000,"data":"AP8=",'
    r'"uuid":"00000000-0000-0000-0000-000000000001","price":"1.10","colour":"blue","level":2,"point":"0,0","mode":3,'
    r'"pair":[1,"x"],"several":[3,2,1],"names":["a","b"],"either":"text","id":7,"anything":[null,{"deep":[1.5]}],'
    r'"extra":{"name":"n"},"sequence":[1,2],"mapping":{"x":1e-7,"y":1e+21},"parent":null}'
)


def test_every_type_is_written_as_go_writes_it() -> None:
    assert encode(everything()) == EVERYTHING


def test_every_type_is_read_back() -> None:
    args = everything(parent=everything(), renamed="yes")

    assert '"Renamed":"yes"' in encode(args)
    assert decoder(Everything)(encode(args)) == args


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5e-324"),
        (1e16, "10000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)
def test_numbers_are_in_gos_notation(number: float, text: str) -> None:
    assert encode(JsonArgs("n", {"n": number})) == f'{{"n":{text}}}'


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC), "2026-01-02T03:04:05.6789Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-5, minutes=-30))),
            "2026-01-02T00:00:00-05:30",
        ),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(seconds=1))), "2026-01-01T23:59:59Z"),
    ],
)
def test_times_are_rfc_3339(at: datetime, text: str) -> None:
    assert encode(JsonArgs("t", {"t": at})) == f'{{"t":"{text}"}}'


@dataclass
class Values:
    kind: ClassVar[str] = "values"
    text: str
    numbers: list[float]
    named: dict[str, int]
    at: datetime
    span: timedelta
    data: bytes
    price: Decimal
    uuid: UUID
    inner: Optional[Values] = None  # noqa: UP045


_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
# Times that a clock change makes ambiguous equal nothing in another zone, says Python.
_zones = st.integers(-1439, 1439).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
) | st.just(UTC)
_values: st.SearchStrategy[Values] = st.deferred(
    lambda: st.builds(
        Values,
        text=_texts,
        numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False)),
        named=st.dictionaries(_texts, st.integers()),
        at=st.datetimes(timezones=_zones),
        span=st.timedeltas(),
        data=st.binary(),
        price=st.decimals(allow_nan=False, allow_infinity=False),
        uuid=st.uuids(),
        inner=st.none() | _values,
    )
)


@given(_values)
def test_what_is_written_is_read_back(args: Values) -> None:
    text = encode(args)

    assert decoder(Values)(text) == args
    assert json.loads(text)["text"] == args.text  # any other reader reads the same
    assert not set("<>&\u2028\u2029") & set(text)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"text": "a\0"}, "NUL"),
        ({"text": "\ud800"}, "surrogate"),
        ({"number": float("nan")}, "number: JSON has no nan"),
        (
            {"addresses": [Address("a"), Address(cast(str, object()))]},
            "addresses.1.street: object has no JSON form",
        ),
        (
            {"by_name": {"k": {1.5: "x"}}},
            "by_name.k: a key must be text or a whole number, not float",
        ),
        ({"anything": {1: "a", "1": "b"}}, "anything: two keys are the same as text"),
        ({"at": datetime(2026, 1, 1)}, "at: a time without a time zone"),  # noqa: DTZ001
        ({"price": Decimal("NaN")}, "price: JSON has no NaN"),
    ],
)
def test_what_json_or_postgres_cannot_hold_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgsError, match=words):
        encode(everything(**changes))


def test_an_escaped_backslash_is_no_nul() -> None:
    assert encode(JsonArgs("k", {"t": r"\u0000"})) == r'{"t":"\\u0000"}'
    with pytest.raises(ArgsError, match="NUL"):
        encode(JsonArgs("k", {"t": "\\\x00"}))


def test_a_circle_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ArgsError, match="contains itself"):
        encode(JsonArgs("k", {"circle": circle}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": 1}, "text: expected text, got a whole number"),
        ({"whole": 1.0}, "whole: expected a whole number, got a number with decimals"),
        ({"whole": True}, "whole: expected a whole number, got true or false"),
        ({"number": "1"}, "number: expected a number, got text"),
        ({"flag": None}, "flag: expected true or false, got null"),
        ({"address": {"number": 1}}, "address.street: missing, and has no default"),
        (
            {"addresses": [{"street": "a"}, {"street": None}]},
            "addresses.1.street: expected text, got null",
        ),
        ({"by_name": {"k": []}}, "by_name.k: expected an object, got a list"),
        ({"by_number": {"x": True}}, "by_number.x: expected a whole number, got 'x'"),
        ({"at": "yesterday"}, "at: expected a time with its zone"),
        ({"at": "2026-01-01T00:00:00"}, "at: expected a time with its zone"),
        ({"day": "2026-13-01"}, "day: expected a date"),
        ({"span": 1.5}, "span: expected whole nanoseconds"),
        ({"span": 10**30}, "span: the duration is out of range"),
        ({"data": "?"}, "data: expected base64"),
        ({"uuid": "x"}, "uuid: expected a UUID"),
        ({"price": "x"}, "price: expected a decimal number"),
        ({"price": "Infinity"}, "price: expected a finite number"),
        ({"colour": "green"}, "colour: expected one of 'red', 'blue', got 'green'"),
        ({"mode": True}, "mode: expected one of 'fast', 'slow', 3, got 'True'"),
        ({"mode": []}, "mode: expected one of"),
        ({"pair": [1]}, "pair: expected a list of 2"),
        ({"pair": [1, 2]}, "pair: expected text"),
        ({"either": 1.5}, "either: expected a whole number, .*; or expected text"),
        ({"extra": {}}, "extra.name: missing"),
    ],
)
def test_an_error_names_the_place_of_what_does_not_fit(change: dict[str, Any], words: str) -> None:
    text = json.dumps({**json.loads(EVERYTHING), **change})
    with pytest.raises(ArgsError, match=f"the args do not fit Everything: {words}"):
        decoder(Everything)(text)


def test_args_that_are_no_object_do_not_fit() -> None:
    for text in ("[]", "null", "1", "{", "nonsense", '{"n": NaN}'):
        with pytest.raises(ArgsError):
            decoder(Everything)(text)


@dataclass
class Lenient:
    kind: ClassVar[str] = "lenient"
    words: list[str]
    counts: dict[str, int]
    size: float = 1.5
    note: str = "none"
    tags: list[str] = field(default_factory=lambda: ["default"])
    price: Decimal = Decimal(0)


def test_unknown_keys_are_ignored_and_null_counts_as_missing() -> None:
    # Go writes null for empty slices and maps.
    text = '{"words":null,"counts":null,"size":2,"note":null,"tags":null,"price":1.10,"new":{"unknown":1}}'  # noqa: E501

    assert decoder(Lenient)(text) == Lenient([], {}, 2.0, price=Decimal("1.1"))


@pytest.mark.parametrize(
    ("text", "user_id", "name"),
    [
        ('{"userID": 7, "NAME": "x"}', 7, "x"),
        ('{"USERID": 1, "userid": 2, "name": "x", "Name": "y"}', 2, "x"),
        ('{"user_id": 7}', 0, ""),
    ],
)
def test_keys_of_another_case_are_found_as_in_go(text: str, user_id: int, name: str) -> None:
    @dataclass
    class Cased:
        kind: ClassVar[str] = "cased"
        userId: int = 0  # noqa: N815 - as another program writes it
        name: str = ""

    assert decoder(Cased)(text) == Cased(userId=user_id, name=name)


def test_times_of_go_lose_only_their_nanoseconds() -> None:
    text = '{"text":"","numbers":[],"named":{},"at":"2026-01-01T00:00:00.123456789+02:00","span":1999,"data":"","price":"0","uuid":"00000000-0000-0000-0000-000000000000"}'  # noqa: E501
    args = decoder(Values)(text)

    assert args.at == datetime(2025, 12, 31, 22, 0, 0, 123_456, tzinfo=UTC)
    assert args.span == timedelta(microseconds=1)


class Model(pydantic.BaseModel):
    kind: Literal["model"] = "model"
    name: str = pydantic.Field(alias="Name")
    prices: dict[str, float]
    at: datetime
    address: Address
    span: timedelta = timedelta(hours=1)
    data: bytes = b"utf-8"
    secret: str = pydantic.Field(default="s", exclude=True)


def test_pydantic_models() -> None:
    at = datetime(2026, 1, 1, 0, 0, 0, 120_000, tzinfo=UTC)
    args = Model(Name="<n>", prices={"b": 1.0, "a": 1e21}, at=at, address=Address("s"))

    text = encode(args)
    assert (
        text
        == '{"Name":"\\u003cn\\u003e","prices":{"a":1e+21,"b":1},"at":"2026-01-01T00:00:00.12Z",'
        '"address":{"street":"s","number":0},"span":"PT1H","data":"utf-8"}'
    )
    assert kind_of(Model) == kind_of(args) == "model"
    assert decoder(Model)(text) == args
    with pytest.raises(ArgsError, match=r"do not fit Model: .*\n.*prices"):
        decoder(Model)(text.replace("1e+21", '"x"'))


class Struct(msgspec.Struct, rename="camel", omit_defaults=True):
    kind: ClassVar[str] = "struct"
    first_name: str
    prices: dict[str, float]
    at: datetime
    inner: Struct | None = None
    span: timedelta = timedelta(0)
    data: bytes = b""
    unset: str | msgspec.UnsetType = msgspec.UNSET


def test_msgspec_structs() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    args = Struct(
        "é", {"b": 1.0, "a": 0.1}, at, Struct("", {}, at, span=timedelta(days=1), data=b"\0")
    )

    text = encode(args)
    assert (
        text
        == '{"firstName":"é","prices":{"a":0.1,"b":1},"at":"2026-01-01T00:00:00Z","inner":{"firstName":"",'  # noqa: E501
        '"prices":{},"at":"2026-01-01T00:00:00Z","span":"P1D","data":"AA=="}}'
    )
    assert decoder(Struct)(text) == args
    with pytest.raises(ArgsError, match=r"do not fit Struct: .*firstName"):
        decoder(Struct)("{}")


@dataclass
class Holder:
    kind: ClassVar[str] = "holder"
    model: Model
    struct: Struct


def test_models_and_structs_inside_a_dataclass() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    args = Holder(
        Model(Name="n", prices={}, at=at, address=Address("s")), Struct("f", {"a": 2.0}, at)
    )

    assert decoder(Holder)(encode(args)) == args
    with pytest.raises(ArgsError, match=r"do not fit Holder: struct: .*firstName"):
        decoder(Holder)(encode(args).replace("firstName", "x"))
    with pytest.raises(ArgsError, match=r"do not fit Holder: model: "):
        decoder(Holder)(encode(args).replace("Name", "x"))


@dataclass
class Sort:
    """As in the documentation of River's Python client."""

    strings: list[str]
    kind: str = "sort"

    def to_json(self) -> str:
        return json.dumps({"strings": self.strings, "n": 1.0})


def test_to_json_is_taken_as_it_is() -> None:
    args = Sort(["é", "<"])

    assert kind_of(args) == kind_of(Sort) == "sort"
    assert encode(args) == '{"strings": ["\\u00e9", "<"], "n": 1.0}'
    assert unique_form(args, encode(args)) == '{"strings":["é","\\u003c"],"n":1}'
    assert decoder(Sort)(encode(args)) == args


@dataclass
class Written:
    text: Any
    kind: ClassVar[str] = "written"

    def to_json(self) -> Any:
        return self.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "must be a JSON object"),
        ("nope", "is not valid JSON"),
        ('{"n": NaN}', "is not valid JSON"),
        (None, "expected text, got NoneType"),
        (r'{"t": "\u0000"}', "NUL"),
        (r'{"t": "\ud800"}', "surrogate"),
        ('{"t": "\ud800"}', "surrogate"),
    ],
)
def test_to_json_must_give_an_object_that_postgres_keeps(text: Any, words: str) -> None:
    with pytest.raises(ArgsError, match=words):
        encode(Written(text))


def test_to_json_may_hold_escaped_pairs_and_give_bytes() -> None:
    assert encode(Written(r'{"t": "\ud83d\ude00"}')) == r'{"t": "\ud83d\ude00"}'
    assert encode(Written(b"{}")) == "{}"


class Custom:
    kind = "custom"

    def __init__(self, n: int) -> None:
        self.n = n

    def to_json(self) -> str:
        return f'{{"n":{self.n}}}'

    @classmethod
    def from_json(cls, text: str) -> Custom:
        return cls(json.loads(text)["n"])


def test_from_json_is_the_way_back_from_to_json() -> None:
    assert decoder(Custom)(encode(Custom(5))).n == 5
    with pytest.raises(ArgsError):
        decoder(Custom)("nope")


class Named(JsonArgs):
    kind = "named"


def test_json_args() -> None:
    args = JsonArgs("any", {"b": [1], "a": {"d": 1, "c": 2}})

    assert kind_of(args) == "any"
    assert encode(args) == '{"a":{"c":2,"d":1},"b":[1]}'
    assert decoder(dict)('{"a":1}') == {"a": 1}
    assert decoder(Named)('{"a":1}').data == {"a": 1}
    with pytest.raises(ArgsError, match="expected an object"):
        decoder(dict)("[]")


@dataclass
class Plain:
    kind: ClassVar[str] = "plain"
    hooks: list[str]
    empty: dict[str, int] = field(default_factory=dict, metadata={"json": ",omitempty"})
    none: int | None = field(default=None, metadata={"json": ",omitempty"})
    zero: float = field(default=0.0, metadata={"json": ",omitempty"})
    unmarked: Annotated[str, {"unhashable": []}] = ""


def test_omitempty_is_gos() -> None:
    assert encode(Plain(["x"])) == '{"hooks":["x"],"unmarked":""}'
    full = Plain([], {"a": 1}, 0, 0.5)
    assert encode(full) == '{"hooks":[],"empty":{"a":1},"zero":0.5,"unmarked":""}'
    assert decoder(Plain)('{"hooks":[]}') == Plain([])


class Quiet(Hook):
    """Does nothing."""


QUIET = Quiet()


@dataclass
class Speaking:
    kind: ClassVar[str] = "speaking"
    kind_aliases: ClassVar[Sequence[str]] = ["older", "oldest"]

    @staticmethod
    def hooks() -> list[Hook]:
        return [QUIET]

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(priority=3)


def test_what_args_say_about_themselves() -> None:
    assert kind_aliases_of(Speaking) == ("older", "oldest")
    assert plugins_of(Speaking) == (QUIET,)
    assert insert_opts_of(Speaking()) == InsertOpts(priority=3)
    assert encode(Speaking()) == "{}"


def test_a_field_is_not_what_args_say_about_themselves() -> None:
    assert plugins_of(Plain) == ()
    assert insert_opts_of(Plain([])) is None
    assert kind_aliases_of(Plain) == ()


@dataclass
class Kindless:
    n: int


@dataclass
class Unnamed:
    kind: ClassVar[str] = ""


def test_args_without_a_kind_are_refused() -> None:
    for args in (Kindless(1), Kindless, object(), {"a": 1}):
        with pytest.raises(ArgsError, match="needs a kind"):
            kind_of(args)
    for args in (Unnamed(), JsonArgs("x" * 128, {})):
        with pytest.raises(ArgsError, match="1 to 127"):
            kind_of(args)


class NoForm:
    kind = "no_form"


@dataclass
class Unreadable:
    kind: ClassVar[str] = "unreadable"
    lock: complex


@dataclass
class Forgetful:
    kind: ClassVar[str] = "forgetful"
    note: str = field(metadata={"json": ",omitempty"})


@dataclass
class Unresolved:
    kind: ClassVar[str] = "unresolved"
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821


def test_types_that_cannot_be_args_are_refused_when_a_worker_is_made_for_them() -> None:
    for cls, words in (
        (NoForm, "use a dataclass"),
        (Unreadable, "cannot hold a complex"),
        (Unresolved, "Nowhere"),
        (Forgetful, "note may be left out of the JSON, so it needs a default"),
    ):
        with pytest.raises(ConfigError, match=words):
            decoder(cls)
    with pytest.raises(ArgsError, match="NoForm cannot be job args"):
        encode(NoForm())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (Kindless, "Kindless is a class: insert an instance"),
        (Forgetful, r"Forgetful is a class: insert an instance, Forgetful\(…\)"),
        ("sort", "str is not a job args type"),
        ({"kind": "sort", "strings": []}, r"dict is not a job args type: .* JsonArgs\("),
        (None, "NoneType is not a job args type"),
    ],
)
def test_what_is_no_args_is_refused_with_what_to_write_instead(args: Any, words: str) -> None:
    builder = JobBuilder(
        ClientConfig(), lambda: datetime.now(UTC), NotifyLimiter(timedelta(seconds=1))
    )
    with pytest.raises(ArgsError, match=words):
        builder.prepare(args)
    with pytest.raises(ArgsError, match=words):
        builder.rows([args])
