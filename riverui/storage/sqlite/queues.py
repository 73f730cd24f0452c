"""Operations on queues: report, pause, resume, metadata."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.jobs import JsonText
from riverui.domain.json import read_json, read_object
from riverui.domain.queues import ALL_QUEUES, NO_REASON, PAUSE_KEY, QueueRow, Reason
from riverui.errors import NotFound
from riverui.storage.sqlite.file import json_text
from riverui.storage.sqlite.statements import Statements, reads, writes
from riverui.storage.sqlite.values import (
    checked_json,
    checked_text,
    instant,
    stamp,
    stamp_or_none,
    written,
)

QUEUE_COLUMNS = f"name, +created_at, {json_text('metadata')}, +paused_at, +updated_at"
"""The columns of `queue_row`."""


class Queues(Statements):
    """Operations on `river_queue`."""

    @writes
    def queue_upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Create the queue's row or set its updated_at; return it."""
        return self._report(name, now or self._now())

    @writes
    def queue_upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Do as queue_upsert for several queues."""
        now = self._now()
        return [self._report(name, now) for name in names]

    @reads
    def queue_row_get(self, name: str) -> QueueRow | None:
        """Return the queue's row; None if there is none."""
        return self._queue(name)

    @reads
    def queue_row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Return the rows of those of the queues that have one."""
        return self._queues(
            "where name in (select value from json_each(?)) order by name", [json.dumps(names)]
        )

    @reads
    def queue_row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Return queue rows by name."""
        return self._queues("where name > ? order by name limit ?", [after, limit])

    @reads
    def queue_with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the queues that have an available job, of any kind."""
        found = self._value_list(
            "select value from json_each(?) where exists (select 1 from river_job where"
            " state = 'available' and queue = value and scheduled_at <= ?)",
            [json.dumps(names), stamp(self._now())],
        )
        return set(found)

    @writes
    def queue_delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Remove rows of queues that no client has reported since; return their names."""
        return self._value_list(
            "delete from river_queue where name in (select name from river_queue"
            " where updated_at < ? order by name limit ?) returning name",
            [stamp(updated_before), limit],
        )

    @writes
    def queue_restore_many(self, rows: Sequence[QueueRow]) -> None:
        """Write whole rows of queues as they are."""
        self._scope.connection.execute_many(
            "insert or replace into river_queue (name, created_at, metadata, paused_at, updated_at)"
            " values (?, ?, jsonb(?), ?, ?)",
            [
                (
                    row.name,
                    stamp_or_none(row.created_at),
                    row.metadata.text,
                    stamp_or_none(row.paused_at),
                    stamp_or_none(row.updated_at),
                )
                for row in rows
            ],
        )

    @writes
    def queue_pause(self, name: str, reason: Reason = NO_REASON) -> Sequence[str]:
        """Pause the queue, `*` for every queue; return those that changed. NotFound without a
        row.
        """
        why = {"by": reason.by, "note": reason.note}
        return self._set_paused(name, "pause", why if any(why.values()) else None)

    @writes
    def queue_resume(self, name: str, by: str = "") -> Sequence[str]:
        """Resume the queue, `*` for every queue; return those that changed. NotFound without a
        row.
        """
        return self._set_paused(name, "resume", {"resumed_by": by})

    @writes
    def queue_update(self, name: str, *, metadata: str) -> QueueRow:
        """Replace the metadata and notify the workers; return the row. NotFound without one."""
        return self._set_metadata(self._known(name), checked_json(metadata))

    @writes
    def queue_set_metadata_key(self, name: str, key: str, value: str | None) -> QueueRow:
        """Set a key of the metadata, or remove it for None, and notify the workers; return the row.
        NotFound without one.
        """
        row = self._known(name)
        metadata = read_object(row.metadata.text)
        metadata.pop(key, None)
        if value is not None:
            metadata[key] = read_json(value)
        return self._set_metadata(row, written(metadata))

    @writes
    def queue_touch(self, name: str) -> QueueRow:
        """Set the queue's updated_at; return the row. NotFound without one."""
        self._known(name)
        return self._report(name, self._now())

    @writes
    def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Send each payload on that topic."""
        self._notify(topic, *payloads)

    def _queue(self, name: str) -> QueueRow | None:
        return next(iter(self._queues("where name = ?", [name])), None)

    def _queues(self, rest: str, values: Sequence[Any] = ()) -> list[QueueRow]:
        """Return the queues that a statement selects, given from its WHERE on."""
        return [
            queue_row(*row)
            for row in self._rows(f"select {QUEUE_COLUMNS} from river_queue {rest}", values)
        ]

    def _known(self, name: str) -> QueueRow:
        row = self._queue(name)
        if row is None:
            raise NotFound(f"Queue not found: {name}.")
        return row

    def _report(self, name: str, now: datetime) -> QueueRow:
        at = stamp(now)
        (row,) = self._rows(
            "insert into river_queue (name, created_at, metadata, updated_at)"
            " values (?, ?, jsonb('{}'), ?)"
            " on conflict do update set updated_at = excluded.updated_at"
            f" returning {QUEUE_COLUMNS}",
            [checked_text(name), at, at],
        )
        return queue_row(*row)

    def _set_paused(self, name: str, action: str, why: dict[str, str] | None) -> Sequence[str]:
        now = self._now()
        chosen = self._queues("order by name") if name == ALL_QUEUES else [self._known(name)]
        changed = [row for row in chosen if (row.paused_at is None) == (action == "pause")]
        for row in changed:
            metadata = read_object(row.metadata.text)
            at = now
            if row.last_pause is not None and row.last_pause.at == now:
                # The reason of a pause is found by its time, which another one must not have.
                at += timedelta(milliseconds=1)
            if action == "pause" and why is not None:
                metadata[PAUSE_KEY] = {**why, "at": at.isoformat()}
            elif action == "resume" and isinstance(kept := metadata.get(PAUSE_KEY), dict):
                metadata[PAUSE_KEY] = {**kept, **(why or {}), "resumed_at": now.isoformat()}
            self._rows(
                "update river_queue set metadata = jsonb(?), paused_at = ?, updated_at = ?"
                " where name = ?",
                [
                    written(metadata),
                    stamp(at) if action == "pause" else None,
                    stamp(now),
                    row.name,
                ],
            )
        # River notifies even if nothing changed.
        self._notify("river_control", {"action": action, "queue": name})
        return [row.name for row in changed]

    def _set_metadata(self, row: QueueRow, metadata: str) -> QueueRow:
        payload = {
            "action": "metadata_changed",
            "metadata": read_json(metadata),
            "queue": row.name,
        }
        self._notify("river_control", payload)
        (changed,) = self._rows(
            "update river_queue set metadata = jsonb(?), updated_at = ? where name = ?"
            f" returning {QUEUE_COLUMNS}",
            [metadata, stamp(self._now()), row.name],
        )
        return queue_row(*changed)


def queue_row(
    name: str, created_at: str | None, metadata: str, paused_at: str | None, updated_at: str | None
) -> QueueRow:
    """Return the queue in a row of `QUEUE_COLUMNS`."""
    return QueueRow(
        name=name,
        created_at=instant(created_at) if created_at else None,
        metadata=JsonText(text=metadata, size=len(metadata)),
        paused_at=instant(paused_at) if paused_at else None,
        updated_at=instant(updated_at) if updated_at else None,
    )
