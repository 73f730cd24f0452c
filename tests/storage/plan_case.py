"""What a test of a plan holds a call to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from riverui.storage.postgres.executor import PostgresExecutor

PKEY = "river_job_pkey"
FETCHING = "river_job_prioritized_fetching_index"
FINALIZED = "river_job_state_and_finalized_at_index"
KIND = "river_job_kind"
ARGS = "river_job_args_index"
METADATA = "river_job_metadata_index"
UNIQUE = "river_job_unique_idx"

Call = Callable[[PostgresExecutor], Awaitable[Any]]


@dataclass(frozen=True)
class Case:
    """A call, the indexes that its statements may use of river_job, and how many of its rows it may
    read.
    """

    call: Call
    indexes: set[str]
    reads: int
