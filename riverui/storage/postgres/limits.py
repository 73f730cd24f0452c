"""Numbers of rows that the driver examines and times that it waits; only tests change them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresLimits:
    """Time limits and row-count thresholds of one driver; tests set others."""

    grace_seconds: float = 3.0
    """Added to a statement's limit for its answer to arrive: more than any working network needs.
    """
    oldest_server: int = 13
    """Oldest major version accepted: Postgres no longer supports older ones, and no test runs on
    them.
    """

    # Listening
    listener_ping_seconds: float = 5.0
    """Seconds without a message after which a listener pings the server, as River's notifier."""
    listener_answer_seconds: float = 10.0
    """Seconds for the server to answer a listener."""

    # Reading lists of jobs
    few_jobs: int = 5_000
    """Rows found by an index up to which all of them are examined."""
    few_jobs_of_states: int = 20_000
    """Jobs of some states up to which they are sorted by id, instead of a scan of all jobs."""
    few_names: int = 1_000
    """Distinct kinds or queues among which a pattern is looked up; with more, it is compared row by
    row.
    """
    promising_rows: int = 20_000
    """Estimated rows up to which a GIN index is tried."""

    # Counting jobs
    count_rows: int = 50_000
    """Rows that a count may examine if no index serves the filter."""


LIMITS = PostgresLimits()
"""The limits of every driver, unless a test sets others."""
