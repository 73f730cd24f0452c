"""Carries out operations: actions on all matching jobs, in the background.

With the table, dashboards share operations: each shows all, any can stop one, and when a dashboard
ends, another continues its operations. Without the table they end with their process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from riverui.actions.pilot import JobPilot
from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseUnavailable,
    OperationLost,
    RiveruiError,
)
from riverui.features.operations.run import OperationLimits, OperationRun
from riverui.features.operations.store import (
    Operation,
    OperationsInProcess,
    OperationStatus,
    OperationStore,
    open_store,
)
from riverui.features.operations.verbs import OPERATION_VERBS
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all, is_running
from riverui.web.http.context import Service
from riverui.web.http.own_table import OwnTableWatch

log = logging.getLogger("riverui.operations")

_LOGGED = 500
"""Longest query in the log, in characters: some name thousands of jobs."""


class Operations:
    """Starts, finds, stops and carries out the operations of one dashboard."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        *,
        name: str,
        limits: OperationLimits | None = None,
        pilot: JobPilot,
    ) -> None:
        self._driver = driver
        self._config = config
        self._name = name
        self._limits = limits or OperationLimits()
        self._pilot = pilot
        self._open = partial(open_store, term=self._limits.term)
        self._in_process = OperationsInProcess(remembered=self._limits.remembered)
        self._held: dict[str, tuple[OperationRun, asyncio.Task[None]]] = {}
        self._tables = OwnTableWatch(driver, seconds=self._limits.table_check.total_seconds())
        self._deleted = float("-inf")
        """When (monotonic clock) old operations were last deleted."""
        self._logged_error = ""
        self._watching: asyncio.Task[None] | None = None

    @property
    def held(self) -> Mapping[str, asyncio.Task[None]]:
        """The ids of the operations that this process works on, and their tasks."""
        return {name: task for name, (_, task) in self._held.items()}

    async def shared(self) -> bool:
        """Return whether dashboards share operations, that is whether riverui's tables exist.

        If the database does not answer, return the last known answer; raise DatabaseError if there
        is none.
        """
        if not await self._tables.there(OperationStore):
            return False
        self.watch()
        return True

    def watch(self) -> None:
        """Start to look for operations that no dashboard holds, unless that is running already."""
        if not is_running(self._watching):
            self._watching = asyncio.create_task(self._watch())

    async def start(self, operation: Operation) -> Operation:
        """Start an operation and return it. If one with that id exists, return that one and start
        nothing. Raise BadRequest if too many operations are running.
        """
        if started := await self._in_process.operation_get(operation.id):
            return started
        in_process: OperationsInProcess | None = self._in_process
        if await self.shared():
            in_process = None
            operation.features, operation.holder = self._pilot.verb_features, self._name
        async with self._open(self._driver.transaction, in_process) as store:
            await store.operation_turn()
            if started := await store.operation_get(operation.id):
                return started
            if await store.operation_unfinished_count() >= self._limits.running:
                raise BadRequest(
                    f"{self._limits.running} actions on all matching jobs are already running:"
                    " wait for one, or stop one."
                )
            operation = await store.operation_insert(operation)
        log.info(
            "%s started by %r: %r",
            _title(operation),
            operation.user,
            operation.query[:_LOGGED],
            extra={"operation": operation.id},
        )
        self._work_on(operation, in_process)
        return operation

    async def get(self, id: str) -> Operation | None:
        """Return the operation; None if it is unknown or was deleted."""
        found = await self._in_process.operation_get(id)
        if found is None and await self.shared():
            async with self._driver.reading() as executor:
                found = await OperationStore(executor).operation_get(id)
        return found if found and found.verb in OPERATION_VERBS else None

    async def list(self, *, limit: int, before: str | None = None) -> Sequence[Operation]:
        """Return operations, newest first; only those started before the one with the id `before`
        if that is given. Those whose verb this version does not know are left out.
        """
        in_process = None if await self.shared() else self._in_process
        async with self._open(self._driver.reading, in_process) as store:
            return await store.operation_list(verbs=OPERATION_VERBS, limit=limit, before=before)

    async def stop(self, operation: Operation, *, user: str) -> Operation:
        """Ask the dashboard that works on it to stop after the current chunk, and return the
        operation as it is then. Do nothing if it has ended.
        """
        known = await self._in_process.operation_get(operation.id)
        in_process = self._in_process if known else None
        was_running = operation.status is OperationStatus.RUNNING
        async with self._open(self._driver.transaction, in_process) as store:
            found = await store.operation_stop(operation.id, user=user)
        if found is None or found.ended_at is not None:
            return found or operation
        if was_running:
            log.info("%s stopped by %r", operation.verb, user, extra={"operation": operation.id})
        if held := self._held.get(operation.id):
            held[0].note(found.status)
        return found

    async def close(self, *, release: bool = True) -> None:
        """Stop working, giving up the current chunks, and release what is held, so that another
        dashboard can continue at once. Without `release` others wait for the end of the lease, as
        when a process is killed.
        """
        held = list(self._held.values())
        tasks = {task for _, task in held}
        if is_running(self._watching):
            tasks.add(self._watching)
        self._watching = None
        await cancel_all(tasks)
        for run, _ in held if release else ():
            try:
                async with run.open(self._driver.autocommit) as store:
                    await store.operation_release(run.operation)
            except DatabaseError as error:
                log.info("%s could not be released: %s", _title(run.operation), error)
        self._held.clear()

    async def _watch(self) -> None:
        while True:
            pause = self._limits.look
            try:
                if not await self.shared():
                    pause = self._limits.look_for_table
                elif not self._config.read_only and not self._driver.read_only:
                    await self._take_over()
                    await self._delete_old()
                self._logged_error = ""
            except DatabaseError as error:
                # Once per kind of error, as it may last.
                if str(error) != self._logged_error:
                    log.warning("Operations of other dashboards cannot be looked for: %s", error)
                self._logged_error = str(error)
            except Exception:
                log.exception("Looking for operations of other dashboards failed")
                pause = self._limits.look_for_table
            await asyncio.sleep(pause.total_seconds())

    async def _take_over(self) -> None:
        while len(self._held) < self._limits.running:
            async with self._driver.autocommit() as executor:
                operation = await OperationStore(executor, term=self._limits.term).operation_claim(
                    holder=self._name, verbs=OPERATION_VERBS, features=self._pilot.verb_features
                )
            if operation is None:
                return
            log.info(
                "%s of %r taken over",
                operation.verb,
                operation.user,
                extra={"operation": operation.id},
            )
            self._work_on(operation, None)

    async def _delete_old(self) -> None:
        if time.monotonic() - self._deleted < self._limits.forget.total_seconds():
            return
        before, most = datetime.now(UTC) - self._limits.keep, self._limits.forgotten
        async with self._driver.autocommit() as executor:
            deleted = await OperationStore(executor).operation_delete_before(before, limit=most)
        if deleted < most:
            self._deleted = time.monotonic()

    def _work_on(self, operation: Operation, in_process: OperationsInProcess | None) -> None:
        run = OperationRun(
            self._driver,
            self._config,
            operation,
            limits=self._limits,
            pilot=self._pilot,
            in_process=in_process,
        )
        self._held[operation.id] = run, asyncio.create_task(self._work(run))

    async def _work(self, run: OperationRun) -> None:
        operation, extra = run.operation, {"operation": run.operation.id}
        renewing = None if run.in_process else asyncio.create_task(run.renew())
        try:
            operation.status = await self._outcome(run)
            async with run.open(self._driver.transaction) as store:
                await store.operation_end(operation)
            log.info("%s", _summary(operation), extra=extra)
        except OperationLost as error:
            log.warning("%s: %s", _title(operation), error, extra=extra)
        except DatabaseError as error:
            # Its lease expires, and a dashboard that reaches the database continues.
            log.warning("%s waits for the database: %s", _title(operation), error, extra=extra)
        finally:
            if renewing:
                renewing.cancel()
            # This process may have taken over again what it had lost.
            if self._held.get(operation.id, (None,))[0] is run:
                del self._held[operation.id]

    async def _outcome(self, run: OperationRun) -> OperationStatus:
        """Return how the run ended. Raise OperationLost and, with the table, DatabaseUnavailable:
        another dashboard continues.
        """
        operation, extra = run.operation, {"operation": run.operation.id}
        try:
            return await run.run()
        except OperationLost:
            raise
        except RiveruiError as error:
            if isinstance(error, DatabaseUnavailable) and run.in_process is None:
                raise
            operation.error = error.public
            log.warning("%s stopped: %s", operation.verb, error, extra=extra)
        except Exception:
            operation.error = "Something went wrong; see the server's log."
            log.exception("%s failed", operation.verb, extra=extra)
        return OperationStatus.FAILED


def _title(operation: Operation) -> str:
    """Return the verb with its parameters, for the log."""
    words = OPERATION_VERBS[operation.verb].words(operation.parameters)
    return f"{operation.verb} ({words})" if words else operation.verb


def _summary(operation: Operation) -> str:
    """Return how the operation ended and who asked for what, for the log."""
    skipped = {reason.value: number for reason, (number, _) in operation.skipped.items()}
    error = f": {operation.error}" if operation.error else ""
    return (
        f"{_title(operation)} {operation.status.value}: {operation.changed} changed,"
        f" {operation.requested} requested, skipped {skipped}, asked by {operation.user!r} for"
        f" {operation.query[:_LOGGED]!r}{error}"
    )


OPERATIONS = Service(
    make=lambda board: Operations(
        board.primary,
        board.config,
        name=board.name,
        limits=board.limits.get(OperationLimits),
        pilot=board.pilot,
    ),
    start=Operations.watch,
    close=Operations.close,
)
