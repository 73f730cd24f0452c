"""Writes a client's figures to the table, if it exists: what River's rows do not keep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from riverui.engine.client_context import ClientContext
from riverui.engine.waiting import between, pass_on_cancellation, within
from riverui.errors import DatabaseError, PermissionDenied, ReadOnlyDatabase, SchemaMissing
from riverui.features.figures.domain import MINUTE
from riverui.features.figures.engine.attempt_tallies import AttemptTallies
from riverui.features.figures.store import CLIENT_LATE, RollupStore

_LAST_SECONDS = 3.0
"""How long a stop waits for the last figures to be written."""
_MAX_ID = 80
"""Characters of the client's id in the name of its figures, which has 100 with the time."""
_TIDY_SECONDS = 600.0
"""Between two deletions of old figures of clients; dashboards delete them too."""
_DELETED = 2_000
"""Rows that one deletion deletes at most."""


class ClientFigures:
    """One client's figures, from its start to its stop. Errors do not affect the client's work."""

    def __init__(
        self, client: ClientContext, count: Callable[[AttemptTallies | None], None]
    ) -> None:
        self._client = client
        self._count = count
        """Called with the tallies that count ended attempts, or with None to count none."""
        self._there = False
        self._error = ""
        self._tallies = AttemptTallies(keep=MINUTE + CLIENT_LATE, clock=client.clock)
        # A client that restarts under the same id counts the same minute again.
        self._source = f"{client.id[:_MAX_ID]}@{time.time_ns():x}"
        self._tidied = time.monotonic()

    async def start(self) -> None:
        """Count from the first job, if the table exists."""
        with suppress(DatabaseError):
            await self._look()

    async def run(self) -> None:
        """Look for the table now and then, and write new figures while it exists."""
        limits = self._client.limits
        seconds = limits.figures_seconds
        while True:
            pass_on_cancellation()
            # So that clients that were started together do not write together.
            await asyncio.sleep(seconds * between(0.9, 1.0))
            seconds = limits.look_for_figures_seconds
            try:
                if not self._there:
                    await self._look()
                else:
                    await self._write()
                if self._there:
                    seconds = limits.figures_seconds
            except (PermissionDenied, ReadOnlyDatabase) as error:
                self._rest()
                self._note(error)
                seconds = limits.figures_refused_seconds
            except SchemaMissing:
                self._rest()
            except DatabaseError as error:
                # Counts not written in time are dropped, and charts use the rows.
                self._note(error)
                seconds = limits.figures_seconds

    async def stop(self) -> None:
        """Write the last figures, once all attempts have ended."""
        self._count(None)
        if self._there:
            try:
                await within(_LAST_SECONDS, self._write())
            except (DatabaseError, TimeoutError) as error:
                self._client.logger.debug("the last figures could not be stored: %s", error)

    async def _look(self) -> None:
        async with self._client.driver.autocommit() as executor:
            self._there = await RollupStore.installed(executor)
        if self._there:
            self._count(self._tallies)

    async def _write(self) -> None:
        rows, written = self._tallies.unwritten()
        if rows:
            async with self._client.driver.autocommit() as executor:
                await RollupStore(executor).rollup_client_put(self._source, rows)
            written()
            if self._error:
                self._client.logger.info("figures of this client are stored again")
            self._error = ""
        if time.monotonic() - self._tidied >= _TIDY_SECONDS:
            self._tidied = time.monotonic()
            async with self._client.driver.autocommit() as executor:
                await RollupStore(executor).rollup_client_delete_old(limit=_DELETED)

    def _rest(self) -> None:
        self._there = False
        self._count(None)
        self._tallies.forget()

    def _note(self, error: DatabaseError) -> None:
        """Log an error once until it clears."""
        if not self._error:
            self._client.logger.warning("figures of this client could not be stored: %s", error)
        self._error = str(error)
