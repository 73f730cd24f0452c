"""Evaluates due waits, and stages the tasks whose wait is over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import FINALIZED
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.notifier import WAITS as NOTIFIED
from riverui.errors import ExpressionsUnavailable, WaitInvalid
from riverui.features.workflows.store import WorkflowStore
from riverui.features.workflows.verbs import jobs as workflow_jobs
from riverui.features.workflows.waits.domain import Wait, evidence, time_text
from riverui.features.workflows.waits.expressions import Expressions
from riverui.features.workflows.waits.store import (
    WaitDep,
    WaitFacts,
    WaitRow,
    WaitStore,
    WaitUpdate,
)
from riverui.features.workflows.waits.verbs import signals, waits

_CLAIMED = 100
"""Waits that are evaluated together: their statements take milliseconds, one evaluation at most a
second or two.
"""
_LEASE = timedelta(minutes=1)
"""Time after which a wait is due again if its evaluation never finished because the leader died."""
_AGAIN = timedelta(hours=1)
"""Time after which a wait is evaluated without a reason. It covers signals that did not make it
due, as their transactions saw an older state of the database, and jobs cancelled by other clients.
"""
_UNREADABLE = timedelta(minutes=5)
"""Time until the next attempt at a wait that this leader cannot evaluate: it has to be repaired
first, or CEL installed.
"""
_GATHERED = 16_000_000
"""Bytes of signals held at once; further waits are evaluated in the next batch."""
_UNWRITTEN_SECONDS = 1.0
"""Time until the first results are written, even if other waits are still being evaluated."""
_ENDED = {None, *FINALIZED}
"""States of jobs that will not be worked any more; None for a deleted job."""
_LOOK_SECONDS = 30.0
"""Longest time between two queries if nothing is due and no notification arrives: those are seldom
lost.
"""
_TABLE_ROUNDS = 30
"""Rounds between two checks for a missing table."""


class WaitEvaluator:
    """Evaluates due waits: those that began, got a signal, or have a timer that fires.

    Nothing else is read, however many tasks wait. With a listening notifier the database is queried
    only when a notification arrives or the next timer fires.
    """

    name = "workflow waits"

    def __init__(self, context: ServiceContext, *, interval: timedelta) -> None:
        self.interval = interval
        self._context = context
        self._expressions = Expressions()
        self._there = False
        self._ask_in = 0
        """Rounds until the next check for the table."""
        self._look_at = 0.0
        """When the next known wait is due, by the context's clock."""
        self._notified = True
        """Whether other waits may be due."""
        if context.notifier is not None:
            context.notifier.subscribe(NOTIFIED, lambda message: self._notify())
            context.notifier.on_reconnect(self._notify)

    async def run_once(self) -> int:
        """Evaluate all due waits; return how many tasks were staged."""
        staged = 0
        if not await self._ready() or not self._due:
            return staged
        self._notified, self._look_at = False, 0.0
        while True:
            async with self._context.executor() as executor:
                rows = await WaitStore(executor).workflow_wait_claim(lease=_LEASE, limit=_CLAIMED)
            if rows:
                looked, moved = await self._look(rows)
                staged += moved
            if len(rows) < _CLAIMED or not looked:
                break
        if self._context.notifier is not None:
            async with self._context.executor() as executor:
                seconds = await WaitStore(executor).workflow_wait_next()
            wait = _LOOK_SECONDS if seconds is None else min(seconds, _LOOK_SECONDS)
            self._look_at = self._context.now() + wait
        return staged

    @property
    def _due(self) -> bool:
        """Whether any wait may be due."""
        notifier = self._context.notifier
        if notifier is None or not notifier.listening or self._notified:
            return True
        return self._context.now() >= self._look_at

    def _notify(self) -> None:
        self._notified = True

    def close(self) -> None:
        """End the process that evaluates expressions."""
        self._expressions.close()

    async def _ready(self) -> bool:
        if self._there:
            return True
        if self._ask_in > 0:
            self._ask_in -= 1
            return False
        self._ask_in = _TABLE_ROUNDS
        async with self._context.executor() as executor:
            self._there = await WaitStore.installed(executor)
        return self._there

    async def _look(self, rows: Sequence[WaitRow]) -> tuple[int, int]:
        """Evaluate waits; return how many were evaluated, and how many are over."""
        gathered, updates, left = await self._gather(rows)
        looked, staged = len(updates) + len(gathered), 0
        over: set[int] = set()
        written_at = self._context.now()
        for row, found in gathered:
            try:
                look = await waits.look(self._expressions, found)
            except ExpressionsUnavailable as error:
                updates.append(_broken(row, found.facts, str(error)))
                continue
            updates.append(_update(row, look))
            if look.over:
                over.add(row.job_id)
            if self._context.now() - written_at > _UNWRITTEN_SECONDS:
                # Fast ones do not wait for slow ones.
                staged += await self._write(updates, over)
                updates, over, written_at = [], set(), self._context.now()
        staged += await self._write(updates, over)
        # Another client has cancelled or deleted these jobs: their tasks have ended.
        strays = [row.job_id for row, found in gathered if found.facts.job_state in _ENDED]
        if strays:
            async with self._context.transaction() as tx:
                await workflow_jobs.settle(tx, strays)
        if left:
            async with self._context.executor() as executor:
                await WaitStore(executor).workflow_wait_due(left)
        return looked, staged

    async def _write(self, updates: Sequence[WaitUpdate], over: set[int]) -> int:
        """Write the results and stage tasks; return how many."""
        if not updates:
            return 0
        async with self._context.transaction() as tx:
            own = WorkflowStore(tx)
            await own.workflow_lock_by_job(sorted(each.row.job_id for each in updates))
            written = await WaitStore(tx).workflow_wait_update_many(updates)
            ready = sorted(over.intersection(written))
            if ready:
                await own.workflow_stage(ready)
        return len(ready)

    async def _gather(
        self, rows: Sequence[WaitRow]
    ) -> tuple[list[tuple[WaitRow, waits.Gathered]], list[WaitUpdate], list[WaitRow]]:
        """Read the inputs of the waits; return these, the updates of invalid waits, and the waits
        to evaluate later.
        """
        gathered: list[tuple[WaitRow, waits.Gathered]] = []
        updates: list[WaitUpdate] = []
        left: list[WaitRow] = []
        async with self._context.transaction() as tx:
            part = WaitStore(tx)
            quiet = set(await part.workflow_wait_quiet([row.workflow_id for row in rows]))
            keys = [_key(row) for row in rows if row.workflow_id in quiet]
            facts = {_key(found): found for found in await part.workflow_wait_facts(keys)}
            readable: list[tuple[WaitRow, Wait]] = []
            for row in rows:
                known = facts.get(_key(row))
                if known is None:
                    left.append(row)
                    continue
                try:
                    readable.append((row, signals.wait_of(row)))
                except WaitInvalid as error:
                    updates.append(_broken(row, known, str(error)))
            about = [_key(row) for row, wait in readable if waits.needs_deps(wait)]
            deps: dict[tuple[str, str], list[WaitDep]] = {}
            for dep in await part.workflow_wait_dep_list(about):
                deps.setdefault((dep.workflow_id, dep.task), []).append(dep)
            size = 0
            for row, wait in readable:
                if size > _GATHERED:
                    left.append(row)
                    continue
                found = await waits.gather(
                    part, row, wait, facts[_key(row)], deps.get(_key(row), [])
                )
                size += found.size
                gathered.append((row, found))
        return gathered, updates, left


