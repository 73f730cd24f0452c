"""Which whole numbers River's tables can hold."""

from __future__ import annotations

BIGINT = 2**63
"""Just above the largest."""


def is_bigint(number: int) -> bool:
    """Whether Postgres's bigint holds it; an id beyond that is nobody's."""
    return -BIGINT <= number < BIGINT
