"""Leader election: which client of the schema does the maintenance. Terms of the leader are in a
row shared with Go clients.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.queues import LeaderRow
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.side_loop import HomeLoop
from riverui.engine.waiting import Sleep, backoff, between, wait, within
from riverui.storage.interface import Driver

_RESIGN_ATTEMPTS = 3
"""Tries to resign before the term is left to expire: River's figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ElectionTimes:
    """Durations of leaders' terms and of the steps of an election; River's figures."""

    interval: timedelta = timedelta(seconds=5)
    """Time between two renewals, and between two bids."""
    jitter: timedelta = timedelta(seconds=1)
    """Random extra time between two bids, so that clients do not bid in step."""
    padding: timedelta = timedelta(seconds=10)
    """How much longer than the interval a term lasts in the database."""
    margin: timedelta = timedelta(seconds=1)
    """How much earlier than in the database the leader itself ends its term."""
    limit: timedelta = timedelta(seconds=5)
    """Time limit of a statement."""
    silence: timedelta = timedelta(seconds=30)
    """How long a leader with a blocked event loop keeps its term. There is no maintenance during
    that time: two terms are as long as jobs wait after a crash of a leader's machine, and they
    should not wait longer here.
    """

    @property
    def ttl(self) -> timedelta:
        """The length of a term in the database without renewal."""
        return self.interval + self.padding


def steady_clock() -> float:
    """Return seconds that advance even while the process or machine is stopped, and do not depend
    on the wall clock.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(kw_only=True, slots=True)
class LeaderTerm:
    """One term of a leader, identified by the leader's id and the time of its election."""

    leader_id: str
    elected_at: datetime
    trusted_until: float
    """On the steady clock: after that, another client may lead."""
    now: Callable[[], float] = steady_clock

    @property
    def remaining(self) -> float:
        """Seconds during which no other client can lead; not below 0."""
        return max(0.0, self.trusted_until - self.now())

    @property
    def trusted(self) -> bool:
        """Whether no other client can lead yet."""
        return self.now() < self.trusted_until

    def end(self) -> None:
        """End the term: another client may lead from now on."""
        self.trusted_until = -math.inf


Lead = Callable[[LeaderTerm], Awaitable[None]]
"""What the leader runs while it leads; it is cancelled at the end of the term."""


