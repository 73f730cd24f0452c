"""The base classes of the API's models, and the models that several sections share.

A class defines a model completely: its JSON, the values it accepts, its schema and its example in
the OpenAPI document. Fields are encoded in the order of their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
from msgspec import Meta, Struct

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in UTC as Go writes it (`serializers.instant`)."""
Count = Annotated[int, Meta(ge=0)]
Id = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
NeededText = Annotated[str, Meta(min_length=1)]

Refusal = str | Callable[[Any], str]
"""Error message for a value of the wrong type, or a function that makes it from the value."""


class Model(Struct, frozen=True, kw_only=True, gc=False):
    """A JSON object that the API answers with or accepts."""

    # No model holds itself, so Python's cycle collector need not look at any (gc=False).

    @classmethod
    def example(cls) -> Self | None:
        """Return an example for the reference, or None."""
        return None


class Body(Model, frozen=True, kw_only=True):
    """A JSON object that the API accepts; unknown fields are ignored."""

    refusals: ClassVar[Mapping[str, Refusal]] = {}
    """Error messages for bad values, by field; `field[]` is an item of a list."""

    @classmethod
    def tidied(cls, posted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the posted values without those that count as left out."""
        return posted


EXAMPLE_TIME = "2026-11-21T09:00:00Z"
"""The time used in examples."""


class Error(Model, frozen=True, kw_only=True):
    """The body of every error answer."""

    message: str

    @classmethod
    def example(cls) -> Self:
        """Return the error for a job that does not exist."""
        return cls(message="Job not found: 7.")


class Status(Model, frozen=True, kw_only=True):
    """The request was carried out."""

    status: Literal["ok"] = "ok"

    @classmethod
    def example(cls) -> Self:
        """Return the only instance."""
        return cls()


class Partition(Model, frozen=True, kw_only=True):
    """The keys by which a queue's limits are partitioned."""

    by_args: list[str] | None = None
    by_kind: bool = False


class Concurrency(Model, frozen=True, kw_only=True):
    """A queue's limits (River Pro); 0 means no limit."""

    global_limit: Int32 = 0
    local_limit: Int32 = 0
    partition: Partition = msgspec.field(default_factory=Partition)

    @classmethod
    def read(cls, value: object) -> Self | None:
        """Return the limits stored in a queue's metadata; None if their form is unknown.

        A null counts as a missing field, as in Go's JSON.
        """
        try:
            return msgspec.convert(without_nulls(value), cls)
        except msgspec.ValidationError:
            return None


def without_nulls(value: object) -> object:
    """Return a JSON value without the null fields of its objects."""
    if not isinstance(value, Mapping):
        return value
    return {name: without_nulls(item) for name, item in value.items() if item is not None}
