"""Read JSON values into dataclasses and the types of their fields: the inverse of `gojson`.

As in Go, a key in another case is used if none matches exactly, and unknown keys are ignored.
Missing fields get their default, and so do null fields whose type does not allow None: Go writes
null for empty slices and maps. `msgspec.convert` supports neither these rules nor unions of two
dataclasses nor Go durations, so it is used for msgspec's own structs only.
"""

from __future__ import annotations

import base64
import json
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)
from uuid import UUID

from riverui.engine.args.fields import StructKind, hints_of, per_type, struct_kind, typed_fields
from riverui.engine.args.gojson import Unfit
from riverui.errors import ConfigError, OutputError

Reader = Callable[[Any], Any]

_MISSING: Any = object()
"""Stands for a missing key, which is not the same as null."""
_MAX_SHOWN = 80
"""Characters of a rejected value in the message: enough to recognize it."""


def refuse_constant(name: str) -> Any:
    """Raise ValueError for NaN and infinities, which Python reads but JSON does not have."""
    raise ValueError(f"{name} is not valid JSON")


scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
    parse_constant=refuse_constant
).scan_once  # type: ignore[attr-defined]  # missing in typeshed


def parse(text: str) -> Any:
    """Return JSON text as Python values; ValueError for invalid JSON."""
    try:
        value, end = scan(text, 0)
    except StopIteration:
        end = -1
    if end == len(text):
        return value
    return json.loads(text, parse_constant=refuse_constant)


@per_type
def reader(annotation: Any) -> Reader:
    """Return a function that reads values of a type; TypeError for a type that has no JSON form.

    The function raises Unfit, with the path, for a value of another type.
    """
    return _reader(annotation, {})


def output_as(value: Any, output_type: Any) -> Any:
    """Return a job's output as a type. OutputError if it does not fit, ConfigError if the type has
    no JSON form.
    """
    name = getattr(output_type, "__name__", output_type)
    try:
        read = reader(output_type)
    except TypeError as error:
        raise ConfigError(f"{name} cannot be read from JSON: {error}") from None
    try:
        return read(value)
    except (Unfit, ValueError, RecursionError) as error:
        raise OutputError(f"the output does not fit {name}: {error}") from error


