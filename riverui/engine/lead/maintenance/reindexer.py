"""Rebuilds the indexes that become bloated in a busy queue."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from riverui.domain.schedules import NEVER, DailyMidnight, next_time
from riverui.engine.config import ClientConfig
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.service import ServiceContext, run_round
from riverui.engine.waiting import until
from riverui.storage.interface import SQL, WORKING
from riverui.storage.stores.indexes import IndexStore

INDEX_NAMES = (
    "river_job_args_index",
    "river_job_kind",
    "river_job_metadata_index",
    "river_job_pkey",
    "river_job_prioritized_fetching_index",
    "river_job_state_and_finalized_at_index",
    "river_job_unique_idx",
)
"""River's default."""

_CLEANUP = timedelta(seconds=15)
"""Time limit for removing what an interrupted rebuild left, while the client stops: River's
figure.
"""
_LONGEST_TIMEOUT = timedelta(days=24)
"""About the largest possible `statement_timeout`."""

_ARTEFACT = re.compile(r"(.+)_cc(?:new|old)\d*")
_LONGEST_NAME_BYTES = 63
"""Postgres's limit for the name of an index."""


class Reindexer:
    """Rebuilds indexes, by default daily: one after the other, while the queue keeps working."""

    name = "reindexer"

    def __init__(self, context: ServiceContext, config: ClientConfig) -> None:
        self._context = context
        configured = config.reindexer_index_names
        self._names = INDEX_NAMES if configured is None else tuple(configured)
        self._schedule = config.reindexer_schedule or DailyMidnight()
        self._timeout = config.reindexer_timeout

    async def run(self, term: LeaderTerm) -> None:
        """Run a round at each time of the schedule; return at once if the driver cannot rebuild
        indexes.
        """
        if SQL not in self._context.driver.capabilities:
            return
        clock, sleep = self._context.clock, self._context.timing.sleep
        await self._context.timing.begin()
        at = self._after(clock())
        while True:
            await until(at, clock, sleep)
            if term.trusted:
                await run_round(self.name, self.run_once, self._context)
            # From the planned time, so that the length of a round does not shift the next one.
            at = self._after(at)
            if at <= clock():
                at = self._after(clock())

    async def run_once(self) -> Sequence[str]:
        """Rebuild the configured indexes that exist; return the names of those that were
        rebuilt.
        """
        if not self._names:
            return []
        async with self._context.executor() as executor:
            there = await IndexStore(executor).index_list()
        if missing := [name for name in self._names if name not in there]:
            self._context.logger.warning("%s: index not found: %s", self.name, ", ".join(missing))
        return [name for name in self._names if name in there and await self._rebuild(name, there)]

    def _after(self, at: datetime) -> datetime:
        try:
            return next_time(self._schedule, at)
        except Exception:
            self._context.logger.exception(
                "%s: its schedule failed, no index will be rebuilt", self.name
            )
            return NEVER

    async def _rebuild(self, name: str, there: Iterable[str]) -> bool:
        # An interrupted rebuild was probably too slow for its time limit. Retrying would only load
        # the server each night: a person has to drop what is left, and raise the limit.
        if artefacts := _artefacts(name, there):
            self._context.logger.warning(
                "%s: skipped %s, whose last rebuild was interrupted: drop %s and set a longer"
                " reindexer_timeout",
                self.name,
                name,
                ", ".join(artefacts),
            )
            return False
        limit = self._timeout
        if limit < timedelta(0):
            limit = _LONGEST_TIMEOUT
        try:
            async with WORKING.on(self._context.driver).session(timeout=limit) as executor:
                await IndexStore(executor).index_reindex(name)
        except asyncio.CancelledError:
            # This client stops or no longer leads, which is no reason to skip the index from now
            # on.
            await self._drop_artefacts(name)
            raise
        except Exception:
            self._context.logger.exception("%s: %s could not be rebuilt", self.name, name)
            return False
        self._context.logger.info("%s: rebuilt %s", self.name, name)
        return True

    async def _drop_artefacts(self, name: str) -> None:
        try:
            async with (
                asyncio.timeout(_CLEANUP.total_seconds()),
                WORKING.on(self._context.driver).session(timeout=_CLEANUP) as executor,
            ):
                indexes = IndexStore(executor)
                for artefact in _artefacts(name, await indexes.index_list()):
                    await indexes.index_drop(artefact)
        except Exception:
            self._context.logger.exception(
                "%s: what is left of %s could not be dropped", self.name, name
            )


def _artefacts(name: str, there: Iterable[str]) -> list[str]:
    """Return what REINDEX CONCURRENTLY left behind of an index; Postgres truncates long names for
    its suffix.
    """
    found = []
    for other in there:
        match = _ARTEFACT.fullmatch(other)
        if match and (
            match[1] == name
            or (len(other.encode()) == _LONGEST_NAME_BYTES and name.startswith(match[1]))
        ):
            found.append(other)
    return found
