"""Which whole numbers River's tables can hold."""

from __future__ import annotations

MAX_SMALLINT = 2**15 - 1
"""The largest of Postgres's smallint: of attempts, max_attempts and priorities."""
MAX_BIGINT = 2**63 - 1
"""The largest of Postgres's bigint: of ids."""


def is_smallint(number: int) -> bool:
    """Return whether Postgres's smallint holds it."""
    return -MAX_SMALLINT - 1 <= number <= MAX_SMALLINT


def is_bigint(number: int) -> bool:
    """Return whether Postgres's bigint holds it; an id beyond that is nobody's."""
    return -MAX_BIGINT - 1 <= number <= MAX_BIGINT
