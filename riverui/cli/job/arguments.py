"""The arguments that choose jobs: a search as on the dashboard, and ids."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import click

from riverui.cli.completion import known_kinds, known_queues, known_states
from riverui.errors import ConfigError

CHUNK = 1_000
"""Ids in one request: the API's limit."""

_MAX_BIGINT = 2**63 - 1
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
    """Return a search of these words and flags; values of flags may be patterns."""
    terms = [
        f"{name}:{','.join(map(_value, values))}"
        for name, values in (("state", states), ("queue", queues), ("kind", kinds))
        if values
    ]
    return " ".join([*terms, *words]).strip()


def _value(text: str) -> str:
    """Return a value for the search grammar, quoted if necessary."""
    if text and not any(letter in ' \t\n"\\:' for letter in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def job_id(text: str) -> int:
    """Return a job's id; raise ConfigError if the text is not one."""
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _MAX_BIGINT:
        return int(text)
    raise ConfigError(f"{text[:40]!r} is not a job id: give a whole number, such as 9381022")


def chunks(ids: Sequence[str]) -> Iterator[Sequence[int]]:
    """Yield the ids in chunks for the API; `-` stands for ids from standard input."""
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
