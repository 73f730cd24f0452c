"""JSON from the database: what can be read, and how two texts differ."""

from __future__ import annotations

import json
import math

import pytest

from riverui.domain.json import (
    MAX_CHANGES,
    MAX_DEPTH,
    MAX_VALUE,
    UnreadableJson,
    json_diff,
    read_json,
    read_object,
    write_json,
)

DEEP = "[" * 100_000 + "]" * 100_000

DIGITS = "9" * 5_000


def test_json_is_read_as_it_stands() -> None:
    assert read_json('{"a":[1,2.5,"ä",null,true]}') == {"a": [1, 2.5, "ä", None, True]}


def test_json_nested_too_deep_is_unreadable() -> None:
    with pytest.raises(UnreadableJson, match="nested too deep"):
        read_json(DEEP)


@pytest.mark.parametrize("text", ["", "{", "nothing", "[1,]"])
def test_text_that_is_no_json_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableJson):
        read_json(text)


def test_a_number_of_many_digits_leaves_the_rest_readable() -> None:
    found = read_json(f'{{"many": {DIGITS}, "few": 12, "minus": -{DIGITS}}}')
    assert found == {"many": math.inf, "few": 12, "minus": -math.inf}
    assert isinstance(found["few"], int)


def test_a_number_of_many_digits_in_deep_json_is_unreadable() -> None:
    with pytest.raises(UnreadableJson):
        read_json(f"[{DIGITS}, {DEEP}]")


@pytest.mark.parametrize("text", [None, "", "null", "7", '"text"', "[]", "{", DEEP, DIGITS])
def test_what_is_no_object_is_read_as_an_empty_one(text: str | None) -> None:
    assert read_object(text) == {}


def test_an_object_is_read_as_one() -> None:
    assert read_object('{"a": 1}') == {"a": 1}


def test_what_is_read_can_be_written() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert write_json(read_json(deepest)) == deepest
    assert write_json(read_json(' { "a" : "ä" } ')) == '{"a":"ä"}'
    with pytest.raises(UnreadableJson):
        read_json(f"[{deepest}]")


def test_brackets_in_text_and_side_by_side_are_no_depth() -> None:
    text = f"""[{'"[{" , ' * 1_000}{"[[]], " * 1_000}"\\"["]"""
    assert len(read_json(text)) == 2_001


def changes(before: object, after: object) -> list[tuple[str, str | None, str | None]]:
    found = json_diff(json.dumps(before), json.dumps(after))
    assert found.complete
    return [(each.path, each.before, each.after) for each in found.changes]


def test_leaves_alone() -> None:
    before = {"to": {"name": "Ada", "tags": ["a", "b"]}, "n": 1, "gone": None}
    after = {"to": {"name": "Ada", "tags": ["a", "c", "d"]}, "n": 1.0, "new": {}}
    assert changes(before, after) == [
        ("to.tags[1]", '"b"', '"c"'),
        ("n", "1", "1.0"),
        ("gone", "null", None),
        ("to.tags[2]", None, '"d"'),
        ("new", None, "{}"),
    ]
    assert json_diff(json.dumps(before), json.dumps(after)).same == 2


def test_another_shape() -> None:
    assert changes({"a": {"b": 1}}, {"a": 2}) == [("a.b", "1", None), ("a", None, "2")]
    assert changes([], {}) == [("", "[]", "{}")]
    assert changes({"a": [1]}, {"a": [1]}) == []


def test_what_cannot_be_read_is_compared_as_a_whole() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    assert json_diff(deep, deep).changes == ()
    (change,) = json_diff(deep, "[]").changes
    assert change.path == ""
    assert json_diff("{", "{").changes == ()
    half = "[" * 300 + "1" + "]" * 300
    assert len(json_diff(half, half.replace("1", "2")).changes) == 1


def test_much_is_bounded() -> None:
    found = json_diff(json.dumps(list(range(30_000))), json.dumps(list(range(1, 30_001))))
    assert len(found.changes) == MAX_CHANGES
    assert not found.complete
    (change,) = json_diff(json.dumps("x" * 9_999), '""').changes
    assert change.before is not None
    assert len(change.before) == MAX_VALUE + 1
