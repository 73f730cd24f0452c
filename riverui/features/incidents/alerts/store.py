"""What was sent of incidents, and silences: in tables, or in this process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import asdict

from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.features.incidents.alerts.domain import AlertRecord, Silence
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

MAX_SILENCES = 100
"""Most silences that are read: people make them, one at a time."""


class AlertStore(Store):
    """The statements on alerts and silences. They raise SchemaMissing without their tables."""

    async def alert_list(self, incidents: Sequence[str]) -> Sequence[AlertRecord]:
        """Return what was sent of these incidents."""
        rows = await self._sql.rows("alert_list", {"incidents": list(incidents)})
        return [AlertRecord(**row._asdict()) for row in rows.records()]

    async def alert_save(self, before: AlertRecord, after: AlertRecord) -> bool:
        """Return whether a record was changed: not if it is not `before` any more."""
        values = {
            **asdict(after),
            "at": instant(after.at),
            "wanted_before": before.wanted,
            "number_before": before.number,
            "tries_before": before.tries,
        }
        return bool(await self._sql.rows("alert_save", values))

    async def silence_list(self, *, since: datetime | None = None) -> Sequence[Silence]:
        """Return the silences that last, or lasted after `since`, those that end last first."""
        values = {"since": since and instant(since), "limit": MAX_SILENCES}
        rows = await self._sql.rows("silence_list", values)
        return [
            Silence(
                id=row.id,
                incident=row.incident,
                cause=Cause(row.cause) if row.cause in set(Cause) else Cause.NONE,
                subject=Subject(row.subject_is, row.subject),
                until=row.until,
                made_at=row.made_at,
                made_by=row.made_by,
                reason=row.reason,
            )
            for row in rows.records()
        ]

    async def silence_insert(self, silence: Silence) -> None:
        """Begin a silence."""
        await self._sql.rows(
            "silence_insert",
            {
                "id": silence.id,
                "incident": silence.incident,
                "cause": silence.cause.value,
                "subject_is": silence.subject.what,
                "subject": silence.subject.name,
                "until": instant(silence.until),
                "made_at": instant(silence.made_at),
                "made_by": silence.made_by,
                "reason": silence.reason,
            },
        )

    async def silence_end(self, id: str) -> bool:
        """End a silence now; return whether it lasted."""
        return bool(await self._sql.rows("silence_end", {"id": id}))


class AlertsInProcess:
    """The same of this process alone, with the methods of AlertStore."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], AlertRecord] = {}
        self._silences: dict[str, Silence] = {}

    async def alert_list(self, incidents: Sequence[str]) -> Sequence[AlertRecord]:
        """Return what was sent of these incidents, and forget all others."""
        self._records = {key: each for key, each in self._records.items() if key[0] in incidents}
        return list(self._records.values())

    async def alert_save(self, before: AlertRecord, after: AlertRecord) -> bool:
        """See AlertStore."""
        key = after.incident, after.destination
        if self._records.get(key, before) != before:
            return False
        self._records[key] = after
        return True

    async def silence_list(self, *, since: datetime | None = None) -> Sequence[Silence]:
        """Return the silences that last: others are forgotten."""
        now = datetime.now(UTC)
        return [silence for silence in self._silences.values() if silence.until > now]

    async def silence_insert(self, silence: Silence) -> None:
        """See AlertStore."""
        self._silences = {each.id: each for each in [*await self.silence_list(), silence]}

    async def silence_end(self, id: str) -> bool:
        """See AlertStore."""
        lasted = id in {silence.id for silence in await self.silence_list()}
        return self._silences.pop(id, None) is not None and lasted
