"""Runs riverui's own part of the maintenance while a client of another kind leads, such as Go's,
which does not support workflows, sequences and durable periodic jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta

from riverui.engine.client_context import ClientContext
from riverui.engine.lead.elector import LeaderTerm, steady_clock
from riverui.engine.waiting import between, pass_on_cancellation
from riverui.errors import DatabaseError, SchemaMissing
from riverui.features.heartbeats.store import ClientStore
from riverui.storage.interface import Executor

_LIMIT = timedelta(seconds=5)
"""Time limit of a statement. The server ends an idle transaction ten seconds later, and with it the
stand-in role of an unresponsive client.
"""
_TRUSTED_SECONDS = 14.0
"""Seconds from a renewal until another client may stand in: a second less than the server waits."""
_RENEW_SECONDS = 5.0
"""Seconds between two renewals, so that two may fail."""
_STEP_SECONDS = 1.0
"""Seconds between checks whether this client leads; and between seeing the lock free and taking it,
as its holder may only be changing transactions.
"""
_TRANSACTION_SECONDS = 60.0
"""Maximum seconds of one transaction: longer ones look forgotten."""
_LOOKS_WITHOUT_TABLE = 20
"""Checks to skip (five minutes) if the table of clients does not exist."""


class StandIn:
    """Watches who leads. If that is a client without a row in the table of clients, one of the
    watching clients does `work`: the one whose transaction holds an advisory lock.

    Two may do it at once for a moment, or one beside a riverui leader without heartbeats: the work
    must allow for that.
    """

    def __init__(
        self,
        client: ClientContext,
        work: Callable[[LeaderTerm], Awaitable[None]],
        *,
        leads: Callable[[], bool],
        lacks: Callable[[], Iterable[str]],
    ) -> None:
        self._client = client
        self._failing = False
        self._lacks = lacks
        """Returns what does not happen while such a client leads, each as a part of a sentence."""
        self._leader = ""
        """The leader at the last check; empty for a riverui client."""
        self._leads = leads
        self._logger = client.logger
        self._seconds = client.limits.stand_in_seconds
        self._work = work

    async def run(self) -> None:
        """Watch, and stand in when needed, until cancelled."""
        looks = 1
        while True:
            pass_on_cancellation()
            await asyncio.sleep(looks * self._seconds * between(0.8, 1.2))
            looks = 1
            if self._leads():
                continue
            try:
                await self._look()
                self._failing = False
            except SchemaMissing:
                looks = _LOOKS_WITHOUT_TABLE
            except (DatabaseError, TimeoutError) as error:
                if not self._failing:
                    self._logger.info("the leader cannot be determined: %s", error)
                self._failing = True

    async def _look(self) -> None:
        async with self._client.driver.autocommit(timeout=_LIMIT) as executor:
            # Released at once, as each call is a transaction of its own.
            found = await ClientStore(executor).client_other_leader(claim=True)
        leader = "" if found is None else found.leader_id
        if leader and leader != self._leader:
            for lack in self._lacks():
                self._logger.warning("client %s leads and is not riverui's: %s", leader, lack)
        self._leader = leader
        if found is not None and found.claimed:
            await asyncio.sleep(min(_STEP_SECONDS, self._seconds))
            await self._stand_in()

    async def _stand_in(self) -> None:
        """Work as long as the lock is held and needed."""
        term = LeaderTerm(
            leader_id=self._client.id, elected_at=datetime.now(UTC), trusted_until=0.0
        )
        work: asyncio.Future[None] | None = None
        goes_on = True
        try:
            while goes_on:
                goes_on, until = False, steady_clock() + _TRANSACTION_SECONDS
                async with self._client.driver_beside().transaction(timeout=_LIMIT) as transaction:
                    while await self._claim(transaction, term):
                        if work is None:
                            self._logger.info(
                                "client %s leads and is not riverui's: client %s runs the"
                                " services that it lacks",
                                self._leader,
                                self._client.id,
                            )
                            work = asyncio.ensure_future(self._work(term))
                        if not await self._wait(work):
                            break
                        if goes_on := steady_clock() > until:
                            break
        finally:
            term.end()
            if work is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    async def _claim(self, transaction: Executor, term: LeaderTerm) -> bool:
        """Acquire or keep the lock, and extend the term; return whether it was needed and
        granted.
        """
        started = steady_clock()
        found = await ClientStore(transaction).client_other_leader(claim=True)
        if found is None or not found.claimed:
            return False
        term.trusted_until = started + _TRUSTED_SECONDS
        return True

    async def _wait(self, work: asyncio.Future[None]) -> bool:
        """Wait for the next renewal; return False if the work is over, or this client leads now.
        Raise the work's exception.
        """
        until = steady_clock() + min(_RENEW_SECONDS, self._seconds)
        while (seconds := until - steady_clock()) > 0:
            await asyncio.wait([work], timeout=min(_STEP_SECONDS, seconds))
            if work.done():
                await work
            if work.done() or self._leads():
                return False
        return True
