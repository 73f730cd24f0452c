"""A model is encoded, checked, described and shown by its class alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

import pytest
from msgspec import UNSET, Meta, Raw, UnsetType

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, limit
from riverui.web.api.job_models import Ids, Query
from riverui.web.api.models import Body, Concurrency, Count, Model, Partition, Time
from riverui.web.api.openapi import document, example, parameter_schema
from tests.web.api.test_openapi import described, entries


class Note(Model, frozen=True, kw_only=True):
    """A note."""

    id: Count
    at: Time
    text: str | None
    more: Annotated[str, Meta(description="Present if there is more.")] | UnsetType = UNSET
    raw: Raw

    @classmethod
    def example(cls) -> Note:
        """Return a note without more."""
        return cls(id=7, at="2026-11-21T09:00:00Z", text="<é>", raw=Raw(b'{"a": 1.10}'))


class NewNote(Body, frozen=True, kw_only=True):
    """A note to be made."""

    text: str
    tags: tuple[Literal["red", "blue"], ...] = ()
    size: int = 1

    refusals: ClassVar[dict[str, Any]] = {
        "text": lambda value: f"{value!r} is no text.",
        "tags": "`tags` must be a list.",
        "tags[]": "Unknown tag.",
    }


async def handler(request: object) -> Any:
    """Answer nothing: the route is only described."""


NOTES = Endpoint(
    "POST",
    "/api/notes",
    "api.notes",
    "jobs.read",
    handler,
    Description(group="Notes", summary="Notes.", answer=Note, body=(NewNote,), fails=(409,)),
)


def test_fields_are_encoded_in_their_order_and_raw_json_as_it_stands() -> None:
    found = Note.example()
    assert serializers.dump(found) == (
        '{"id":7,"at":"2026-11-21T09:00:00Z","text":"<é>","raw":{"a": 1.10}}'
    )
    assert serializers.reply(found, status=202).status_code == 202


def test_the_document_tells_of_its_fields_and_its_example() -> None:
    told = document([NOTES])
    note = told["components"]["schemas"]["Note"]
    assert note["description"] == "A note."
    assert note["required"] == ["id", "at", "text", "raw"]
    assert note["properties"]["at"] == {"type": "string", "format": "date-time"}
    assert note["properties"]["id"] == {"type": "integer", "minimum": 0}
    assert note["properties"]["more"]["description"] == "Present if there is more."
    assert note["examples"] == [example(Note)]
    assert list(note["examples"][0]) == ["id", "at", "text", "raw"]
    operation = told["paths"]["/api/notes"]["post"]
    assert operation["x-right"] == "jobs.read"
    assert {"200", "400", "409", "413"} <= set(operation["responses"])
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/NewNote"}


@pytest.mark.parametrize(
    ("posted", "words"),
    [
        ({}, "None is no text."),
        ({"text": 7}, "7 is no text."),
        ({"text": "a", "tags": "red"}, "`tags` must be a list."),
        ({"text": "a", "tags": ["green"]}, "Unknown tag."),
        ({"text": "a", "tags": [7]}, "Unknown tag."),
        ({"text": "a", "size": 1.5}, "`size`: Expected `int`, got `float` - at `$.size`."),
    ],
)
def test_what_does_not_fit_is_told_in_its_own_words(posted: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=f"^{re.escape(words)}$"):
        requests.convert(posted, NewNote)


def test_what_fits_is_a_model() -> None:
    found = requests.convert({"text": "a", "tags": ["red"], "unknown": 1}, NewNote)
    assert (found.text, found.tags, found.size) == ("a", ("red",), 1)


def test_ids_are_numbers_or_text_each_once() -> None:
    posted = {"ids": ["3", 1, "+1", -2, 3, 2**63 - 1]}
    assert requests.convert(posted, Ids).numbers() == (3, 1, -2, 2**63 - 1)


def test_an_empty_state_is_any() -> None:
    for state in (None, [], [""], "", 0):
        assert requests.convert({"query": "", "state": state}, Query).state == ()
    assert requests.convert({"query": "", "state": ["running", ""]}, Query).state == (
        JobState.RUNNING,
    )


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ({}, Concurrency()),
        ({"global_limit": None, "partition": None}, Concurrency()),
        (
            {"local_limit": 3, "partition": {"by_args": ["a"], "by_kind": None}, "more": 1},
            Concurrency(local_limit=3, partition=Partition(by_args=["a"])),
        ),
        ({"partition": {"by_args": [None]}}, None),
        ({"global_limit": 10**30}, None),
        ({"global_limit": True}, None),
        (None, None),
        ([], None),
    ],
)
def test_limits_are_read_as_go_reads_them(stored: object, found: Concurrency | None) -> None:
    assert Concurrency.read(stored) == found


@pytest.mark.parametrize(
    ("parameter", "schema"),
    [
        (Parameter(name="q", summary=""), {"type": "string"}),
        (limit(20), {"type": "integer", "minimum": 0, "maximum": 1000, "default": 20}),
        (
            Parameter(name="tag", summary="", type=list[str], max_items=3),
            {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        ),
        (
            Parameter(name="desc", summary="", type=bool, default=False),
            {"type": "boolean", "default": False},
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_parameter_is_described_by_its_type(parameter: Parameter, schema: object) -> None:
    assert parameter_schema(parameter) == schema


def test_times_are_in_utc_as_go_writes_them() -> None:
    at = datetime(2026, 11, 21, 9, 0, 0, 120_000, tzinfo=UTC)
    assert serializers.instant(at) == "2026-11-21T09:00:00.12Z"
    assert serializers.instant(datetime.fromisoformat("2026-11-21T10:00+01:00")) == (
        "2026-11-21T09:00:00Z"
    )
    assert serializers.optional_instant(None) is None


def test_every_model_that_is_taken_or_answered_has_a_docstring_and_an_example() -> None:
    told = [entry.description for entry in entries()]
    models = {
        model
        for each in told
        for model in (each.answer, each.accepted, *each.body)
        if model is not None
    }
    assert len(models) > 10
    for model in models:
        assert vars(model).get("__doc__"), model
        assert described()[model.__name__]["examples"] == [example(model)]
