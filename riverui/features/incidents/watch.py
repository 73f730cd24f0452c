"""Watches a database for incidents: one dashboard opens and closes them for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from riverui.actions.health import health_report
from riverui.domain.figures import WINDOWS, FigureColumn
from riverui.domain.health import HealthReport
from riverui.domain.health.slo import objectives
from riverui.errors import DatabaseError
from riverui.features.incidents.alerts.domain import Silence
from riverui.features.incidents.alerts.send import AlertSender
from riverui.features.incidents.alerts.store import AlertsInProcess, AlertStore
from riverui.features.incidents.domain import (
    BACK_WITHIN,
    BEFORE,
    ChangeKind,
    Deed,
    Incident,
    IncidentChange,
    Key,
    Measure,
    Minute,
    baselines,
    look,
)
from riverui.features.incidents.store import (
    MAX_OPEN,
    TERM,
    IncidentsInProcess,
    IncidentStore,
    open_incidents,
)
from riverui.storage.interface import Executor
from riverui.web.http.cancelling import cancel_all, is_running
from riverui.web.http.context import Dashboard, Service
from riverui.web.http.kept_reading import KeptReading

log = logging.getLogger("riverui.incidents")

KEPT = timedelta(days=400)
"""How long closed incidents are kept: as long as stored figures and marks."""
_OPEN_SECONDS = 2.0
"""Seconds for which the open incidents are cached: as often as open pages refresh."""
_FORGOTTEN = 100
"""Old incidents that are deleted at once."""
_SENT_WITHIN = timedelta(days=1)
"""How long after the end of an incident it is tried to send it: a receiver may be down for long."""
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentTimes:
    """How often a database is looked at. Only tests need to change it."""

    look: timedelta = timedelta(seconds=20)
    """Pause between two looks: a third of the time within which two must agree."""
    look_again: timedelta = timedelta(seconds=12)
    """The same while a cause was seen once: figures are read every ten seconds."""
    term: timedelta = TERM


class OpenIncidents(Struct, frozen=True, kw_only=True):
    """The open incidents, those that began last first, and where they are kept."""

    incidents: Sequence[Incident]
    silences: Sequence[Silence] = ()
    shared: bool
    """Whether all dashboards of the database share them."""

    def silence(self, incident: Incident) -> Silence | None:
        """Return what silences an incident."""
        return next((each for each in self.silences if each.covers(incident)), None)


class IncidentWatch:
    """The incidents of one database, and the health report that they are found by."""

    def __init__(self, board: Dashboard, times: IncidentTimes) -> None:
        self._board = board
        self._driver = board.primary
        self._figures = board.figures
        self._times = times
        self._in_process = IncidentsInProcess()
        self._alerts_in_process = AlertsInProcess()
        self.alerts = AlertSender(board, self.alert_store, self._to_send)
        self._suspects: Mapping[Key, datetime] = {}
        self._unsure = False
        """Whether the last look was the first one, when figures are not complete, or saw a cause
        that has no open incident yet.
        """
        self._looked_at: datetime | None = None
        """When the report was made that was looked at last."""
        self._unheld = False
        """Whether nobody holds the lease, and this dashboard may not take it."""
        self._leads = False
        """Whether the last look was this dashboard's, so that it sends the alerts."""
        self._error = ""
        self._watching: asyncio.Task[None] | None = None
        limits, clock = board.limits, board.clock
        self.report: KeptReading[HealthReport] = KeptReading(
            self._report, seconds=limits.health_seconds, clock=clock
        )
        """The health report, cached for a few seconds."""
        self._open = KeptReading(self._read_open, seconds=_OPEN_SECONDS, clock=clock)

    async def open(self) -> OpenIncidents:
        """Return the open incidents, at most two seconds old; none if the database fails. Begin to
        look, for hosts that do not start services.
        """
        self.watch()
        return await self._known_open()

    async def read_open(self) -> OpenIncidents:
        """Return the same. Raises the database's errors."""
        self.watch()
        return await self._open.get()

    async def _known_open(self) -> OpenIncidents:
        try:
            return await self._open.get()
        except DatabaseError:
            return OpenIncidents(incidents=(), shared=self._board.own_tables.known(IncidentStore))

    async def shared(self) -> bool:
        """Return whether all dashboards of the database share their incidents."""
        return await self._board.own_tables.there(IncidentStore) and not self._unheld

    async def store(
        self, begin: Callable[[], AbstractAsyncContextManager[Executor]] | None = None
    ) -> AbstractAsyncContextManager[IncidentStore | IncidentsInProcess]:
        """Return the incidents, on the executor from `begin` (by default one that reads) if they
        are in the table.
        """
        in_process = None if await self.shared() else self._in_process
        return open_incidents(begin or self._driver.reading, in_process)

    @asynccontextmanager
    async def alert_store(
        self, begin: Callable[[], AbstractAsyncContextManager[Executor]] | None = None
    ) -> AsyncIterator[AlertStore | AlertsInProcess]:
        """Yield what was sent of incidents and the silences, kept where the incidents are, on the
        executor from `begin` (by default one that may write).
        """
        if not await self.shared():
            yield self._alerts_in_process
        else:
            async with (begin or self._driver.autocommit)() as executor:
                yield AlertStore(executor)

    async def _to_send(self) -> Sequence[Incident]:
        """Return the incidents of which there may be something to send, the oldest first."""
        since = datetime.now(UTC) - _SENT_WITHIN
        async with await self.store() as store:
            return (await store.incident_list(since=since, limit=2 * MAX_OPEN))[::-1]

    def expire(self) -> None:
        """Read the open incidents again at the next request: one was changed by this process."""
        self._open.expire()

    def watch(self) -> None:
        """Begin to look, unless already begun."""
        if not is_running(self._watching):
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop. Another dashboard continues at once."""
        task, self._watching = self._watching, None
        if not is_running(task):
            return
        await cancel_all([task])
        await self.alerts.close()
        with suppress(DatabaseError):
            if await self._may_write():
                async with self._driver.autocommit() as executor:
                    await IncidentStore(executor).lease_release(self._board.name)

    async def tick(self) -> Sequence[IncidentChange]:
        """Look at the database, and return which incidents were opened, reopened and closed; none
        if another dashboard looks. Store what people did on this one. Raises the database's
        errors.
        """
        self._leads = False
        await self._store_deeds()
        if not await self._board.own_tables.there(IncidentStore):
            self._unheld = False
            return await self._look(self._in_process, await self.report.get())
        if not await self._may_write():
            async with self._driver.reading() as executor:
                self._unheld = not await IncidentStore(executor).lease_held()
            if not self._unheld:
                return ()
            return await self._look(self._in_process, await self.report.get())
        self._unheld = False
        async with self._driver.autocommit() as executor:
            if not await IncidentStore(executor).lease_take(
                self._board.name, term=self._times.term
            ):
                self._suspects, self._unsure = {}, False
                return ()
        # It takes a while, during which the lease must not be locked.
        report = await self.report.get()
        async with self._driver.transaction() as transaction:
            store = IncidentStore(transaction)
            if not await store.lease_take(self._board.name, term=self._times.term):
                return ()
            await store.incident_delete_before(datetime.now(UTC) - KEPT, limit=_FORGOTTEN)
            return await self._look(store, report)

    async def _store_deeds(self) -> None:
        """Add to the open incidents what people did on this dashboard since the last time."""
        if deeds := [Deed.of(*deed) for deed in self._board.deeds]:
            async with await self.store(self._driver.transaction) as store:
                await store.incident_deed(deeds)
            for _ in deeds:
                self._board.deeds.popleft()
            self.expire()

    async def _look(
        self, store: IncidentStore | IncidentsInProcess, report: HealthReport
    ) -> Sequence[IncidentChange]:
        """Store what a report changes, and return it."""
        self._leads = True
        if report.at == self._looked_at:
            return ()
        known = await store.incident_list(since=report.at - BACK_WITHIN, limit=2 * MAX_OPEN)
        found = look(report, known, self._suspects)
        first, self._suspects, self._looked_at = not self._looked_at, found.suspects, report.at
        for incident in found.incidents:
            minutes = await self._minutes(incident)
            await store.incident_save(incident.with_minutes(minutes))
        going_on = {incident.key for incident in found.incidents if incident.closed_at is None}
        self._unsure = first or bool(found.suspects.keys() - going_on)
        if found.changes:
            self._open.expire()
        return found.changes

    async def _minutes(self, incident: Incident) -> Sequence[Minute]:
        """Return the newest minutes of what shows how an incident goes on."""
        measure = incident.measure
        queue = incident.queue if measure is Measure.WAIT else ""
        kind = "" if measure is Measure.WAIT else incident.kind
        hour = await self._figures.read(WINDOWS["1h"], queue=queue, kind=kind)
        first, waits = incident.opened_at - BEFORE, measure is Measure.WAIT
        due_at = _oldest_due_at(hour.columns, incident.seen_at) if waits else None
        found = []
        for column in hour.columns:
            if column.at >= first and (column.finished or waits):
                value = _value(column, measure)
                if due_at is not None:
                    # Of what still waits, the minutes before are known as well.
                    waited = min(column.at + _MINUTE, incident.seen_at) - due_at
                    value = max(value or 0.0, waited.total_seconds())
                found.append((int(column.at.timestamp()) // 60, value))
        return found

    async def _report(self) -> HealthReport:
        opened = await self._known_open()
        return await health_report(
            self._driver,
            self._figures,
            usual=self._figures,
            marks=self._board.marks,
            baselines=baselines(opened.incidents),
            objectives=objectives(self._board.config.slo),
        )

    async def _read_open(self) -> OpenIncidents:
        async with await self.store() as store:
            found = await store.incident_open_list()
        async with self.alert_store(self._driver.reading) as alerts:
            silences = await alerts.silence_list()
        return OpenIncidents(incidents=found, silences=silences, shared=await self.shared())

    async def _may_write(self) -> bool:
        if self._board.config.read_only or not await self._board.own_tables.there(IncidentStore):
            return False
        # The driver knows whether the database is read-only only after a first query.
        return not self._driver.read_only

    async def _watch(self) -> None:
        while True:
            try:
                for change in await self.tick():
                    _report_change(change)
                if self._leads:
                    self.alerts.push()
                if self._error:
                    log.info("incidents are looked for again")
                self._error = ""
            except DatabaseError as error:
                # Each error once, as it may last.
                if str(error) != self._error:
                    log.warning("incidents could not be looked for: %s", error)
                self._error = str(error)
            except Exception:
                log.exception("looking for incidents failed")
            pause = self._times.look_again if self._unsure else self._times.look
            await asyncio.sleep(pause.total_seconds())


INCIDENTS = Service(
    make=lambda board: IncidentWatch(board, board.limits.get(IncidentTimes)),
    start=IncidentWatch.watch,
    close=IncidentWatch.close,
)


def _report_change(change: IncidentChange) -> None:
    """Log a change: the one place that each of them passes, once and in one dashboard."""
    incident = change.incident
    log.log(
        logging.INFO if change.kind is ChangeKind.CLOSED else logging.WARNING,
        "incident %s: %s %s",
        change.kind.value,
        incident.title,
        incident.headline,
        extra={"incident": incident.id, "cause": incident.cause.value},
    )


def _oldest_due_at(columns: Sequence[FigureColumn], now: datetime) -> datetime | None:
    """Return when the oldest job that waits was due; None if none does, or that was not read."""
    for column in columns[:-3:-1]:
        if column.oldest_waiting is not None:
            return min(column.at + _MINUTE, now) - column.oldest_waiting
    return None


def _value(column: FigureColumn, measure: Measure) -> float | None:
    tally = column.tally
    if measure is Measure.WAIT:
        wait = tally.wait.quantile(0.95) if tally else None
        spans = [span.total_seconds() for span in (wait, column.oldest_waiting) if span is not None]
        return max(spans, default=None)
    if tally is None:
        return None
    if measure is Measure.FAILING:
        return tally.failing
    if measure is Measure.ENDED:
        return float(tally.ended)
    run = tally.run.quantile(0.5)
    return None if run is None else run.total_seconds()
