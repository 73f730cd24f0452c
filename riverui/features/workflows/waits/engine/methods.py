"""What a client offers for signals and waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from riverui.actions.expressions import Expressions
from riverui.domain.stored_json import UnreadableJson, read_json
from riverui.engine.args import gojson
from riverui.errors import SignalRefused
from riverui.features.workflows.domain.workflows import SignalRow
from riverui.features.workflows.waits.store import SignalInsertParams, WaitStore
from riverui.features.workflows.waits.verbs import diagnosis as wait_diagnosis, signals
from riverui.features.workflows.waits.verbs.diagnosis import WaitDiagnosis
from riverui.storage.interface import Driver


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """Something that a workflow was told, for good."""

    id: int
    workflow_id: str
    attempt: int
    """Of the workflow, when it was told."""
    key: str
    payload: Any
    source: Any
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalList:
    """Signals of a task, and where more of them begin."""

    signals: Sequence[Signal]
    next_cursor_id: int | None
    """For `after`; None after the last."""


class SignalOpts(TypedDict, total=False):
    """What a signal may have besides; see `workflow_signal`."""

    attempt: int | None
    idempotency_key: str | None
    source: Any


class SignalMethods:
    """Sending signals, which both clients can do."""

    driver: Driver

    async def workflow_signal(
        self,
        id: str,
        key: str,
        payload: Any = None,
        *,
        attempt: int | None = None,
        idempotency_key: str | None = None,
        source: Any = None,
    ) -> Signal:
        """Tell a workflow something, for the tasks that wait for this key, and return the signal.

        It belongs to the workflow's attempt of now; SignalAttemptMismatch where that is not
        `attempt`. Sent again with the same idempotency key it is the signal that is there;
        SignalConflict where that has another key or payload. `source` says where it comes from.
        NotFound without the workflow, SignalRefused for what is too large.
        """
        params = _params(id, key, payload, attempt, idempotency_key, source)
        async with self.driver.transaction() as tx:
            return _signal(id, await signals.send(WaitStore(tx), params))

    async def workflow_signal_tx(
        self,
        tx: object,
        id: str,
        key: str,
        payload: Any = None,
        *,
        attempt: int | None = None,
        idempotency_key: str | None = None,
        source: Any = None,
    ) -> Signal:
        """Tell a workflow something when the transaction commits. Until then, others who signal
        the same workflow wait.
        """
        params = _params(id, key, payload, attempt, idempotency_key, source)
        executor = await self.driver.adopt(tx)
        return _signal(id, await signals.send(WaitStore(executor), params))


class WaitMethods(SignalMethods):
    """The methods of a Client that are about signals and waits."""

    _expressions = Expressions

    async def workflow_signal_latest(
        self, id: str, task: str, key: str, *, attempt: int | None = None
    ) -> Signal | None:
        """Return the latest signal of a key that a task waits for; None before there is one.

        SignalUndeclared for a key that the task does not wait for. Also after the wait is over.
        """
        found = await self.workflow_signal_list(
            id, task, key=key, attempt=attempt, limit=1, descending=True
        )
        return found.signals[0] if found.signals else None

    async def workflow_signal_list(
        self,
        id: str,
        task: str,
        *,
        key: str | None = None,
        attempt: int | None = None,
        after: int = 0,
        limit: int = 100,
        descending: bool = False,
    ) -> SignalList:
        """Return signals that a task waits for, up to 1,000, behind the one with the id `after`; of
        the workflow's attempt of now unless another is asked for.
        """
        async with self.driver.autocommit() as executor:
            found = await signals.page(
                executor,
                id,
                task,
                key=key,
                attempt=attempt,
                after=after,
                limit=limit,
                descending=descending,
            )
        return SignalList(
            signals=[_signal(id, row) for row in found.signals],
            next_cursor_id=found.next_cursor_id,
        )

    async def workflow_wait_diagnose(self, id: str, task: str) -> WaitDiagnosis:
        """Return how far a task's wait is, evaluated now; nothing is changed by that.

        NotFound where there is no such task, or it has no wait.
        """
        with self._expressions() as expressions:
            async with self.driver.autocommit() as executor:
                return await wait_diagnosis.diagnose(executor, expressions, id, task)


def _params(
    id: str,
    key: str,
    payload: Any,
    attempt: int | None,
    idempotency_key: str | None,
    source: Any,
) -> SignalInsertParams:
    return SignalInsertParams(
        workflow_id=id,
        key=key,
        payload=_json("payload", payload),
        source=_json("source", source),
        attempt=attempt,
        idempotency_key=idempotency_key,
    )


def _json(what: str, value: Any) -> str:
    try:
        return gojson.dump(value)
    except gojson.Unfit as error:
        raise SignalRefused(f"The signal's {what} cannot be kept: {error}") from None


def _signal(id: str, row: SignalRow) -> Signal:
    return Signal(
        id=row.id,
        workflow_id=id,
        attempt=row.attempt,
        key=row.key,
        payload=_value(row.payload),
        source=_value(row.source),
        created_at=row.created_at,
    )


def _value(text: str) -> Any:
    try:
        return read_json(text)
    except UnreadableJson:
        return None
