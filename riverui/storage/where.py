"""A condition in a program's own SQL, for lists of jobs: River's Where with its NamedArgs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MAX_CHARACTERS = 10_000
"""Most characters of one condition: longer data should be in the named args."""
_MAX_ARGS = 1_000
"""Most named args of one condition; a Postgres statement takes 65,535 parameters in all."""

_TOKEN = re.compile(
    r"""
    (?P<quoted>
        (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
        | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ | --[^\n]* | /\*[^*/]*\*/
    )
    | (?<!@)@(?P<name>[A-Za-z_]\w*)
    | (?P<unclear>'|"|/\*|\*/|;|\$\d|\0)
    | (?P<bracket>[()])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on the columns of `river_job`, added to the other filters with AND.

        Where("args ->> 'customer' = any(@customers)", {"customers": ["ann", "bob"]})

    SQL is code. Never put a value from outside into its text: it could then read or delete any
    job. Give values as named args, `@name` in the text, which reach the database as parameters.
    ValueError for a text that is not a single condition, and for names that do not fit it.
    """

    sql: str
    named_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.sql) > _MAX_CHARACTERS:
            raise ValueError(
                f"a condition may have at most {_MAX_CHARACTERS:,} characters: pass values as"
                " named args"
            )
        if len(self.named_args) > _MAX_ARGS:
            raise ValueError(
                f"a condition may have at most {_MAX_ARGS:,} named args: a list counts as one"
            )
        names = set(self._names())
        if missing := names - self.named_args.keys():
            raise ValueError(f"there are no named args for {_listed(missing)}")
        if left := self.named_args.keys() - names:
            raise ValueError(f"the condition does not use {_listed(left)}")

    def split(self) -> Sequence[str]:
        """Return the text split at its named args: text, name, text, …, name, text."""
        parts: list[str] = []
        place = 0
        for match in _TOKEN.finditer(self.sql):
            if match["name"]:
                parts += (self.sql[place : match.start()], match["name"])
                place = match.end()
        return [*parts, self.sql[place:]]

    def _names(self) -> Iterator[str]:
        """Return the names in the text; raise ValueError if it is not complete in itself."""
        open_brackets = 0
        for match in _TOKEN.finditer(self.sql):
            if match["unclear"]:
                raise ValueError(
                    f"{match['unclear']!r} at character {match.start() + 1} of the condition: it"
                    " may be one condition only, its quotes closed, with @name for values"
                )
            if match["bracket"]:
                open_brackets += 1 if match["bracket"] == "(" else -1
                if open_brackets < 0:
                    break
            if match["name"]:
                yield match["name"]
        if open_brackets:
            raise ValueError("the brackets of the condition do not match")
        if not self.sql.strip():
            raise ValueError("the condition is empty")


def _listed(names: set[str]) -> str:
    return ", ".join(f"@{name}" for name in sorted(names))
