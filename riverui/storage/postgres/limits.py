"""How many rows the driver looks at and how long it waits: figures that programs have no reason to
change, and tests have.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresLimits:
    """The figures of one driver."""

    grace_seconds: float = 3.0
    """For an answer to reach us, on top of the statement's own limit: more than any network needs
    that still works.
    """
    oldest_server: int = 13
    """Major version from which on a server is taken: Postgres no longer mends older ones, and no
    test runs on them.
    """

    # Listening
    listener_ping_seconds: float = 5.0
    """Of silence, after which the server is asked whether it lives, as in River's notifier."""
    listener_answer_seconds: float = 10.0
    """For the server to answer a listener."""

    # Reading lists of jobs
    few_jobs: int = 5_000
    """Rows that are looked at one by one when an index has found no more than these."""
    few_jobs_of_states: int = 20_000
    """Jobs of some states that are sorted by id rather than picked from a scan of every job."""
    few_names: int = 1_000
    """Distinct kinds or queues among which a pattern is looked up; with more, it is compared row by
    row.
    """
    promising_rows: int = 20_000
    """Estimated rows up to which a GIN index is tried."""

    # Counting jobs
    count_rows: int = 50_000
    """Rows that counting may look at when no index serves the filter."""


LIMITS = PostgresLimits()
"""What every driver keeps to, unless a test says otherwise."""
