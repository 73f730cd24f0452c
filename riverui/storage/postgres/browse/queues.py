"""Queues: River's rows, what waits in them, pause and resume."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from riverui.domain.jobs import FINALIZED, JobListRow, JobState
from riverui.domain.queues import QueueListRow, QueueRow
from riverui.errors import NotFound
from riverui.storage.interface.params import Count, CountKind
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.job_list.filters import contains_pattern, storable
from riverui.storage.postgres.job_list.rows import job_list_row, queue_list_row, queue_row
from riverui.storage.postgres.statements import Statements

_MOST = 2000
"""Distinct queues of jobs that are looked through in each state."""

_UNFINISHED = tuple(state.value for state in JobState if state not in FINALIZED)
_PREVIEW = 300


class Queues(Statements):
    """Operations on river_queue and on the queues that jobs are in."""

    async def queue_get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        if not storable(name):
            return None
        row = await self._row("queue_row_get", {"name": name})
        if row is None:
            known = await self._row("queue_has_jobs", {"name": name, "states": list(JobState)})
            if not (known and known[0]):
                return None
        # The pattern finds no row of River's but this one's name, given by itself.
        rows = await self._rows(
            "queue_list", {"patterns": [], "job_queues": [name], "cap": cap, "limit": 1}
        )
        return queue_list_row(rows[0])

    async def queue_kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Kinds of the queue's unfinished jobs, counted among at most `cap` rows of each state."""
        if not storable(name):
            return []
        rows = await self._rows(
            "queue_kind_count", {"name": name, "states": list(_UNFINISHED), "cap": cap}
        )
        looked_at: dict[str, int] = {}
        for _, state, count in rows:
            looked_at[state] = looked_at.get(state, 0) + count
        kinds: dict[str, dict[JobState, Count]] = {}
        for kind, state, count in rows:
            certain = CountKind.EXACT if looked_at[state] < cap else CountKind.AT_LEAST
            kinds.setdefault(kind, {})[JobState(state)] = Count(value=count, kind=certain)
        return list(kinds.items())

    async def queue_list(
        self, *, match: str = "", cap: int, limit: int = 200
    ) -> Sequence[QueueListRow]:
        """Queues by name: those with a row and those that only have waiting or running jobs."""
        patterns = [contains_pattern(match)]
        found = await self._rows(
            "job_queue_names",
            {"states": list(_UNFINISHED), "patterns": patterns, "most": _MOST, "limit": _MOST},
        )
        names = [row[0] for row in found]
        rows = await self._rows(
            "queue_list", {"patterns": patterns, "job_queues": names, "cap": cap, "limit": limit}
        )
        return [queue_list_row(row) for row in rows]

    async def queue_failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """The queue's newest failed jobs: discarded and retryable, newest attempt first."""
        if not storable(name):
            return []
        rows = await self._rows(
            "job_list",
            {"name": name, "limit": limit, "preview": _PREVIEW},
            walks=self._queries.text("queue_failure_list"),
            order="w.at desc, w.id desc",
        )
        return [job_list_row(row) for row in rows[:limit]]

    async def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Names of queues that contain `match` (any case), by name."""
        parameters = {"patterns": [contains_pattern(match)], "limit": limit}
        served = await self._rows("queue_name_list", parameters)
        states = [state.value for state in JobState]
        used = await self._rows("job_queue_names", {**parameters, "states": states, "most": _MOST})
        return sorted({row[0] for row in [*served, *used]})[:limit]

    async def queue_pause(self, name: str) -> Sequence[str]:
        """River's QueuePause, `*` for every queue; gives the queues it changed. NotFound without a
        row.
        """
        return await self._set_paused("pause", name)

    async def queue_row_get(self, name: str) -> QueueRow | None:
        """The `river_queue` row alone; None where there is none."""
        row = await self._row("queue_row_get", {"name": name}) if storable(name) else None
        return queue_row(row) if row else None

    async def queue_resume(self, name: str) -> Sequence[str]:
        """River's QueueResume, `*` for every queue; gives the queues it changed. NotFound without a
        row.
        """
        return await self._set_paused("resume", name)

    async def queue_upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Creates the queue's row or sets its updated_at; never touches metadata or paused_at."""
        (row,) = await self._rows("queue_upsert", {"name": name, "now": now})
        return queue_row(row)

    async def queue_upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """As queue_upsert, for distinct queues in one statement; their rows in any order."""
        rows = await self._ready("queue_upsert_many", {"names": list(names)})
        return [queue_row(row) for row in rows]

    async def queue_row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """The rows of those of the queues that have one, in any order."""
        rows = await self._ready("queue_row_get_many", {"names": list(names)})
        return [queue_row(row) for row in rows]

    async def queue_with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Those of the queues that have a job to be fetched, of whatever kind."""
        rows = await self._ready("queue_with_available_list", {"names": list(names)}, prepare=True)
        return {row[0] for row in rows}

    async def queue_row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Queue rows by name."""
        rows = await self._rows("queue_row_list", {"after": after, "limit": limit})
        return [queue_row(row) for row in rows]

    async def queue_update(self, name: str, *, metadata: str) -> QueueRow:
        """Replaces the metadata (JSON text) and tells the workers; NotFound without a row."""
        told = json.dumps(name, ensure_ascii=False)
        payload = f'{{"action":"metadata_changed","metadata":{metadata},"queue":{told}}}'
        row = await self._row(
            "queue_update",
            {"name": name, "metadata": metadata, "schema": self._schema, "payload": payload},
        )
        if row is None:
            raise NotFound(f"Queue not found: {name}.")
        return queue_row(row)

    async def queue_delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Removes rows of queues that nobody has reported since; their names."""
        rows = await self._rows(
            "queue_delete_expired", {"updated_before": updated_before, "limit": limit}
        )
        return sorted(row[0] for row in rows)

    async def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Sends each payload on the schema's channel of that topic."""
        if payloads:
            told = {
                "schema": self._schema,
                "topic": topic,
                "payloads": array_literals.texts(payloads),
            }
            await self._rows("notify_many", told)

    async def _set_paused(self, action: str, name: str) -> Sequence[str]:
        rows = await self._rows(f"queue_{action}", {"name": name}) if storable(name) else []
        if not rows and name != "*":
            raise NotFound(f"Queue not found: {name}.")
        # River announces it even when nothing changed.
        payload = json.dumps(
            {"action": action, "queue": name}, ensure_ascii=False, separators=(",", ":")
        )
        await self._rows(
            "notify", {"schema": self._schema, "topic": "river_control", "payload": payload}
        )
        return [row[0] for row in rows if row[1]]
