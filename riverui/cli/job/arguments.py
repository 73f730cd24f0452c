"""Which jobs a command means: a search as in the dashboard's box, and ids."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import click

from riverui.cli.completion import known_kinds, known_queues, known_states
from riverui.errors import ConfigError

CHUNK = 1_000
"""Ids that are sent at once: as many as the API takes."""

_MOST_BIGINT = 2**63 - 1
"""The highest id that a job can have."""

in_state = click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Jobs in this state.",
    shell_complete=known_states,
)

in_queue = click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Jobs in this queue.",
    shell_complete=known_queues,
)

of_kind = click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="NAME",
    help="Jobs of this kind.",
    shell_complete=known_kinds,
)


def search_text(
    words: Sequence[str],
    *,
    states: Sequence[str] = (),
    queues: Sequence[str] = (),
    kinds: Sequence[str] = (),
) -> str:
    """Return a search made of words and of the values of flags, which may be patterns or several
    with commas between them.
    """
    terms = [
        f"{name}:{','.join(map(_value, values))}"
        for name, values in (("state", states), ("queue", queues), ("kind", kinds))
        if values
    ]
    return " ".join([*terms, *words]).strip()


def _value(text: str) -> str:
    """Return a value as the grammar reads it: in quotes where it would end before its end."""
    if text and not any(letter in ' \t\n"\\:' for letter in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def job_id(text: str) -> int:
    """Return a job's id; raise ConfigError for a text that is none."""
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _MOST_BIGINT:
        return int(text)
    raise ConfigError(f"{text[:40]!r} is no job id: that is a whole number, such as 9381022")


def chunks(ids: Sequence[str]) -> Iterator[Sequence[int]]:
    """Yield the ids, in chunks that the API takes; `-` stands for those of standard input."""
    named = iter(_ids(ids))
    while chunk := list(islice(named, CHUNK)):
        yield list(dict.fromkeys(chunk))


def _ids(texts: Sequence[str]) -> Iterator[int]:
    for text in texts:
        if text == "-":
            for line in sys.stdin:
                yield from (job_id(word) for word in line.split())
        else:
            yield job_id(text)
