"""Operations on queues: report, pause, resume, metadata."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter

from riverui.domain.jobs import JsonText
from riverui.domain.json import read_json, read_object
from riverui.domain.queues import ALL_QUEUES, NO_REASON, PAUSE_KEY, QueueRow, Reason
from riverui.errors import NotFound
from riverui.storage.memory.statements import Statements, statement
from riverui.storage.memory.values import checked_json, checked_text, written


class Queues(Statements):
    """Operations on `river_queue`."""

    @statement
    def queue_upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Create the queue's row or set its updated_at; return it."""
        return self._report(name, now or self._clock())

    @statement
    def queue_upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Do as queue_upsert for several queues."""
        now = self._clock()
        return [self._report(name, now) for name in names]

    @statement
    def queue_row_get(self, name: str) -> QueueRow | None:
        """Return the queue's row; None if there is none."""
        return self._queue(name)

    @statement
    def queue_row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Return the rows of those of the queues that have one."""
        return [row for name in names if (row := self._queue(name)) is not None]

    @statement
    def queue_row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Return queue rows by name."""
        return [row for row in self._queues() if row.name > after][:limit]

    @statement
    def queue_with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the queues that have an available job, of any kind."""
        now = self._clock()
        return {
            name
            for name in names
            if any(row.scheduled_at <= now for row in self._changes.available(name))
        }

    @statement
    def queue_delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Remove rows of queues that no client has reported since; return their names."""
        expired = [
            row.name
            for row in self._queues()
            if row.updated_at is not None and row.updated_at < updated_before
        ][:limit]
        for name in expired:
            self._changes.put(self._tables.queues, name, None)
        return expired

    @statement
    def queue_pause(self, name: str, reason: Reason = NO_REASON) -> Sequence[str]:
        """Pause the queue, `*` for every queue; return those that changed. NotFound without a
        row.
        """
        why = {"by": reason.by, "note": reason.note}
        return self._set_paused(name, "pause", why if any(why.values()) else None)

    @statement
    def queue_resume(self, name: str, by: str = "") -> Sequence[str]:
        """Resume the queue, `*` for every queue; return those that changed. NotFound without a
        row.
        """
        return self._set_paused(name, "resume", {"resumed_by": by})

    @statement
    def queue_update(self, name: str, *, metadata: str) -> QueueRow:
        """Replace the metadata and notify the workers; return the row. NotFound without one."""
        return self._set_metadata(self._known(name), checked_json(metadata))

    @statement
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

    @statement
    def queue_touch(self, name: str) -> QueueRow:
        """Set the queue's updated_at; return the row. NotFound without one."""
        self._known(name)
        return self._report(name, self._clock())

    @statement
    def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Send each payload on that topic."""
        for payload in payloads:
            self._changes.notify(topic, payload)

    def _queue(self, name: str) -> QueueRow | None:
        return self._changes.get(self._tables.queues, name)

    def _queues(self) -> list[QueueRow]:
        """Return all rows by name."""
        return sorted(self._changes.all(self._tables.queues), key=attrgetter("name"))

    def _known(self, name: str) -> QueueRow:
        row = self._queue(name)
        if row is None:
            raise NotFound(f"Queue not found: {name}.")
        return row

    def _report(self, name: str, now: datetime) -> QueueRow:
        row = self._queue(checked_text(name))
        return self._put_queue(
            QueueRow(
                name=name,
                created_at=now if row is None else row.created_at,
                metadata=_json("{}") if row is None else row.metadata,
                paused_at=None if row is None else row.paused_at,
                updated_at=now,
            )
        )

    def _put_queue(self, row: QueueRow) -> QueueRow:
        self._changes.put(self._tables.queues, row.name, row)
        return row

    def _set_paused(self, name: str, action: str, why: dict[str, str] | None) -> Sequence[str]:
        now = self._clock()
        chosen = self._queues() if name == ALL_QUEUES else [self._known(name)]
        changed = [row for row in chosen if (row.paused_at is None) == (action == "pause")]
        for row in changed:
            metadata = read_object(row.metadata.text)
            if action == "pause" and why is not None:
                metadata[PAUSE_KEY] = {**why, "at": now.isoformat()}
            elif action == "resume" and isinstance(kept := metadata.get(PAUSE_KEY), dict):
                metadata[PAUSE_KEY] = {**kept, **(why or {}), "resumed_at": now.isoformat()}
            self._put_queue(
                QueueRow(
                    name=row.name,
                    created_at=row.created_at,
                    metadata=_json(written(metadata)),
                    paused_at=now if action == "pause" else None,
                    updated_at=now,
                )
            )
        # River notifies even if nothing changed.
        self._changes.notify("river_control", written({"action": action, "queue": name}))
        return [row.name for row in changed]

    def _set_metadata(self, row: QueueRow, metadata: str) -> QueueRow:
        payload = {
            "action": "metadata_changed",
            "metadata": read_json(metadata),
            "queue": row.name,
        }
        self._changes.notify("river_control", written(payload))
        return self._put_queue(
            QueueRow(
                name=row.name,
                created_at=row.created_at,
                metadata=_json(metadata),
                paused_at=row.paused_at,
                updated_at=self._clock(),
            )
        )


def _json(text: str) -> JsonText:
    return JsonText(text=text, size=len(text))
