"""JSON as Postgres may hold it: deeper and longer than Python reads it."""

from __future__ import annotations

import math

import pytest

from riverui.domain.stored_json import (
    MOST_DEPTH,
    UnreadableJson,
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
    deepest = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert write_json(read_json(deepest)) == deepest
    assert write_json(read_json(' { "a" : "ä" } ')) == '{"a":"ä"}'
    with pytest.raises(UnreadableJson):
        read_json(f"[{deepest}]")


def test_brackets_in_text_and_side_by_side_are_no_depth() -> None:
    text = f"""[{'"[{" , ' * 1_000}{"[[]], " * 1_000}"\\"["]"""
    assert len(read_json(text)) == 2_001
