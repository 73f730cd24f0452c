"""The kind of job args, and their JSON.

Args are an instance of a dataclass, a pydantic model or a msgspec struct with a class attribute
`kind`; an object with `kind` and `to_json()`, as in River's insert-only Python client; or
`JsonArgs`.

    @dataclass
    class SendMail:
        kind: ClassVar[str] = "send_mail"
        to: Annotated[str, Unique]
        retries: int = 3

Their class may also have: `insert_opts()`, how such jobs are inserted; `upgrade(args)`, a class or
static method that turns the dict of an older version into a current one; `kind_aliases`, older
kinds that its worker works as well; `ephemeral = True`, which deletes such jobs when they have
succeeded; `retry`, whether and when they are retried; `hooks` and `plugins`, for these jobs alone.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias, cast

from riverui.domain.retries import Retry
from riverui.domain.sealed_args import OpenedArgs
from riverui.domain.values import MAX_KIND_CHARACTERS
from riverui.engine.args import gojson
from riverui.engine.args.decoding import parse, reader
from riverui.engine.args.fields import KIND, StructKind, Unique, fields_of, per_type, struct_kind
from riverui.engine.args.gojson import Unfit
from riverui.engine.setting_checks import check_retry
from riverui.errors import ArgsError, ConfigError

__all__ = [
    "JobArgs",
    "JsonArgs",
    "Unique",
    "decoder",
    "encode",
    "ephemeral_of",
    "hooks_of",
    "insert_opts_of",
    "kind_aliases_of",
    "kind_of",
    "plugins_of",
    "retry_of",
]


# Type checkers should reject `insert(SendMail)` for `insert(SendMail(…))`, so each of these
# protocols has a member that an instance has and its class lacks. For mypy any method will do, as a
# class's needs the instance. pyright looks at the metaclass first: it accepts no ClassVar for a
# class's attribute, `__dict__` of a class is not a dict, and no metaclass has the methods of the
# others.


class _KindOfClass(Protocol):
    kind: ClassVar[str]

    def __sizeof__(self) -> int: ...


class _KindOfInstance(Protocol):
    def __sizeof__(self) -> int: ...

    @property
    def __dict__(self) -> dict[str, Any]: ...  # type: ignore[override]  # object's can be set

    @property
    def kind(self) -> str: ...


class _KindOfPydanticModel(Protocol):
    def model_dump(self) -> dict[str, Any]: ...

    @property
    def kind(self) -> str: ...


class _KindOfMsgspecStruct(Protocol):
    def __rich_repr__(self) -> Any: ...

    @property
    def kind(self) -> str: ...


class _KindBesideJson(Protocol):
    def to_json(self) -> str | bytes: ...

    @property
    def kind(self) -> str: ...


JobArgs: TypeAlias = (
    _KindOfClass | _KindOfInstance | _KindOfPydanticModel | _KindOfMsgspecStruct | _KindBesideJson
)
"""The types of args, for type checkers. They do not check whether JSON can hold them."""


class JsonArgs:
    """A job of any kind with any args: `JsonArgs("sort", {"strings": ["b", "a"]})`."""

    kind: str

    def __init__(self, kind: str, data: Mapping[str, Any]) -> None:
        self.kind = kind
        self.data = data

    def __repr__(self) -> str:
        return f"JsonArgs({self.kind!r}, {self.data!r})"


class JsonText:
    """A job of any kind whose args are JSON text already, like Go's `json.RawMessage`."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self._text = text

    def to_json(self) -> str:
        """Return the text."""
        return self._text


class ReadAgain:
    """Args whose JSON is decoded at insert, as their worker will decode it, so that args that do
    not fit fail the insert instead of the job.
    """


def kind_of(args: object) -> str:
    """Return the kind of args, or of a type of args; ArgsError if River would reject it."""
    kind = getattr(args, KIND, None)
    if type(kind) is str and 0 < len(kind) <= MAX_KIND_CHARACTERS:
        return kind
    return _kind(args, kind)


def _kind(args: object, kind: object) -> str:
    cls = args if isinstance(args, type) else type(args)
    if isinstance(args, type) and kind is None:
        # A pydantic field is not an attribute of its class, but its default is known.
        field = getattr(args, "model_fields", {}).get(KIND)
        kind = None if field is None else field.get_default()
    if isinstance(kind, str):
        if 0 < len(kind) <= MAX_KIND_CHARACTERS:
            return str.__str__(kind)
        raise ArgsError(
            f"the kind of {cls.__name__} must have 1 to {MAX_KIND_CHARACTERS} characters"
        )
    if isinstance(getattr(args, "args_type", None), type):
        raise ArgsError(
            f"{args!r} is not job args: insert what its args(…) returns, or call its"
            " insert(client, …)"
        )
    raise ArgsError(
        f'{cls.__name__} needs a kind to be job args, such as: kind: ClassVar[str] = "send_mail"'
    )


