"""Actions on all matching jobs in a table: every dashboard of the database sees them, and goes on
with those that another one let go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from riverui.actions.job_verbs import OPERATION_VERBS
from riverui.actions.pilot import JobPilot
from riverui.domain.pace import Watch
from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseUnavailable,
    LockTimeout,
    OperationLost,
)
from riverui.storage.interface import OPERATIONS, Driver, Transaction
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.operations import (
    OPERATION_PACE,
    OPERATION_TABLE,
    OperationLease,
    OperationParams,
    OperationProgress,
    OperationRow,
)
from riverui.storage.interface.params import JobCursor, JobFilter
from riverui.web.config import DashboardConfig
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.operation_run import (
    Operation,
    OperationLimits,
    OperationRun,
    OperationStatus,
    tell_failure,
)
from riverui.web.live.operation_store import NewOperation, OperationList
from riverui.web.live.operations import refuse
from riverui.web.live.own_table import OwnTableWatch
from riverui.web.search import query

log = logging.getLogger("riverui.operations")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationTimes:
    """How long operations are held and kept. One whose dashboard is killed goes on elsewhere
    after `term` and `look` at most.
    """

    term: timedelta = timedelta(seconds=8)
    """How long a dashboard holds an operation without a sign of life."""
    renew: timedelta = timedelta(seconds=2.5)
    """How often it gives one, so that two may get lost."""
    look: timedelta = timedelta(seconds=3)
    """How often each dashboard looks for operations that nobody holds."""
    look_for_table: timedelta = timedelta(seconds=30)
    """How often it looks whether somebody has made the table."""
    believe: timedelta = timedelta(seconds=5)
    """How long pages believe what was found of that."""
    keep: timedelta = timedelta(days=30)
    """How long what has ended is kept."""
    forget: timedelta = timedelta(hours=1)
    """How often what is older is deleted."""
    forgotten: int = 500
    """Operations that one statement deletes."""


class SharedOperations:
    """The operations of one database, seen by one of its dashboards: see OperationStore."""

    shared = True

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        *,
        name: str,
        limits: OperationLimits | None = None,
        pilot: JobPilot,
        times: OperationTimes | None = None,
    ) -> None:
        self._driver = driver
        self._config = config
        self._name = name
        self._limits = limits or OperationLimits()
        self._pilot = pilot
        self._times = times or OperationTimes()
        self._features = features_of(pilot)
        self._paced = f"{self._features},pace".lstrip(",")
        """The same of an operation with a pace: versions that know of none leave it alone."""
        self._held: dict[str, tuple[Operation, TableLedger, asyncio.Task[None]]] = {}
        """What this process works on."""
        self._table = OwnTableWatch(
            driver, OPERATION_TABLE, OPERATIONS, seconds=self._times.believe.total_seconds()
        )
        self._forgot = float("-inf")
        self._trouble = ""
        self._watching: asyncio.Task[None] | None = None

    async def ready(self) -> bool:
        """Return whether the database has the table, as far as it tells."""
        there = await self._table.there()
        if there:
            self.watch()
        return there

    def watch(self) -> None:
        """Begin to look for operations that nobody holds, unless that goes on already."""
        task = self._watching
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._watching = asyncio.create_task(self._watch())

    async def begin(self, asked: NewOperation) -> Operation:
        """Start an operation; see OperationStore."""
        params = OperationParams(
            id=asked.id,
            verb=asked.verb.name,
            parameters=dict(asked.given),
            features=self._paced if asked.pace.stored else self._features,
            username=asked.user,
            allowed=asked.verb.right,
            query=asked.filter_text,
            order=asked.order,
            cutoff=asked.cutoff,
            total=asked.total,
            pace=asked.pace,
        )
        async with self._driver.transaction() as transaction:
            operations = OPERATIONS.on(transaction)
            if asked.pace.stored and not await operations.operation_keeps_pace():
                raise BadRequest(
                    f"A pace needs {OPERATION_PACE.missing}: run `{OPERATION_PACE.remedy}`."
                )
            row = await operations.operation_insert(
                params, holder=self._name, term=self._times.term, most=self._limits.running
            )
        if row is None:
            refuse(self._limits)
        operation = operation_of(row)
        if operation is None:
            raise BadRequest("There is another operation of that id.")
        ours = row.holder == self._name and row.ended_at is None
        if ours and row.fence == 1 and row.params.id not in self._held:
            log.info(
                "%s started by %r: %r",
                operation.title,
                asked.user,
                operation.filter_told,
                extra={"operation": operation.id},
            )
            self._work(row)
        return operation

    async def find(self, id: str) -> Operation | None:
        """Return the operation; None where it is unknown or forgotten."""
        async with self._driver.reading() as executor:
            row = await OPERATIONS.on(executor).operation_get(id)
        return operation_of(row) if row else None

    async def page(self, *, before: str | None = None, limit: int) -> OperationList:
        """Return operations, newest first; those of verbs that this version does not know are left
        out.
        """
        async with self._driver.reading() as executor:
            rows = await OPERATIONS.on(executor).operation_list(limit=limit + 1, before=before)
        shown = rows[:limit]
        last = shown[-1] if len(rows) > limit else None
        return OperationList(
            operations=[found for row in shown if (found := operation_of(row))],
            older=last.params.id if last else None,
        )

    async def halt(self, operation: Operation, *, user: str) -> Operation:
        """Ask whoever works on it to stop after the chunk at hand; return it as it is then."""
        async with self._driver.transaction() as transaction:
            row = await OPERATIONS.on(transaction).operation_stop(operation.id, username=user)
        found = operation_of(row) if row else None
        if found is None or found.ended:
            return found or operation
        if operation.status is OperationStatus.RUNNING:
            log.info(
                "%s stopped by %r", operation.verb.name, user, extra={"operation": operation.id}
            )
        held = self._held.get(operation.id)
        if held and held[0].status is OperationStatus.RUNNING:
            held[0].status = OperationStatus.STOPPING
        return found

    @property
    def held(self) -> frozenset[str]:
        """Return the ids of the operations that this process works on."""
        return frozenset(self._held)

    async def close(self, *, release: bool = True) -> None:
        """Stop working and let go of what is held, for another dashboard to go on at once; the
        chunks at hand are given up. Without `release` others have to wait for the end of the term,
        as they do when a process is killed.
        """
        held = list(self._held.values())
        tasks = {task for _, _, task in held}
        if self._watching is not None and not self._watching.done():
            if self._watching.get_loop() is asyncio.get_running_loop():
                tasks.add(self._watching)
            self._watching = None
        await cancel_all(tasks)
        for operation, ledger, _ in held if release else ():
            try:
                await ledger.release()
            except DatabaseError as error:
                log.info("%s could not be let go: %s", operation.title, error)
        self._held.clear()

    async def _watch(self) -> None:
        while True:
            pause = self._times.look
            try:
                if not await self.ready():
                    pause = self._times.look_for_table
                elif not self._config.read_only and not self._driver.read_only:
                    await self._take_over()
                    await self._forget()
                self._trouble = ""
            except DatabaseError as error:
                # Once for each kind of trouble: it may last.
                if str(error) != self._trouble:
                    log.warning("Operations of other dashboards cannot be looked for: %s", error)
                self._trouble = str(error)
                self._table.ask_again()
            except Exception:
                log.exception("Looking for operations of other dashboards failed")
                pause = self._times.look_for_table
            await asyncio.sleep(pause.total_seconds())

    async def _take_over(self) -> None:
        while len(self._held) < self._limits.running:
            async with self._driver.autocommit() as executor:
                row = await OPERATIONS.on(executor).operation_claim(
                    holder=self._name,
                    verbs=list(OPERATION_VERBS),
                    features=(self._features, self._paced),
                    term=self._times.term,
                )
            if row is None:
                return
            log.info(
                "%s of %r taken over",
                row.params.verb,
                row.params.username,
                extra={"operation": row.params.id},
            )
            self._work(row)

    async def _forget(self) -> None:
        if time.monotonic() - self._forgot < self._times.forget.total_seconds():
            return
        before = datetime.now(UTC) - self._times.keep
        async with self._driver.autocommit() as executor:
            gone = await OPERATIONS.on(executor).operation_delete_before(
                before, limit=self._times.forgotten
            )
        if gone < self._times.forgotten:
            self._forgot = time.monotonic()

    def _work(self, row: OperationRow) -> None:
        operation = operation_of(row)
        assert operation is not None, "only known verbs are taken over"
        lease = OperationLease(id=row.params.id, fence=row.fence, term=self._times.term)
        ledger = TableLedger(self._driver, operation, lease, every=self._times.renew)
        task = asyncio.create_task(self._run(operation, ledger, row))
        self._held[operation.id] = (operation, ledger, task)

    async def _run(self, operation: Operation, ledger: TableLedger, row: OperationRow) -> None:
        renewing = asyncio.create_task(ledger.renew())
        try:
            status = await self._outcome(operation, ledger, row)
            await ledger.end(status)
            operation.status = status
            operation.ended_at = datetime.now(UTC)
            log.info("%s", operation.summary, extra={"operation": operation.id})
        except OperationLost as error:
            log.warning("%s: %s", operation.title, error, extra={"operation": operation.id})
        except DatabaseError as error:
            # Its lease runs out, and whoever reaches the database goes on.
            log.warning(
                "%s waits for the database: %s",
                operation.title,
                error,
                extra={"operation": operation.id},
            )
        finally:
            renewing.cancel()
            held = self._held.get(operation.id)
            if held and held[1] is ledger:
                del self._held[operation.id]

    async def _outcome(
        self, operation: Operation, ledger: TableLedger, row: OperationRow
    ) -> OperationStatus:
        try:
            check(operation, row)
            return await OperationRun(
                self._driver, self._config, operation, self._limits, self._pilot, ledger
            ).run()
        except (OperationLost, DatabaseUnavailable):
            raise
        except Exception as error:
            tell_failure(operation, error)
        return OperationStatus.FAILED


class TableLedger:
    """Writes down in the table how far a run has come, as long as this dashboard holds it."""

    def __init__(
        self, driver: Driver, operation: Operation, lease: OperationLease, *, every: timedelta
    ) -> None:
        self._driver = driver
        self._operation = operation
        self._lease = lease
        self._every = every.total_seconds()
        self._written = time.monotonic()
        """When (monotonic clock) the lease was last shown."""
        self._lost = False

    async def open(self) -> JobCursor | None:
        """Bring the operation to what the table says, and return the place to go on from."""
        async with self._driver.transaction() as transaction:
            row = self._ours(await OPERATIONS.on(transaction).operation_hold(self._lease))
        found = operation_of(row)
        assert found is not None, "it was known when it was taken over"
        operation = self._operation
        operation.changed, operation.requested = found.changed, found.requested
        operation.skipped, operation.skipped_samples = found.skipped, found.skipped_samples
        operation.watch = found.watch
        return row.progress.cursor

    async def hold(self, transaction: Transaction) -> None:
        """Lock the operation until the end of the transaction; OperationLost where it is not
        ours.
        """
        self._ours(await OPERATIONS.on(transaction).operation_hold(self._lease))

    async def save(
        self,
        transaction: Transaction,
        changes: JobChanges,
        cursor: JobCursor | None,
        watch: Watch | None = None,
    ) -> None:
        """Write down what the chunk did and where it ended; OperationLost where it is not ours."""
        operation = self._operation
        after = replace(
            operation,
            skipped=dict(operation.skipped),
            skipped_samples=dict(operation.skipped_samples),
        )
        after.note(changes)
        progress = OperationProgress(
            changed=after.changed,
            requested=after.requested,
            skipped={
                reason.value: (number, after.skipped_samples.get(reason, ()))
                for reason, number in after.skipped.items()
            },
            cursor=cursor,
            watch=watch,
        )
        if not await OPERATIONS.on(transaction).operation_save(self._lease, progress):
            raise OperationLost
        self._written = time.monotonic()

    async def passed(self, cursor: JobCursor | None) -> None:
        """Write the place down now and then; OperationLost where it is not ours."""
        if self._lost:
            raise OperationLost
        if time.monotonic() - self._written > self._every:
            await self.watched(cursor)

    async def watched(self, cursor: JobCursor | None) -> None:
        """Write down the place and what has become of the jobs; OperationLost where it is not
        ours.
        """
        async with self._driver.transaction() as transaction:
            await self.hold(transaction)
            await self.save(transaction, JobChanges(), cursor, self._operation.watch)

    async def renew(self) -> None:
        """Hold the operation for as long as this runs, also while a search takes its time."""
        while not self._lost:
            await asyncio.sleep(self._every)
            # While a chunk is under way it has the row locked, and nobody can take it.
            with suppress(DatabaseUnavailable, LockTimeout):
                async with self._driver.autocommit() as executor:
                    status = await OPERATIONS.on(executor).operation_renew(self._lease)
                self._lost = status is None
                self._stop_where_asked(status)

    async def release(self) -> None:
        """Let the operation go."""
        async with self._driver.autocommit() as executor:
            await OPERATIONS.on(executor).operation_release(self._lease)

    async def end(self, status: OperationStatus) -> None:
        """Write down how it ended; OperationLost where it is not ours."""
        error = self._operation.error
        async with self._driver.transaction() as transaction:
            if not await OPERATIONS.on(transaction).operation_end(
                self._lease, status=status.value, error=error
            ):
                raise OperationLost

    def _ours(self, row: OperationRow | None) -> OperationRow:
        if row is None:
            self._lost = True
            raise OperationLost
        self._stop_where_asked(row.status)
        return row

    def _stop_where_asked(self, status: str | None) -> None:
        if status == OperationStatus.STOPPING and self._operation.status is OperationStatus.RUNNING:
            self._operation.status = OperationStatus.STOPPING


def operation_of(row: OperationRow) -> Operation | None:
    """Return a row of the table as an operation; None for a verb that this version does not know.

    Of a query that this version cannot read it makes an empty filter: `check` comes before anything
    is done.
    """
    params, progress = row.params, row.progress
    verb = OPERATION_VERBS.get(params.verb)
    if verb is None:
        return None
    known = {reason.value: reason for reason in SkipReason}
    skipped = {known[name]: found for name, found in progress.skipped.items() if name in known}
    search = query.parse_own(params.query, now=row.created_at)
    found = JobFilter() if search.errors else search.filter()
    return Operation(
        id=params.id,
        verb=verb,
        filter=found,
        filter_text=params.query,
        order=params.order,
        cutoff=params.cutoff,
        user=params.username,
        total=params.total,
        started_at=row.created_at,
        given=params.parameters,
        ended_at=row.ended_at,
        status=OperationStatus(row.status),
        changed=progress.changed,
        requested=progress.requested,
        skipped={reason: number for reason, (number, _) in skipped.items()},
        skipped_samples={reason: ids for reason, (_, ids) in skipped.items()},
        error=row.error,
        stopped_by=row.stopped_by,
        holder=row.holder or "",
        waiting=row.ended_at is None and not row.held,
        pace=params.pace,
        watch=progress.watch,
        unread=row.unread,
    )


def check(operation: Operation, row: OperationRow) -> None:
    """Raise BadRequest where going on might do what nobody asked for: another version may have
    meant something else by the row, or somebody may have written it by hand.
    """
    params = row.params
    if row.unread:
        raise BadRequest(f"Its row cannot be read: {', '.join(row.unread)}.")
    if params.allowed != operation.verb.right:
        raise BadRequest(f"It was started with the right {params.allowed!r}, which does not do.")
    if query.format(operation.filter) != params.query:
        raise BadRequest("Its query cannot be read by this version of riverui.")
    if params.parameters and operation.verb.read(params.parameters) != dict(params.parameters):
        raise BadRequest("Its parameters cannot be read by this version of riverui.")


def features_of(pilot: JobPilot) -> str:
    """Return the names of the client features that may take part in verbs; empty for none."""
    return pilot.verb_features
