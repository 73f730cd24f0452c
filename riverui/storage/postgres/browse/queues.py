"""Operations on queues: River's rows, waiting jobs, pause and resume."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import FINALIZED, JobListRow, JobState
from riverui.domain.queues import (
    NO_REASON,
    PAUSE_KEY,
    QueueCountRow,
    QueueListRow,
    QueueRow,
    Reason,
)
from riverui.errors import NotFound
from riverui.storage.interface.params import Count, CountKind
from riverui.storage.interface.sql_blocks import Fragment, Rows, word
from riverui.storage.postgres.browse.filters import contains_pattern, is_storable
from riverui.storage.postgres.browse.jobs import PREVIEW, storable_texts
from riverui.storage.postgres.browse.rows import job_list_row, queue_list_row, queue_row
from riverui.storage.postgres.engine.queue_upkeep import QueueUpkeep

_MAX_QUEUES = 2000
"""Most distinct queues of jobs to read in each state."""

_UNFINISHED = tuple(state.value for state in JobState if state not in FINALIZED)


class PostgresQueues(QueueUpkeep):
    """Operations on river_queue and on the queues that jobs are in."""

    async def get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        if not is_storable(name):
            return None
        row = await self._sql.row("queue_row_get", {"name": name})
        if row is None:
            known = await self._sql.rows("queue_has_jobs", {"name": name, "states": list(JobState)})
            if not known.value():
                return None
        # The pattern matches no other row, as this queue's row is read by its name.
        rows = await self._sql.rows(
            "queue_list", {"patterns": [], "job_queues": [name], "cap": cap, "limit": 1}
        )
        return queue_list_row(rows.first())

    async def state_count(
        self, pairs: Sequence[tuple[str, JobState]], *, cap: int
    ) -> Mapping[tuple[str, JobState], int]:
        """Return the numbers of jobs of queues in states, exact up to `cap`."""
        names, states = [name for name, _ in pairs], [state.value for _, state in pairs]
        rows = await self._sql.rows(
            "queue_state_count", {"names": names, "states": states, "cap": cap}
        )
        return dict(zip(pairs, rows.values(), strict=True))

    async def kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Return the kinds of the queue's unfinished jobs, counted among at most `cap` rows of each
        state.
        """
        if not is_storable(name):
            return []
        rows = await self._sql.rows(
            "queue_kind_count", {"name": name, "states": list(_UNFINISHED), "cap": cap}
        )
        found = rows.records()
        looked_at: dict[str, int] = {}
        for row in found:
            looked_at[row.state] = looked_at.get(row.state, 0) + row.jobs
        kinds: dict[str, dict[JobState, Count]] = {}
        for row in found:
            certain = CountKind.EXACT if looked_at[row.state] < cap else CountKind.AT_LEAST
            count = Count(value=row.jobs, kind=certain)
            kinds.setdefault(row.kind, {})[JobState(row.state)] = count
        return list(kinds.items())

    async def list(self, *, match: str = "", cap: int, limit: int = 200) -> Sequence[QueueListRow]:
        """Return the queues by name: those with a row and those that only have waiting or running
        jobs.
        """
        pattern = contains_pattern(match)
        names = await self._sql.rows(
            "job_queue_name_list",
            {
                "states": list(_UNFINISHED),
                "pattern": pattern,
                "most": _MAX_QUEUES,
                "limit": _MAX_QUEUES,
            },
        )
        rows = await self._sql.rows(
            "queue_list",
            {"patterns": [pattern], "job_queues": names.values(), "cap": cap, "limit": limit},
        )
        return [queue_list_row(row) for row in rows.records()]

    async def failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """Return the queue's newest failed jobs: discarded and retryable, newest attempt first."""
        if not is_storable(name):
            return []
        rows = await self._sql.rows(
            "job_list",
            {"name": name, "limit": limit, "preview": PREVIEW},
            scans=Fragment("queue_failure_list"),
            desc=word("desc"),
        )
        found = [job_list_row(row) for row in rows.records()[:limit]]
        return [row for row in found if row is not None]

    async def pause(self, name: str, reason: Reason = NO_REASON) -> Sequence[str]:
        """Pause the queue, with `*` every queue, as River's QueuePause does, and return the names
        of the queues that changed; raise NotFound if the queue has no row.
        """
        why = {"by": reason.by, "note": reason.note}
        kept = json.dumps(why) if any(why.values()) else None
        return await self._set_paused("queue_pause", name, kept)

    async def row_get(self, name: str) -> QueueRow | None:
        """Return the `river_queue` row alone, None if there is none."""
        row = await self._sql.row("queue_row_get", {"name": name}) if is_storable(name) else None
        return None if row is None else queue_row(row)

    async def resume(self, name: str, by: str = "") -> Sequence[str]:
        """Resume the queue, with `*` every queue, as River's QueueResume does, and return the names
        of the queues that changed; raise NotFound if the queue has no row.
        """
        return await self._set_paused("queue_resume", name, json.dumps({"resumed_by": by}))

    async def row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Return the rows of those of the queues that have one, in any order."""
        rows = await self._sql.rows("queue_row_get_many", {"names": list(names)})
        return [queue_row(row) for row in rows.records()]

    async def row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Return the rows of queues by name."""
        rows = await self._sql.rows("queue_row_list", {"after": after, "limit": limit})
        return [queue_row(row) for row in rows.records()]

    async def update(self, name: str, *, metadata: str) -> QueueRow:
        """Replace the metadata (JSON text) and notify the workers; raise NotFound if the queue has
        no row.
        """
        queue = json.dumps(name, ensure_ascii=False)
        payload = f'{{"action":"metadata_changed","metadata":{metadata},"queue":{queue}}}'
        row = await self._sql.row(
            "queue_update",
            {"name": name, "metadata": metadata, "schema": self._sql.schema, "payload": payload},
        )
        if row is None:
            raise NotFound(f"Queue not found: {name}.")
        return queue_row(row)

    async def count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """Return River's queue rows by name with their counts, exact up to `cap`."""
        rows = await self._sql.rows("queue_count_list", {"cap": cap, "limit": limit})
        return [_counted(row) for row in rows.records()]

    async def count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """Return one queue's row with its counts; None without a row."""
        if not is_storable(name):
            return None
        named = Fragment("queue_count_named", {"name": name})
        row = await self._sql.row("queue_count_list", {"cap": cap, "limit": 1}, named=named)
        return None if row is None else _counted(row)

    async def set_metadata_key(self, name: str, key: str, value: str | None) -> QueueRow:
        """Set a key of the metadata to a value (JSON as text), or remove it for None, and notify
        the workers; return the queue's row. Raise NotFound if it has none.
        """
        values = {"name": name, "key": key, "value": value, "schema": self._sql.schema}
        return await self._changed("queue_set_metadata_key", name, values)

    async def touch(self, name: str) -> QueueRow:
        """Set the queue's updated_at and nothing else; return its row. Raise NotFound if the
        queue has no row.
        """
        return await self._changed("queue_touch", name, {"name": name})

    async def _changed(self, block: str, name: str, values: Mapping[str, Any]) -> QueueRow:
        row = await self._sql.row(block, values) if is_storable(name) else None
        if row is None:
            raise NotFound(f"Queue not found: {name}.")
        return queue_row(row)

    async def _set_paused(self, block: str, name: str, why: str | None) -> Sequence[str]:
        values = {"name": name, "key": PAUSE_KEY, "why": why}
        rows = Rows()
        if is_storable(name):
            rows = await self._sql.rows(block, values)
        if not rows and name != "*":
            raise NotFound(f"Queue not found: {name}.")
        # River notifies even if nothing changed.
        action = {"action": block.removeprefix("queue_"), "queue": name}
        payload = json.dumps(action, ensure_ascii=False, separators=(",", ":"))
        await self._sql.rows(
            "notify", {"schema": self._sql.schema, "topic": "river_control", "payload": payload}
        )
        return [row.name for row in rows.records() if row.changed]

    async def name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return names of queues that contain `match` (any case), by name: of those with a row and
        those that only have jobs.
        """
        values = {
            "limit": limit,
            "most": _MAX_QUEUES,
            "pattern": contains_pattern(match),
            "states": [state.value for state in JobState],
        }
        used = (await self._sql.rows("job_queue_name_list", values)).values()
        return sorted({*await self.row_name_list(match=match, limit=limit), *used})[:limit]

    async def row_name_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return names of queues that have a row, chosen as those of `jobs.kind_list`."""
        if not is_storable(after):
            return []
        values = {
            "after": after,
            "exclude": storable_texts(exclude),
            "limit": limit,
            "pattern": contains_pattern(match),
        }
        return (await self._sql.prepared("queue_row_name_list", values)).values()


def _counted(row: Any) -> QueueCountRow:
    return QueueCountRow(queue=queue_row(row), available=row.available, running=row.running)
