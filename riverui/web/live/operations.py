"""Actions on all matching jobs in this process: they end with it, and nobody else sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

from riverui.actions.pilot import JobPilot
from riverui.actions.verbs import NOTHING, Given, JobVerb
from riverui.domain.pace import Pace
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, CountKind, JobCutoff, JobFilter, JobOrder
from riverui.web.config import DashboardConfig
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.operation_run import (
    SAMPLES,
    Operation,
    OperationLimits,
    OperationRun,
    OperationStatus,
    tell_failure,
)
from riverui.web.live.operation_store import NewOperation, OperationList

__all__ = ["SAMPLES", "Operation", "OperationLimits", "OperationStatus", "Operations"]

log = logging.getLogger("riverui.operations")


def refuse(limits: OperationLimits) -> NoReturn:
    """Raise BadRequest: enough operations are running."""
    raise BadRequest(
        f"{limits.running} actions on all matching jobs are already running: wait for"
        " one, or stop one."
    )


class Operations:
    """The operations of one dashboard. They live as long as the process and need no lifespan."""

    shared = False

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        *,
        limits: OperationLimits | None = None,
        pilot: JobPilot,
    ) -> None:
        self._driver = driver
        self._config = config
        self._pilot = pilot
        self._limits = limits or OperationLimits()
        self._operations: dict[str, Operation] = {}

    def list(self) -> Sequence[Operation]:
        """Return every remembered operation, newest first."""
        return tuple(reversed(self._operations.values()))

    def get(self, id: str) -> Operation | None:
        """Return the operation; None where it is unknown or forgotten."""
        return self._operations.get(id)

    def start(
        self,
        verb: JobVerb,
        filter: JobFilter,
        *,
        given: Given = NOTHING,
        cutoff: JobCutoff,
        filter_text: str,
        id: str,
        order: JobOrder,
        total: Count | None = None,
        user: str = "",
        pace: Pace | None = None,
    ) -> Operation:
        """Start to do a verb to every job that matches, and return the operation.

        Where there is one of that id already, nothing is started and it is returned. `given` is
        what the verb takes besides the jobs. BadRequest when enough operations are running.
        """
        if known := self._operations.get(id):
            return known
        if (
            sum(not operation.ended for operation in self._operations.values())
            >= self._limits.running
        ):
            refuse(self._limits)
        operation = Operation(
            id=id,
            verb=verb,
            filter=filter,
            given=given,
            filter_text=filter_text,
            order=order,
            cutoff=cutoff,
            user=user,
            total=total or Count(value=0, kind=CountKind.AT_LEAST),
            started_at=datetime.now(UTC),
            pace=pace or Pace(),
        )
        self._operations[operation.id] = operation
        self._forget()
        operation.task = asyncio.create_task(self._run(operation))
        log.info(
            "%s started by %r: %r",
            operation.title,
            user,
            operation.filter_told,
            extra={"operation": operation.id},
        )
        return operation

    def stop(self, operation: Operation, *, user: str = "") -> None:
        """Ask it to stop after the chunk at hand; do nothing where it has ended."""
        if operation.status is OperationStatus.RUNNING:
            operation.status = OperationStatus.STOPPING
            operation.stopped_by = user
            log.info(
                "%s stopped by %r", operation.verb.name, user, extra={"operation": operation.id}
            )

    async def begin(self, asked: NewOperation) -> Operation:
        """Start an operation; see OperationStore."""
        return self.start(
            asked.verb,
            asked.filter,
            given=asked.given,
            cutoff=asked.cutoff,
            filter_text=asked.filter_text,
            id=asked.id,
            order=asked.order,
            total=asked.total,
            user=asked.user,
            pace=asked.pace,
        )

    async def find(self, id: str) -> Operation | None:
        """Return the operation; None where it is unknown or forgotten."""
        return self.get(id)

    async def page(self, *, before: str | None = None, limit: int) -> OperationList:
        """Return every remembered operation, newest first: they are few."""
        return OperationList(operations=() if before else self.list())

    async def halt(self, operation: Operation, *, user: str) -> Operation:
        """Ask it to stop after the chunk at hand, and return it."""
        self.stop(operation, user=user)
        return operation

    async def close(self) -> None:
        """End them all; the chunks at hand are given up."""
        await cancel_all(
            {operation.task for operation in self._operations.values() if operation.task}
        )

    def _forget(self) -> None:
        ended = [operation.id for operation in self._operations.values() if operation.ended]
        for operation_id in ended[: max(0, len(ended) - self._limits.remembered)]:
            del self._operations[operation_id]

    async def _run(self, operation: Operation) -> None:
        status = OperationStatus.FAILED
        try:
            status = await OperationRun(
                self._driver, self._config, operation, self._limits, self._pilot
            ).run()
        except asyncio.CancelledError:
            operation.error = "The dashboard was shut down."
            raise
        except Exception as error:
            tell_failure(operation, error)
        finally:
            operation.status = status
            operation.ended_at = datetime.now(UTC)
            operation.task = None
            log.info("%s", operation.summary, extra={"operation": operation.id})
