"""List the fields of dataclasses, pydantic models and msgspec structs as in their JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

KIND = "kind"
"""The attribute that names the kind of a job; a field of this name with a default is not an arg."""


_MAX_TYPES = 1024
"""Types remembered for each function: more than programs have, so that only types made at run time
are ever dropped.
"""


class Unique:
    """Marks a field that counts for uniqueness by args: `account_id: Annotated[int, Unique]`."""


def per_type(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Cache a function's result for each type."""
    return lru_cache(maxsize=_MAX_TYPES)(function)


class StructKind(Enum):
    """The libraries whose classes have fields."""

    DATACLASS = "dataclass"
    PYDANTIC = "pydantic"
    MSGSPEC = "msgspec"


@dataclass(frozen=True, kw_only=True, slots=True)
class StructField:
    """One field of a class, as in its JSON."""

    attribute: str
    name: str
    """Its key in JSON."""
    annotation: Any
    """The type hint as written, with `Annotated`; it may be text."""
    omit_empty: bool = False
    """Whether empty values are left out of the JSON, as with Go's `omitempty`."""
    init: bool = True
    required: bool = False


def struct_kind(cls: type) -> StructKind | None:
    """Return the library of a class; None for any other type."""
    if dataclasses.is_dataclass(cls):
        return StructKind.DATACLASS
    if hasattr(cls, "model_fields") and hasattr(cls, "__pydantic_serializer__"):
        return StructKind.PYDANTIC
    if hasattr(cls, "__struct_fields__"):
        return StructKind.MSGSPEC
    return None


@per_type
def fields_of(cls: Any) -> tuple[StructField, ...]:
    """Return the fields of the JSON, in order; TypeError for a type without fields.

    A dataclass field may have its JSON name as a struct tag of Go's: `field(metadata={"json":
    "name,omitempty"})`; `"-"` leaves it out. pydantic's aliases and msgspec's renames apply.
    """
    match struct_kind(cls):
        case StructKind.DATACLASS:
            found = [_dataclass_field(field) for field in dataclasses.fields(cls)]
        case StructKind.PYDANTIC:
            found = [_pydantic_field(name, info) for name, info in cls.model_fields.items()]
        case StructKind.MSGSPEC:
            found = _msgspec_fields(cls)
        case _:
            raise TypeError(f"{cls!r} has no fields")
    return tuple(
        field
        for field in found
        if field is not None and (field.attribute != KIND or field.required)
    )


def _dataclass_field(field: dataclasses.Field[Any]) -> StructField | None:
    name, *options = str(field.metadata.get("json", "")).split(",")
    if name == "-" and not options:
        return None
    return StructField(
        attribute=field.name,
        name=name or field.name,
        annotation=field.type,
        omit_empty="omitempty" in options,
        init=field.init,
        required=field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING,
    )


def _pydantic_field(name: str, info: Any) -> StructField | None:
    if info.exclude:
        return None
    annotation = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    return StructField(
        attribute=name,
        name=info.serialization_alias or info.alias or name,
        annotation=annotation,
        required=info.is_required(),
    )


def _msgspec_fields(cls: Any) -> list[StructField | None]:
    required = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    return [
        StructField(attribute=attribute, name=name, annotation="", required=place < required)
        for place, (attribute, name) in enumerate(
            zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        )
    ]


def hints_of(cls: Any) -> dict[str, Any]:
    """Return annotations as types, `Annotated` kept; TypeError if a name in them is unknown."""
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(f"the annotations of {cls.__name__} cannot be resolved: {error}") from None


def typed_fields(cls: Any) -> tuple[StructField, ...]:
    """Return `fields_of` with every annotation resolved to a type; TypeError if one cannot be."""
    fields = fields_of(cls)
    if not any(isinstance(field.annotation, str) for field in fields):
        return fields
    hints = hints_of(cls)
    return tuple(dataclasses.replace(field, annotation=hints[field.attribute]) for field in fields)


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    """Return the type without `Annotated` and None, and whether it is marked Unique."""
    unique = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *marks = get_args(annotation)
            unique = unique or any(mark is Unique or isinstance(mark, Unique) for mark in marks)
        elif get_origin(annotation) in (Union, UnionType):
            others = [inner for inner in get_args(annotation) if inner is not type(None)]
            if len(others) != 1:
                return annotation, unique
            annotation = others[0]
        elif get_origin(annotation) is not None and struct_kind(get_origin(annotation)):
            annotation = get_origin(annotation)
        else:
            return annotation, unique
