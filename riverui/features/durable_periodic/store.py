"""Durable periodic jobs in `riverui_periodic_job`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from riverui.domain.periodic import NextRun
from riverui.features.durable_periodic.domain import (
    DurablePeriodicRow,
    PeriodicChange,
)
from riverui.storage.interface.sql_blocks import EMPTY, Fragment
from riverui.storage.postgres.browse.filters import is_storable
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

_COLUMNS = Fragment("durable_periodic_columns")


class DurablePeriodicStore(Store):
    """Operations on durable periodic jobs."""

    async def durable_periodic_list(
        self, *, ids: Sequence[str] | None = None, limit: int
    ) -> Sequence[DurablePeriodicRow]:
        """Return periodic jobs by id: these, or all."""
        values: dict[str, Any] = {"limit": limit}
        slots = {"columns": _COLUMNS}
        if ids is None:
            slots["chosen"] = EMPTY
        else:
            values["ids"] = list(ids)
        rows = await self._sql.rows("durable_periodic_list", values, **slots)
        return [DurablePeriodicRow(**row._asdict()) for row in rows.records()]

    async def durable_periodic_save(self, saves: Sequence[NextRun]) -> Sequence[str]:
        """Store next runs, one save per id; return the ids that were saved.

        A save is skipped if the row has changed: another leader has inserted the run, or a user has
        changed the schedule.
        """
        answered = [save for save in saves if save.run_requested_at is not None]
        planned = [save for save in saves if save.run_requested_at is None]
        saved: list[str] = []
        if answered:
            values: dict[str, Any] = {
                "ids": [save.id for save in answered],
                "requested": [save.run_requested_at for save in answered],
            }
            saved += (await self._sql.rows("durable_periodic_answer", values)).values()
        if planned:
            values = {
                "ids": [save.id for save in planned],
                "next_runs": [instant(save.next_run_at) for save in planned],
                "planned": [instant(save.planned_at) for save in planned],
            }
            saved += (await self._sql.rows("durable_periodic_save", values)).values()
        return saved

    async def durable_periodic_touch(self, schedules: Mapping[str, str]) -> None:
        """Record that a leader knows these jobs, by id, and the schedules that their program sets.
        Missing rows are not created.
        """
        values = {"ids": list(schedules), "schedules": list(schedules.values())}
        await self._sql.rows("durable_periodic_touch", values)

    async def durable_periodic_reap(self, *, unused_for: timedelta, changed_for: timedelta) -> int:
        """Delete jobs that no leader has touched for `unused_for`; those that a user changed only
        after `changed_for` (of these, `unused_for` clears just the next run). Return how many.
        """
        values = {"unused": unused_for.total_seconds(), "changed": changed_for.total_seconds()}
        return int((await self._sql.rows("durable_periodic_reap", values)).value())

    async def durable_periodic_change(
        self, id: str, change: PeriodicChange, *, schedule: str = "", user: str = ""
    ) -> DurablePeriodicRow | None:
        """Apply a user's change and return the row afterwards; None if the row does not exist."""
        if not all(map(is_storable, (id, schedule, user))):
            return None
        values = {"id": id, "change": change.value, "schedule": schedule, "username": user}
        row = await self._sql.row("durable_periodic_change", values, columns=_COLUMNS)
        return None if row is None else DurablePeriodicRow(**row._asdict())
