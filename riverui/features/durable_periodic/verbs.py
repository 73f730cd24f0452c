"""Changes of durable periodic jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from riverui.errors import BadRequest, ConfigError, NotFound, SchemaMissing
from riverui.features.durable_periodic.domain import (
    MAX_SCHEDULE,
    MAX_USER,
    DurablePeriodicRow,
    PeriodicChange,
)
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.storage.interface import Driver
from riverui.storage.tables import MISSING, REMEDY

RIGHT = "periodic.manage"
"""The right to change durable periodic jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicVerb:
    """One change: its label, icon and messages."""

    change: PeriodicChange
    label: str
    icon: str
    done: str
    """The notice's text before the job's id."""

    @property
    def name(self) -> str:
        """Its name in URLs."""
        return self.change.value


PERIODIC_VERBS: Mapping[PeriodicChange, PeriodicVerb] = {
    verb.change: verb
    for verb in (
        PeriodicVerb(
            change=PeriodicChange.RUN,
            label="Run now",
            icon="play",
            done="A job is inserted now for",
        ),
        PeriodicVerb(change=PeriodicChange.PAUSE, label="Pause", icon="pause", done="Paused:"),
        PeriodicVerb(change=PeriodicChange.RESUME, label="Resume", icon="play", done="Resumed:"),
        PeriodicVerb(
            change=PeriodicChange.SCHEDULE,
            label="Schedule…",
            icon="calendar-clock",
            done="The schedule was changed:",
        ),
    )
}
"""Every change, in the order of their buttons."""


async def change(
    driver: Driver,
    verb: PeriodicVerb,
    id: str,
    *,
    schedule: str = "",
    user: str = "",
    time_limit: timedelta | None = None,
) -> DurablePeriodicRow:
    """Change a durable periodic job and return its row. The leader applies it within seconds.

    An empty `schedule` restores the program's. Raise NotFound if the job does not exist, BadRequest
    for an expression that is not valid or if durable periodic jobs are not in use.
    """
    schedule = " ".join(schedule.split())
    if verb.change is PeriodicChange.SCHEDULE and schedule:
        _check(schedule)
    try:
        async with driver.transaction(timeout=time_limit) as transaction:
            row = await DurablePeriodicStore(transaction).durable_periodic_change(
                id, verb.change, schedule=schedule, user=user[:MAX_USER]
            )
    except SchemaMissing:
        raise BadRequest(
            f"Periodic jobs can be changed once the database has {MISSING}: run {REMEDY}."
        ) from None
    if row is None:
        raise NotFound(f"Durable periodic job not found: {id[:200]}.")
    return row


def _check(schedule: str) -> None:
    if len(schedule) > MAX_SCHEDULE:
        raise BadRequest(f"A schedule may have at most {MAX_SCHEDULE} characters.")
    # Imports cronsim, which no other page needs.
    from riverui.domain.schedules import CronSchedule

    try:
        CronSchedule(schedule)
    except ConfigError as error:
        raise BadRequest(str(error)) from None