def _reader(annotation: Any, building: dict[type, list[Reader]]) -> Reader:
    """Return a function that reads values of a type.

    `building` holds the structs that are not finished yet, as a type may contain itself.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _reader(inner[0], building)
    if annotation in _READERS:
        return _READERS[annotation]
    if annotation is Any or annotation is object or isinstance(annotation, TypeVar):
        return _as_it_is
    if origin in (Union, UnionType):
        return _union([(each, _reader(each, building)) for each in inner])
    if origin is Literal:
        return _one_of(
            {choice.value if isinstance(choice, Enum) else choice: choice for choice in inner}
        )
    for alias in ("__supertype__", "__value__"):  # NewType, and `type X = …`
        if hasattr(annotation, alias):
            return _reader(getattr(annotation, alias), building)
    cls = origin or annotation
    if not isinstance(cls, type):
        raise TypeError(f"args cannot hold a {annotation!r}")
    if issubclass(cls, Enum):
        return _one_of({member.value: member for member in cls})
    if is_typeddict(cls) or struct_kind(cls) is not None:
        return _struct(cls, building)
    if cls is tuple and inner and inner[-1] is not ...:
        return _fixed([_reader(each, building) for each in inner])
    if cls in _DICTS:
        key, value = inner or (str, Any)
        return _dict(_key_reader(key, building), _reader(value, building))
    if cls in _LISTS:
        return _list(_reader(inner[0], building) if inner else _as_it_is, _LISTS[cls])
    raise TypeError(f"args cannot hold a {cls.__name__}")


def _as_it_is(value: Any) -> Any:
    return value


def _name(value: Any) -> str:
    return _NAMES.get(type(value), type(value).__name__)


_NAMES = {
    NoneType: "null",
    bool: "true or false",
    dict: "an object",
    float: "a number with decimals",
    int: "a whole number",
    list: "a list",
    str: "text",
}


def _exactly(cls: type, name: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is cls:
            return value
        raise Unfit(f"expected {name}, got {_name(value)}")

    return read


def _float(value: Any) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise Unfit(f"expected a number, got {_name(value)}")


def _text(parse: Callable[[str], Any], name: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not str:
            raise Unfit(f"expected {name}, got {_name(value)}")
        try:
            return parse(value)
        except (ValueError, InvalidOperation):
            raise Unfit(f"expected {name}, got {value[:_MAX_SHOWN]!r}") from None

    return read


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or len(text) < len("2006-01-02T15:04Z"):
        raise ValueError
    return at


def _decimal(value: Any) -> Decimal:
    if type(value) is int or type(value) is float:
        return Decimal(repr(value))
    found: Decimal = _text(Decimal, "a decimal number")(value)
    if not found.is_finite():
        raise Unfit("expected a finite number")
    return found


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _duration(value: Any) -> timedelta:
    if type(value) is not int:
        raise Unfit(f"expected whole nanoseconds, got {_name(value)}")
    try:
        return timedelta(microseconds=value // 1000)
    except OverflowError:
        raise Unfit("the duration is out of range") from None


_READERS: Mapping[Any, Reader] = {
    str: _exactly(str, "text"),
    int: _exactly(int, "a whole number"),
    bool: _exactly(bool, "true or false"),
    float: _float,
    None: _exactly(NoneType, "null"),
    NoneType: _exactly(NoneType, "null"),
    datetime: _text(_time, "a time with its zone (RFC 3339)"),
    date: _text(date.fromisoformat, "a date"),
    timedelta: _duration,
    bytes: _text(_bytes, "base64"),
    bytearray: _text(lambda text: bytearray(_bytes(text)), "base64"),
    UUID: _text(UUID, "a UUID"),
    Decimal: _decimal,
    list: _exactly(list, "a list"),
    dict: _exactly(dict, "an object"),
}


_DICTS = (dict, abc.Mapping, abc.MutableMapping)
_LISTS: Mapping[type, Callable[[list[Any]], Any]] = {
    list: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.MutableSequence: list,
    abc.Sequence: list,
    tuple: tuple,
    set: set,
    abc.Set: set,
    abc.MutableSet: set,
    frozenset: frozenset,
}


def _one_of(choices: Mapping[Any, Any]) -> Reader:
    # True is 1 and 1.0 to Python, but not to JSON.
    known = {(type(value), value): choice for value, choice in choices.items()}

    def read(value: Any) -> Any:
        try:
            return known[type(value), value]
        except (KeyError, TypeError):
            names = ", ".join(repr(name) for name in choices)
            raise Unfit(f"expected one of {names}, got {str(value)[:_MAX_SHOWN]!r}") from None

    return read


def _union(members: Sequence[tuple[Any, Reader]]) -> Reader:
    """Return a function that reads values of a union, by the first member that accepts them."""
    others = [read for annotation, read in members if annotation is not NoneType]
    if len(others) == 1:
        read_other = others[0]
        return lambda value: None if value is None else read_other(value)

    def read(value: Any) -> Any:
        reasons = []
        for _, read_member in members:
            try:
                return read_member(value)
            except Unfit as unfit:
                reasons.append(str(unfit))
        raise Unfit("; or ".join(reasons))

    return read


def _list(read_each: Reader, make: Callable[[list[Any]], Any]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Unfit(f"expected a list, got {_name(value)}")
        found: list[Any] = []
        try:
            for each in value:
                found.append(read_each(each))
        except Unfit as unfit:
            raise unfit.within(str(len(found))) from None
        return make(found)

    return read


def _fixed(readers: Sequence[Reader]) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(readers):
            raise Unfit(f"expected a list of {len(readers)}")
        return tuple(read_each(each) for read_each, each in zip(readers, value, strict=True))

    return read


def _dict(read_key: Reader, read_value: Reader) -> Reader:
    def read(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise Unfit(f"expected an object, got {_name(value)}")
        found = {}
        for key, each in value.items():
            try:
                found[read_key(key)] = read_value(each)
            except Unfit as unfit:
                raise unfit.within(key) from None
        return found

    return read


def _key_reader(annotation: Any, building: dict[type, list[Reader]]) -> Reader:
    """Return a function that reads keys of an object, which are text in JSON."""
    return _text(int, "a whole number") if annotation is int else _reader(annotation, building)


class _Slot(NamedTuple):
    """How one field of a struct is read."""

    name: str
    attribute: str
    plain: type | None
    """The type whose values need no reader; None if all values do."""
    read: Reader
    nullable: bool
    required: bool
    empty: Any
    """The value read for null where one is required: an empty list or object, or None."""


def _struct(cls: Any, building: dict[type, list[Reader]]) -> Reader:
    if cls in building:
        finished = building[cls]
        return lambda value: finished[0](value)
    finished = building[cls] = []
    match struct_kind(cls):
        case StructKind.PYDANTIC:
            read: Reader = _pydantic(cls)
        case StructKind.MSGSPEC:
            read = _msgspec(cls)
        case StructKind.DATACLASS:
            fields = [field for field in typed_fields(cls) if field.init]
            for field in fields:
                if field.omit_empty and field.required:
                    raise TypeError(
                        f"{field.attribute} may be left out of the JSON, so it needs a default"
                    )
            read = _slots(
                cls,
                [_slot(f.name, f.attribute, f.annotation, f.required, building) for f in fields],
            )
        case _:
            slots = []
            for name, hint in hints_of(cls).items():
                required, bare = _bare(hint, name in cls.__required_keys__)
                slots.append(_slot(name, name, bare, required, building))
            read = _slots(cls, slots)
    finished.append(read)
    return read


def _bare(hint: Any, required: bool) -> tuple[bool, Any]:
    """Return whether a TypedDict must have the field, and the field's type.

    `required` is from `__required_keys__`, which is wrong if the hints are text.
    """
    origin = get_origin(hint)
    return (
        (origin is Required, get_args(hint)[0])
        if origin in (Required, NotRequired)
        else (required, hint)
    )


def _slot(
    name: str, attribute: str, annotation: Any, required: bool, building: dict[type, list[Reader]]
) -> _Slot:
    bare = annotation
    while get_origin(bare) is Annotated:
        bare = get_args(bare)[0]
    nullable = (
        bare in (Any, object, None, NoneType)
        or NoneType in get_args(bare)
        or isinstance(bare, TypeVar)
    )
    cls = get_origin(bare) or bare
    empty: Any = [] if cls in _LISTS else {} if cls in _DICTS else None
    plain = bare if bare in (str, int, bool) else None
    return _Slot(name, attribute, plain, _reader(annotation, building), nullable, required, empty)


def _slots(cls: Any, slots: Sequence[_Slot]) -> Reader:
    names = frozenset(slot.name for slot in slots)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Unfit(f"expected an object, got {_name(value)}")
        arguments = {}
        for name, attribute, plain, read_field, nullable, required, empty in slots:
            found = value.get(name, _MISSING)
            if found is _MISSING and value:
                found = _in_other_case(value, name, names)
            if type(found) is plain:
                arguments[attribute] = found
                continue
            try:
                if found is _MISSING:
                    if required:
                        raise Unfit("missing, and has no default")
                elif found is not None or nullable:
                    arguments[attribute] = read_field(found)
                elif required:
                    arguments[attribute] = read_field(empty)
            except Unfit as unfit:
                raise unfit.within(name) from None
        try:
            return cls(**arguments)
        except (TypeError, ValueError) as error:
            raise Unfit(f"{cls.__name__} rejected it: {error}") from error

    return read


def _in_other_case(value: Mapping[str, Any], name: str, names: frozenset[str]) -> Any:
    """Return the value of a key that differs from the name in case only; the last of several, as in
    Go.
    """
    lowered, found = name.lower(), _MISSING
    for key in value:
        if key.lower() == lowered and key not in names:
            found = value[key]
    return found


def _pydantic(cls: Any) -> Reader:
    def read(value: Any) -> Any:
        try:
            return cls.model_validate_json(json.dumps(value))
        except ValueError as error:
            raise Unfit(str(error)) from error

    return read


def _msgspec(cls: Any) -> Reader:
    import msgspec

    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise Unfit(str(error)) from error

    return read
