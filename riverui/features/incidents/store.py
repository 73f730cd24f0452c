"""Incidents in `riverui_incident`, or in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from riverui.domain.findings import Level
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.domain.time import LAST
from riverui.features.incidents.domain import Deed, Incident, IncidentFacts
from riverui.storage.interface import Executor
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

T = TypeVar("T")

LEASE = "incidents"
"""The name of the lease of the dashboard that opens and closes incidents."""
TERM = timedelta(seconds=60)
"""How long that dashboard may be silent until another continues: three of its looks."""
MAX_USER = 200
"""Most characters of the name of a user."""
MAX_OPEN = 50
"""Most open incidents that are read: a look finds far fewer causes."""
MAX_DEEDS = 50
"""Deeds of an incident from which on no more are added."""
_REMEMBERED = 100
"""Closed incidents that a process keeps if there is no table."""
_COLUMNS = Fragment("incident_columns")


class Place(msgspec.Struct, frozen=True):
    """A place in the list of incidents, which is by their beginning."""

    opened_at: datetime
    id: str


TOP = Place(LAST, "")


class IncidentStore(Store):
    """The statements on incidents of the table. They raise SchemaMissing without it."""

    async def lease_take(self, holder: str, *, term: timedelta = TERM) -> bool:
        """Return whether this dashboard holds the lease, and extend it. Until the end of the
        transaction no other one can take it.
        """
        values = {"name": LEASE, "holder": holder, "term": term.total_seconds()}
        return await self._sql.row("lease_take", values) is not None

    async def lease_held(self) -> bool:
        """Return whether any dashboard holds the lease."""
        return await self._sql.row("lease_held", {"name": LEASE}) is not None

    async def lease_release(self, holder: str) -> None:
        """End the lease, so that another dashboard continues at once."""
        await self._sql.rows("lease_release", {"name": LEASE, "holder": holder})

    async def incident_get(self, id: str) -> Incident | None:
        """Return one incident; None if it is unknown or was deleted."""
        row = await self._sql.row("incident_get", {"id": id}, columns=_COLUMNS)
        return None if row is None else _incident(row)

    async def incident_open_list(self) -> Sequence[Incident]:
        """Return the open incidents, those that began last first."""
        return await self._list("incident_open_list", {"limit": MAX_OPEN})

    async def incident_list(
        self, *, since: datetime, limit: int, before: Place = TOP
    ) -> Sequence[Incident]:
        """Return the incidents that are open or were closed since then and come after a place in
        the list, those that began last first.
        """
        values = {"since": instant(since), "limit": limit, "id": before.id}
        return await self._list("incident_list", values | {"opened_at": instant(before.opened_at)})

    async def incident_save(self, incident: Incident) -> None:
        """Store all of an incident but its note and its deeds."""
        values = {
            name: instant(getattr(incident, name))
            for name in ("found_at", "opened_at", "seen_at", "good_since", "closed_at")
        }
        await self._sql.rows(
            "incident_save",
            {
                **values,
                "id": incident.id,
                "cause": incident.cause.value,
                "subject_is": incident.subject.what,
                "subject": incident.subject.name,
                "level": incident.level.value,
                "title": incident.title,
                "headline": incident.headline,
                "facts": msgspec.json.encode(incident.facts).decode(),
            },
        )

    async def incident_note(self, id: str, note: str, *, user: str) -> Incident | None:
        """Replace the note of an incident and return it; None if it is unknown."""
        values = {"id": id, "note": note, "username": user}
        row = await self._sql.row("incident_note", values, columns=_COLUMNS)
        return None if row is None else _incident(row)

    async def incident_deed(self, deeds: Sequence[Deed]) -> None:
        """Add what people did to all open incidents."""
        values = {"deeds": msgspec.json.encode(deeds).decode(), "most": MAX_DEEDS}
        await self._sql.rows("incident_deed", values)

    async def incident_delete_before(self, before: datetime, *, limit: int) -> int:
        """Delete incidents that were closed before `before`, at most `limit`; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self._sql.rows("incident_delete_before", values))

    async def _list(self, block: str, values: dict[str, Any]) -> Sequence[Incident]:
        rows = await self._sql.rows(block, values, columns=_COLUMNS)
        return [_incident(row) for row in rows.records()]


class IncidentsInProcess:
    """The incidents of this process alone, with the methods of IncidentStore on incidents."""

    def __init__(self) -> None:
        self._incidents: dict[str, Incident] = {}

    async def incident_get(self, id: str) -> Incident | None:
        """See IncidentStore."""
        return self._incidents.get(id)

    async def incident_open_list(self) -> Sequence[Incident]:
        """See IncidentStore."""
        return await self.incident_list(since=LAST, limit=MAX_OPEN)

    async def incident_list(
        self, *, since: datetime, limit: int, before: Place = TOP
    ) -> Sequence[Incident]:
        """See IncidentStore."""
        found = [
            incident
            for incident in self._incidents.values()
            if (incident.closed_at or LAST) >= since
            and (incident.opened_at, incident.id) < (before.opened_at, before.id)
        ]
        return sorted(found, key=lambda each: (each.opened_at, each.id), reverse=True)[:limit]

    async def incident_save(self, incident: Incident) -> None:
        """Keep an incident, and drop the oldest of those that are closed."""
        kept = self._incidents.get(incident.id, incident)
        self._incidents[incident.id] = replace(
            incident,
            note=kept.note,
            noted_at=kept.noted_at,
            noted_by=kept.noted_by,
            deeds=kept.deeds,
        )
        closed = [each.id for each in self._incidents.values() if each.closed_at is not None]
        for old in closed[:-_REMEMBERED]:
            del self._incidents[old]

    async def incident_note(self, id: str, note: str, *, user: str) -> Incident | None:
        """See IncidentStore."""
        if (found := self._incidents.get(id)) is not None:
            found = replace(found, note=note, noted_at=datetime.now(UTC), noted_by=user)
            self._incidents[id] = found
        return found

    async def incident_deed(self, deeds: Sequence[Deed]) -> None:
        """See IncidentStore."""
        for incident in await self.incident_open_list():
            if len(incident.deeds) < MAX_DEEDS:
                added = replace(incident, deeds=(*incident.deeds, *deeds))
                self._incidents[incident.id] = added


@asynccontextmanager
async def open_incidents(
    begin: Callable[[], AbstractAsyncContextManager[Executor]],
    in_process: IncidentsInProcess | None,
) -> AsyncIterator[IncidentStore | IncidentsInProcess]:
    """Yield the incidents of this process if given, and otherwise those of the table, on the
    executor from `begin`.
    """
    if in_process is not None:
        yield in_process
    else:
        async with begin() as executor:
            yield IncidentStore(executor)


def _incident(row: Any) -> Incident:
    """Return a row as an incident; without the parts that are odd or of another version."""
    return Incident(
        id=row.id,
        cause=Cause(row.cause) if row.cause in set(Cause) else Cause.NONE,
        subject=Subject(row.subject_is, row.subject),
        level=Level(row.level),
        title=row.title,
        headline=row.headline,
        opened_at=row.opened_at,
        found_at=row.found_at,
        seen_at=row.seen_at,
        good_since=row.good_since,
        closed_at=row.closed_at,
        facts=_decoded(row.facts, IncidentFacts) or IncidentFacts(),
        deeds=_decoded(row.deeds, tuple[Deed, ...]) or (),
        note=row.note,
        noted_at=row.noted_at,
        noted_by=row.noted_by,
    )


def _decoded(text: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None