class Elector:
    """Stands for election, renews the term, and runs the leader's work.

    With `home`, it runs in a thread beside the client's event loop: terms are renewed while that
    loop is busy, for as long as `terms.silence` allows.
    """

    def __init__(
        self,
        driver: Driver,
        client_id: str,
        lead: Lead,
        *,
        home: HomeLoop | None = None,
        keeps_connection: bool = True,
        logger: logging.Logger | None = None,
        now: Callable[[], float] = steady_clock,
        sleep: Sleep = asyncio.sleep,
        terms: ElectionTimes | None = None,
    ) -> None:
        self._client_id = client_id
        self._home = home
        self._lead = lead
        self._logger = logger or logging.getLogger("riverui.engine.leader")
        self._now = now
        self._sleep = sleep
        self._terms = terms = terms or ElectionTimes()
        self._interval = terms.interval.total_seconds()
        self._jitter = terms.jitter.total_seconds()
        self._limit = terms.limit.total_seconds()
        self._connection = DedicatedConnection(driver, timeout=terms.limit, keeps=keeps_connection)
        self._lapsed: LeaderTerm | None = None
        """The last term, if it was neither resigned nor, as far as is known, taken by another
        client.
        """
        self._wake = asyncio.Event()
        self._resign_requested = False
        self._term: LeaderTerm | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this client is the leader, as far as is known."""
        return self._term is not None

    def request_resign(self) -> None:
        """Make this client, if it leads, resign and stand for election again."""
        if self._term is not None:
            self._resign_requested = True
            self._wake.set()

    def notified(self, message: dict[str, Any]) -> None:
        """Handle a notification of `river_leadership`: another leader resigned, or a resignation is
        requested.
        """
        if message.get("action") == "request_resign":
            self.request_resign()
        elif message.get("action") == "resigned" and message.get("leader_id") != self._client_id:
            self._wake.set()

    async def run(self) -> None:
        """Take part in elections until cancelled; then resign if this client leads."""
        rest = 0.0
        try:
            while True:
                if rest:
                    await self._sleep(rest)
                term = await self._follow()
                rest = await self._lead_term(term)
        finally:
            with suppress(TimeoutError):
                await within(self._limit, self._connection.close())

    async def _follow(self) -> LeaderTerm:
        """Bid until this client is elected."""
        errors = 0
        while True:
            if self._home is not None:
                # A client whose loop does not respond could not do a leader's work, so it does not
                # bid.
                await self._home.answers()
            started = self._now()
            try:
                leader = await within(self._limit, self._elect())
            except Exception as error:
                errors += 1
                pause = backoff(errors)
                self._warn("stand for election", error, errors, pause)
                await self._sleep(pause)
                continue
            if leader is not None:
                return LeaderTerm(
                    leader_id=leader.leader_id,
                    elected_at=leader.elected_at,
                    trusted_until=self._trusted_until(started),
                    now=self._now,
                )
            errors = 0
            await wait(self._wake, self._interval + between(0, self._jitter), sleep=self._sleep)
            if self._wake.is_set():
                self._wake.clear()
                # The leader has resigned, and all other clients were notified at the same instant.
                await self._sleep(between(0, 0.05))

    async def _lead_term(self, term: LeaderTerm) -> float:
        """Lead until the term ends; return how many seconds to leave to others before the next
        bid.
        """
        self._resign_requested = False
        self._lapsed = None
        self._term = term
        self._logger.info("client %s is now the leader", self._client_id)
        work = asyncio.ensure_future(self._work(term))
        resign = True
        try:
            resign = await self._keep(term, work)
            failed = work.done()
            if failed and not work.cancelled() and (error := work.exception()):
                self._logger.error(
                    "maintenance failed: this client resigns as leader", exc_info=error
                )
        finally:
            self._term = None
            term.end()
            work.cancel()
            if resign:
                await self._resign(term)
            await asyncio.gather(work, return_exceptions=True)
            self._logger.info("client %s is no longer the leader", self._client_id)
        if failed:
            return self._interval
        return between(0.05, 0.1) if self._resign_requested else 0.0

    async def _work(self, term: LeaderTerm) -> None:
        if self._home is None:
            await self._lead(term)
        else:
            await self._home.do(lambda: self._lead(term))

    async def _keep(self, term: LeaderTerm, work: asyncio.Future[None]) -> bool:
        """Renew the term until it is lost or should end; return whether it has to be resigned."""
        errors = 0
        due = self._now() + self._interval
        while True:
            if self._home is not None:
                self._home.ask()
            await wait(self._wake, due - self._now(), work, sleep=self._sleep)
            self._wake.clear()
            if work.done() or self._resign_requested:
                return True
            if not term.trusted:
                self._logger.warning(
                    "leadership could not be renewed in time: this client steps down"
                )
                # It is resumed if no other client has led by the time that the database is
                # available.
                self._lapsed = term
                return False
            if self._home is not None and self._home.silence > self._terms.silence.total_seconds():
                self._logger.warning(
                    "the event loop has been blocked for %.0f s: this client leaves leadership to"
                    " others",
                    self._home.silence,
                )
                return True
            if self._now() < due:
                continue
            started = self._now()
            try:
                renewed = await within(min(self._limit, term.remaining), self._renew(term))
            except Exception as error:
                errors += 1
                pause = min(backoff(min(errors, 3)), term.remaining)
                self._warn("renew leadership", error, errors, pause)
                due = self._now() + pause
                continue
            if renewed is None:
                return False
            errors = 0
            term.trusted_until = self._trusted_until(started)
            due = self._now() + self._interval

    async def _elect(self) -> LeaderRow | None:
        if (lapsed := self._lapsed) is not None:
            resumed = await self._connection.call(
                lambda executor: executor.leader.resume(
                    lapsed.leader_id, elected_at=lapsed.elected_at, ttl=self._terms.ttl
                )
            )
            if resumed is not None:
                return resumed
            self._lapsed = None
        return await self._connection.call(
            lambda executor: executor.leader.attempt_elect(self._client_id, ttl=self._terms.ttl)
        )

    async def _renew(self, term: LeaderTerm) -> LeaderRow | None:
        return await self._connection.call(
            lambda executor: executor.leader.attempt_reelect(
                term.leader_id, elected_at=term.elected_at, ttl=self._terms.ttl
            )
        )

    async def _resign(self, term: LeaderTerm) -> None:
        """Resign and notify the others; on failure the term expires by itself."""
        for attempt in range(1, _RESIGN_ATTEMPTS + 1):
            try:
                await within(float(attempt), self._give_up(term))
                return
            except Exception as error:
                last = attempt == _RESIGN_ATTEMPTS
                pause = 0.0 if last else backoff(attempt)
                self._warn("resign", error, attempt, pause)
                await self._sleep(pause)

    async def _give_up(self, term: LeaderTerm) -> None:
        await self._connection.call(
            lambda executor: executor.leader.resign(term.leader_id, elected_at=term.elected_at)
        )

    def _trusted_until(self, started: float) -> float:
        """Return until when a term can be trusted, counted from before the query, so that a slow
        response does not extend the term.
        """
        return started + (self._terms.ttl - self._terms.margin).total_seconds()

    def _warn(self, what: str, error: Exception, attempt: int, pause: float) -> None:
        self._logger.warning(
            "could not %s: %s",
            what,
            str(error) or type(error).__name__,
            extra={
                "client_id": self._client_id,
                "attempt": attempt,
                "sleep_seconds": round(pause, 3),
            },
        )
