"""The outcome of jobs whose worker is dead, by River's rules, and the rescue on request of those
that a silent client left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.json import read_object
from riverui.domain.retries import default_retry
from riverui.domain.time import rfc3339_nano
from riverui.errors import BadRequest, NotFound
from riverui.features.heartbeats.store import SILENT_AFTER, ClientStore, DeadClient
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobRescueParams

_JOBS_PER_READ = 100
"""Jobs in one statement: they come with their args, which may be large."""
_ERROR = "Stuck job rescued by JobRescuer"
"""River's text: its clients may look for it."""
_MAX_CLIENTS = 1_000
"""Rows searched for a client by its id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientRescue:
    """What became of the jobs that a client left."""

    client: DeadClient
    states: Mapping[JobState, int]
    """How many jobs are now in which state."""

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return sum(self.states.values())


def cancel_requested(row: JobRow) -> bool:
    """Return whether cancelling the job was requested."""
    key = "cancel_attempted_at"
    if key not in row.metadata:
        return False
    return bool(read_object(row.metadata).get(key))


def ended(row: JobRow, state: JobState, now: datetime) -> JobRescueParams:
    """Return the rescue of a job that is not retried."""
    return JobRescueParams(id=row.id, state=state, error=_error(row, now), finalized_at=now)


def retried(row: JobRow, now: datetime, retry_at: datetime) -> JobRescueParams:
    """Return the rescue of a job that is retried then."""
    return JobRescueParams(
        id=row.id, state=JobState.RETRYABLE, error=_error(row, now), scheduled_at=retry_at
    )


def by_default(row: JobRow, now: datetime) -> JobRescueParams:
    """Return the rescue of a job whose worker's own rules are unknown."""
    if cancel_requested(row):
        return ended(row, JobState.CANCELLED, now)
    if row.attempt >= row.max_attempts:
        return ended(row, JobState.DISCARDED, now)
    return retried(row, now, default_retry(row, now=now))


async def rescue_client(
    driver: Driver, id: str, *, by: str, time_limit: timedelta | None = None
) -> ClientRescue:
    """Declare a silent client dead without further waiting, rescue its jobs, and return what became
    of them. `by` is who requested it.

    Raise NotFound without such a client, BadRequest if it sent a heartbeat recently: its jobs are
    being worked.
    """
    async with driver.autocommit(timeout=time_limit) as executor:
        dead = await ClientStore(executor).client_declare_dead(by=by, after=SILENT_AFTER, id=id)
        if dead is None:
            rows = await ClientStore(executor).client_list(limit=_MAX_CLIENTS)
            known = [row for row in rows if row.id == id]
    if dead is None:
        if not known:
            raise NotFound("No client with this id sends heartbeats.")
        if any(row.declared_dead_at is None for row in known):
            raise BadRequest(
                "This client is alive: it has just sent a heartbeat. Nothing was changed."
            )
        raise BadRequest("This client was already declared dead, and its jobs are rescued.")
    states: Counter[JobState] = Counter()
    last, full = 0, True
    while full:
        async with driver.autocommit(timeout=time_limit) as executor:
            rows_held = await ClientStore(executor).job_get_held(
                dead, after_id=last, limit=_JOBS_PER_READ
            )
            now = datetime.now(UTC)
            rescues = [by_default(row, now) for row in rows_held]
            changed = set(
                await executor.work.rescue_many(rescues, attempted_before=dead.attempted_before)
            )
        states.update(rescue.state for rescue in rescues if rescue.id in changed)
        full = len(rows_held) == _JOBS_PER_READ
        last = rows_held[-1].id if rows_held else last
    async with driver.autocommit(timeout=time_limit) as executor:
        await ClientStore(executor).client_rescued(dead.life, states.total())
    return ClientRescue(client=dead, states=states)


def _error(row: JobRow, now: datetime) -> str:
    error = {
        "at": rfc3339_nano(now),
        "attempt": max(row.attempt, 0),
        "error": _ERROR,
        "trace": "",
    }
    return json.dumps(error, separators=(",", ":"))