def check_instance(args: object) -> None:
    """Raise ArgsError for a class instead of an instance, or a value without a kind, such as a
    dict.
    """
    if isinstance(args, type):
        raise ArgsError(f"{args.__name__} is a class: insert an instance, {args.__name__}(…)")
    if isinstance(args, str | bytes | Mapping | list | tuple | int | float | None) and not hasattr(
        args, KIND
    ):
        raise ArgsError(
            f"{type(args).__name__} is not a job args type: insert an instance of a class with a"
            ' kind, or JsonArgs("send_mail", {"to": "ann@example.com"})'
        )


def encode(args: object) -> str:
    """Return args as Go's `json.Marshal` writes them; ArgsError with the path to what cannot be
    written.
    """
    try:
        return encoder(type(args))(args)
    except (Unfit, RecursionError) as error:
        raise unwritable(args, error) from None


def unwritable(args: object, error: Exception) -> ArgsError:
    """Return the ArgsError for an exception that an `encoder` raised."""
    why = gojson.too_deep() if isinstance(error, RecursionError) else error
    return ArgsError(f"args of {type(args).__name__} cannot be written as JSON: {why}")


def unique_form(args: object, encoded: str) -> str:
    """Return the JSON to hash for unique keys: `to_json()` may use other spaces and escapes."""
    if isinstance(args, JsonText):
        return gojson.compact(encoded)
    return gojson.canonical(encoded) if writes_itself(type(args)) else encoded


@per_type
def writes_itself(cls: type) -> bool:
    """Return whether args of that type have `to_json()`."""
    return callable(getattr(cls, "to_json", None))


@per_type
def encoder(cls: type) -> Callable[[Any], str]:
    """Return a function from args of that type to JSON text; ArgsError for a type that has none.

    Pass the Unfit or RecursionError that it raises to `unwritable`.
    """
    if writes_itself(cls):
        return lambda args: check_object(args.to_json())
    if issubclass(cls, JsonArgs):
        return lambda args: _object(gojson.dump(args.data))
    if struct_kind(cls) is StructKind.DATACLASS:
        write, finished = gojson.writer(cls), gojson.finished
        if issubclass(cls, ReadAgain):
            return _read_again(lambda args: finished(write(args)), decoder(cls))
        return lambda args: finished(write(args))
    if struct_kind(cls) is not None:
        return lambda args: _object(gojson.dump(args))
    raise ArgsError(
        f"{cls.__name__} cannot be job args: use a dataclass, a pydantic model, a msgspec struct,"
        " JsonArgs, or give it to_json()"
    )


def _read_again(write: Callable[[Any], str], read: Callable[[str], Any]) -> Callable[[Any], str]:
    def written(args: Any) -> str:
        text = write(args)
        read(text)
        return text

    return written


def _object(text: str) -> str:
    if text.startswith("{"):
        return text
    raise Unfit("args must be a JSON object")


def check_object(text: object) -> str:
    """Return the text if it is a JSON object that Postgres can keep; Unfit otherwise."""
    if isinstance(text, bytes | bytearray):
        text = text.decode()
    if not isinstance(text, str):
        raise Unfit(f"expected text, got {type(text).__name__}")
    try:
        value = parse(text)
    except ValueError as error:
        raise Unfit(f"it is not valid JSON: {error}") from None
    if type(value) is not dict:
        raise Unfit("args must be a JSON object")
    if "\\u" in text or not text.isascii():
        # Escapes may hide characters that Postgres rejects.
        gojson.finished(json.dumps(value, ensure_ascii=False))
    return text


@per_type
def decoder(cls: Any) -> Callable[[str], Any]:
    """Return a function from JSON text to args of that type; ConfigError for one that has none.

    The function raises ArgsError, with the path, for text that does not fit.
    """
    try:
        read = _upgrading(cls) or _decoder(cls)
    except TypeError as error:
        raise ConfigError(f"{getattr(cls, '__name__', cls)} cannot be job args: {error}") from None

    def decode(text: str) -> Any:
        try:
            return read(text)
        except Exception as error:
            if isinstance(text, OpenedArgs):
                # The error may quote what was encrypted, and would be stored with the job.
                raise ArgsError(
                    f"the args do not fit {cls.__name__}; as they were encrypted, details are"
                    " withheld"
                ) from None
            if isinstance(error, Unfit | ValueError):
                raise ArgsError(f"the args do not fit {cls.__name__}: {error}") from error
            raise

    return decode


