"""Whole numbers: which of them River's tables can hold, and how a number of things is written."""

from __future__ import annotations

MAX_SMALLINT = 2**15 - 1
"""The largest of Postgres's smallint: of attempts, max_attempts and priorities."""
MAX_BIGINT = 2**63 - 1
"""The largest of Postgres's bigint: of ids."""


def counted(count: int, noun: str) -> str:
    """Return a number of things: "1 job", "1,203 jobs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_smallint(number: int) -> bool:
    """Return whether Postgres's smallint holds it."""
    return -MAX_SMALLINT - 1 <= number <= MAX_SMALLINT


def is_bigint(number: int) -> bool:
    """Return whether Postgres's bigint holds it; an id beyond that is nobody's."""
    return -MAX_BIGINT - 1 <= number <= MAX_BIGINT
