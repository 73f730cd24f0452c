"""Conditions in a program's own SQL: one condition each, values as parameters only."""

from __future__ import annotations

from typing import Any

import pytest

from riverui.storage.interface.sql_blocks import Fragment, Placeholder, Queries, join
from riverui.storage.postgres.browse.job_select import where_fragment
from riverui.storage.where import Where


def numbered(conditions: list[Where], first: int) -> tuple[str, list[Any]]:
    """Return the conditions in a statement that has parameters before theirs, and their values."""
    before = [f"before_{n}" for n in range(1, first)]
    statement = Fragment(
        (*map(Placeholder, before), join([where_fragment(each) for each in conditions], " and ")),
        dict.fromkeys(before),
    )
    text, values = Queries([], None).render(statement)
    return text.removeprefix("".join(f"${n}" for n in range(1, first))), values[first - 1 :]


@pytest.mark.parametrize(
    ("sql", "args", "text", "values"),
    [
        ("priority > @least", {"least": 2}, "priority > $5", [2]),
        ("a = @x or b = @y or c = @x", {"x": 1, "y": 2}, "a = $5 or b = $6 or c = $5", [1, 2]),
        ("metadata @> @part::jsonb", {"part": "{}"}, "metadata @> $5::jsonb", ["{}"]),
        (
            "tags <@ @tags and metadata @? '$.a'",
            {"tags": []},
            "tags <@ $5 and metadata @? '$.a'",
            [[]],
        ),
        (
            "metadata@>@part and priority>=@p",
            {"part": "{}", "p": 1},
            "metadata@>$5 and priority>=$6",
            ["{}", 1],
        ),
        (
            "kind = 'it''s @here' and queue = @q",
            {"q": "a"},
            "kind = 'it''s @here' and queue = $5",
            ["a"],
        ),
        (r"kind = E'\'@a' and queue = @q", {"q": "a"}, r"kind = E'\'@a' and queue = $5", ["a"]),
        ('"kind" = $$ @a; $$ -- @b', {}, '"kind" = $$ @a; $$ -- @b', []),
        ("kind = $x$ $$ ' $x$", {}, "kind = $x$ $$ ' $x$", []),
        ("args ->> 'a:b' = :x /* @c */", {}, "args ->> 'a:b' = :x /* @c */", []),
        ("(a or (b)) and c", {}, "(a or (b)) and c", []),
        ("kind like '%' || @end", {"end": "x"}, "kind like '%' || $5", ["x"]),
    ],
)
def test_named_args_become_parameters(
    sql: str, args: dict[str, Any], text: str, values: list[Any]
) -> None:
    assert numbered([Where(sql, args)], 5) == (f"(\n{text}\n)", values)


@pytest.mark.parametrize(
    ("sql", "args", "words"),
    [
        ("true) or (true", {}, "brackets"),
        ("(true", {}, "brackets"),
        ("true; drop table river_job", {}, "';' at character 5"),
        ("kind = 'a", {}, "quotes closed"),
        ('kind = "a', {}, "quotes closed"),
        ("true /* and", {}, "quotes closed"),
        ("true */ and", {}, "quotes closed"),
        ("id = $1", {}, "with @name for values"),
        ("id = @id", {}, "no named args for @id"),
        ("id = @id", {"id": 1, "it": 2}, "does not use @it"),
        ("  ", {}, "empty"),
        ("x" * 10_001, {}, "10,000 characters"),
        ("true", {f"a{n}": n for n in range(1_001)}, "1,000 named args"),
    ],
)
def test_what_is_no_single_condition_is_refused(sql: str, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("$", r"\$")):
        Where(sql, args)


def test_several() -> None:
    text, values = numbered([Where("a = @x", {"x": 1}), Where("b = @x", {"x": 2})], 3)
    assert (text, values) == ("(\na = $3\n) and (\nb = $4\n)", [1, 2])