def _key(row: WaitRow | WaitFacts) -> tuple[str, str]:
    return row.workflow_id, row.name


def _broken(row: WaitRow, facts: WaitFacts, error: str) -> WaitUpdate:
    progress = replace(waits.Progress.from_json(row.progress, facts.attempt), error=error[:500])
    return WaitUpdate(row, progress.to_json(), facts.now + _UNREADABLE)


def _update(row: WaitRow, look: waits.Look) -> WaitUpdate:
    facts, wait = look.gathered.facts, look.gathered.wait
    state = None
    if look.over:
        found = waits.waiting_state(wait, facts, look.fires) | {
            "resolved_at": time_text(facts.now),
            "result": evidence(
                wait,
                look.results,
                look.progress.signals,
                attempt=facts.attempt,
                as_of=facts.now,
            ),
        }
        state = json.dumps(found, ensure_ascii=False)
    elif waits.is_first(row, facts):
        state = json.dumps(waits.waiting_state(wait, facts, look.fires), ensure_ascii=False)
    return WaitUpdate(row, look.progress.to_json(), _due_at(look, look.fires), state)


def _due_at(look: waits.Look, fires: Mapping[str, datetime | None]) -> datetime:
    """Return when to evaluate a wait next, unless a signal arrives earlier."""
    now = look.gathered.facts.now
    if look.more:
        return now
    ahead = [at.astimezone(UTC) for at in fires.values() if at is not None and at > now]
    return min([now + _AGAIN, *ahead])
