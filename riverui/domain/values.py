"""Which numbers and names River's columns accept."""

from __future__ import annotations

import re

MAX_SMALLINT = 2**15 - 1
"""The largest of Postgres's smallint: of attempts, max_attempts and priorities."""

MAX_BIGINT = 2**63 - 1
"""The largest of Postgres's bigint: of ids."""


def is_smallint(number: int) -> bool:
    """Return whether it fits a smallint."""
    return -MAX_SMALLINT - 1 <= number <= MAX_SMALLINT


def is_bigint(number: int) -> bool:
    """Return whether it fits a bigint; no job has an id beyond that."""
    return -MAX_BIGINT - 1 <= number <= MAX_BIGINT


MAX_QUEUE_NAME_BYTES = 64
"""Most bytes of a queue's name: the limit of River's clients."""

MAX_KIND_CHARACTERS = 127
"""Most characters of a kind: the limit of the table's check."""

_QUEUE = re.compile(r"[a-z0-9]+(?:[_|\-][a-z0-9]+)*")

_KIND = re.compile(r"\w[\w\-\[\]<>/.·:+]+", re.ASCII)


def is_queue_name(name: str) -> bool:
    """Return whether River accepts this as the name of a queue.

    Lower-case letters and digits, separated by single underscores, hyphens or bars; at most 64
    bytes.
    """
    return 0 < len(name) <= MAX_QUEUE_NAME_BYTES and _QUEUE.fullmatch(name) is not None


def is_kind(name: str) -> bool:
    """Return whether River accepts this as a kind, or as the id of a periodic job.

    Two or more letters, digits, underscores and (not first) `-[]<>/.·:+`.
    """
    return len(name) <= MAX_KIND_CHARACTERS and _KIND.fullmatch(name) is not None
