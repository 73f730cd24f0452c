"""What the API's models are made of, and those that several sections answer with.

A model is told once: what it encodes to, what is accepted for it, its schema and its example in the
OpenAPI document all come from its class. Fields are encoded in the order in which they stand.
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
"""What is told about a field that is not as its type says, or what makes that of its value."""


class Model(Struct, frozen=True, kw_only=True, gc=False):
    """JSON that the API answers with or takes."""

    # No model holds itself, so Python's cycle collector need not look at any (gc=False).

    @classmethod
    def example(cls) -> Self | None:
        """Return an instance for readers of the reference, or None."""
        return None


class Body(Model, frozen=True, kw_only=True):
    """JSON that the API takes; unknown fields are ignored."""

    refusals: ClassVar[Mapping[str, Refusal]] = {}
    """What is told about a bad value, by field; by `field[]` about an item of a list."""

    @classmethod
    def tidied(cls, posted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was posted without what is taken for a field left out."""
        return posted


EXAMPLE_TIME = "2026-11-21T09:00:00Z"
"""The time of the examples."""


class Error(Model, frozen=True, kw_only=True):
    """What every error answers."""

    message: str

    @classmethod
    def example(cls) -> Self:
        """Return the error of a job that is not there."""
        return cls(message="Job not found: 7.")


class Status(Model, frozen=True, kw_only=True):
    """The request was carried out."""

    status: Literal["ok"] = "ok"

    @classmethod
    def example(cls) -> Self:
        """Return the only one there is."""
        return cls()


class Partition(Model, frozen=True, kw_only=True):
    """What a queue's limits are divided by."""

    by_args: list[str] | None = None
    by_kind: bool = False


class Concurrency(Model, frozen=True, kw_only=True):
    """A queue's limits (River Pro); 0 is none."""

    global_limit: Int32 = 0
    local_limit: Int32 = 0
    partition: Partition = msgspec.field(default_factory=Partition)

    @classmethod
    def read(cls, value: object) -> Self | None:
        """Return limits as they stand in a queue's metadata; None where they are of another form.

        A null is as if the field were left out, as Go reads JSON.
        """
        try:
            return msgspec.convert(without_nulls(value), cls)
        except msgspec.ValidationError:
            return None


def without_nulls(value: object) -> object:
    """Return a JSON value without the fields of its objects that are null."""
    if not isinstance(value, Mapping):
        return value
    return {name: without_nulls(item) for name, item in value.items() if item is not None}