def _decoder(cls: Any) -> Callable[[str], Any]:
    if callable(from_json := getattr(cls, "from_json", None)):
        return from_json  # type: ignore[no-any-return]  # its result is the args
    read = reader(dict)
    if cls is dict:
        return lambda text: read(parse(text))
    if isinstance(cls, type) and issubclass(cls, JsonArgs):
        json_args: Callable[[str, Any], Any] = cls
        return lambda text: json_args(kind_of(cls), read(parse(text)))
    match struct_kind(cls):
        case StructKind.PYDANTIC:
            return cls.model_validate_json  # type: ignore[no-any-return]  # pydantic is not imported here
        case StructKind.MSGSPEC:
            return _msgspec_decoder(cls)
        case StructKind.DATACLASS:
            read = reader(cls)
            return lambda text: read(parse(text))
    raise TypeError("use a dataclass, a pydantic model, a msgspec struct, or give it from_json()")


def upgrades(cls: Any) -> bool:
    """Return whether args of that type have an `upgrade` of older ones."""
    found = inspect.getattr_static(cls, "upgrade", None)
    return isinstance(found, classmethod | staticmethod)


def _upgrading(cls: Any) -> Callable[[str], Any] | None:
    """Return a function that reads args of a type with an `upgrade`; None for other types."""
    if not upgrades(cls):
        return None
    upgrade, as_object = cls.upgrade, reader(dict)

    def upgraded(text: str) -> Any:
        return as_object(upgrade(as_object(parse(text))))

    if struct_kind(cls) is StructKind.DATACLASS and not hasattr(cls, "from_json"):
        read = reader(cls)
        return lambda text: read(upgraded(text))
    decode = _decoder(cls)
    return lambda text: decode(json.dumps(upgraded(text)))


def _msgspec_decoder(cls: Any) -> Callable[[str], Any]:
    import msgspec

    decode = msgspec.json.Decoder(cls).decode

    def read(text: str) -> Any:
        try:
            return decode(text)
        except msgspec.MsgspecError as error:
            raise Unfit(str(error)) from error

    return read


def insert_opts_of(args: object) -> Any:
    """Return the InsertOpts that the args define; None without."""
    return args.insert_opts() if has_insert_opts(type(args)) else None  # type: ignore[attr-defined]  # checked


@per_type
def has_insert_opts(cls: type) -> bool:
    """Return whether args of that type define InsertOpts."""
    return callable(getattr(cls, "insert_opts", None))


class SameInsertOpts:
    """An `insert_opts` method that returns the same options for all args of a type."""

    def __init__(self, insert_opts: object) -> None:
        self._insert_opts = insert_opts

    def __call__(self) -> Any:
        """Return the options."""
        return self._insert_opts


@per_type
def insert_opts_vary(cls: type) -> bool:
    """Return whether the options may differ between instances."""
    return has_insert_opts(cls) and not isinstance(
        getattr(cls, "insert_opts", None), SameInsertOpts
    )


def kind_aliases_of(cls: type) -> tuple[str, ...]:
    """Return older kinds whose jobs have these args."""
    return tuple(_declared(cls, "kind_aliases"))


def ephemeral_of(cls: type) -> bool:
    """Return whether jobs with these args are deleted when they have succeeded."""
    return _declared(cls, "ephemeral") is True


@per_type
def retry_of(cls: type) -> Retry | None:
    """Return the Retry of jobs with these args, or None; ConfigError for another value."""
    said = getattr(cls, "retry", None)
    if callable(said) or _has_field(cls, "retry"):
        return None
    check_retry(f"{getattr(cls, '__name__', cls)}.retry", said)
    return cast(Retry | None, said)


@per_type
def plugins_of(cls: type) -> tuple[object, ...]:
    """Return the hooks and then the plugins that these args declare, unchecked."""
    return (*hooks_of(cls), *_declared(cls, "plugins"))


def hooks_of(cls: type) -> tuple[object, ...]:
    """Return the hooks that these args declare and that are not middleware, unchecked."""
    return tuple(_declared(cls, "hooks"))


def _declared(cls: type, name: str) -> Any:
    """Return a class attribute, or the result of a class or static method of that name; an empty
    tuple if a field has the name.
    """
    if _has_field(cls, name):
        return ()
    said = getattr(cls, name, ())
    return said() if callable(said) else said


def _has_field(cls: type, name: str) -> bool:
    return struct_kind(cls) is not None and any(field.attribute == name for field in fields_of(cls))
