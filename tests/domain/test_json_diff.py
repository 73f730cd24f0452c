"""What differs between two JSON texts."""

from __future__ import annotations

import json

from riverui.domain.json_diff import MOST_CHANGES, MOST_VALUE, json_diff


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
    assert len(found.changes) == MOST_CHANGES
    assert not found.complete
    (change,) = json_diff(json.dumps("x" * 9_999), '""').changes
    assert change.before is not None
    assert len(change.before) == MOST_VALUE + 1
