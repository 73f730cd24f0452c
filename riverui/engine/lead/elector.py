"""Which client of the schema does the maintenance: terms of a leader, in a row that Go clients
share.
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
"""Tries to resign, before the term is left to run out: River's figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ElectionTimes:
    """How long the terms of leaders last, and what is done when about them; River's figures."""

    interval: timedelta = timedelta(seconds=5)
    """Between two renewals, and between two bids."""
    jitter: timedelta = timedelta(seconds=1)
    """Up to so much more between two bids, so that clients do not bid in step."""
    padding: timedelta = timedelta(seconds=10)
    """How much longer than the interval a term lasts in the database."""
    margin: timedelta = timedelta(seconds=1)
    """How much earlier than the database the leader itself gives its term up."""
    limit: timedelta = timedelta(seconds=5)
    """For a statement."""
    silence: timedelta = timedelta(seconds=30)
    """How long a leader whose event loop stands still keeps its term. There is no maintenance
    meanwhile: two terms' time is as long as jobs wait where a leader's machine breaks down, and all
    others should wait no longer.
    """

    @property
    def ttl(self) -> timedelta:
        """How long a term lasts in the database, unless it is renewed."""
        return self.interval + self.padding


def steady_clock() -> float:
    """Return seconds that go on while the process or the machine is stopped, whatever is done to
    the wall clock.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(kw_only=True, slots=True)
class LeaderTerm:
    """One stretch of leadership: the leader's id and when it was elected tell it from every
    other.
    """

    leader_id: str
    elected_at: datetime
    trusted_until: float
    """On the steady clock: after that, somebody else may lead."""
    now: Callable[[], float] = steady_clock

    @property
    def remaining(self) -> float:
        """Seconds for which nobody else can lead, 0 at least."""
        return max(0.0, self.trusted_until - self.now())

    @property
    def trusted(self) -> bool:
        """Whether nobody else can lead yet."""
        return self.now() < self.trusted_until

    def end(self) -> None:
        """End the term: somebody else may lead from now on."""
        self.trusted_until = -math.inf


Lead = Callable[[LeaderTerm], Awaitable[None]]
"""What the leader does for as long as it leads; it is cancelled at the end of the term."""


class Elector:
    """Stands for election, holds the term while it leads, and runs what a leader does.

    With `home`, it runs in a thread beside the client's event loop: terms are renewed whatever that
    loop is busy with, for as long as `terms.silence` allows.
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
        """The last term, where it was neither resigned nor taken by somebody else as far as is
        known.
        """
        self._wake = asyncio.Event()
        self._resign_requested = False
        self._term: LeaderTerm | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this client leads, as far as it knows."""
        return self._term is not None

    def request_resign(self) -> None:
        """Make this client, if it leads, give up its term and stand for election again."""
        if self._term is not None:
            self._resign_requested = True
            self._wake.set()

    def notified(self, message: dict[str, Any]) -> None:
        """Take in a notification of `river_leadership`: another leader resigned, or somebody asks
        for it.
        """
        if message.get("action") == "request_resign":
            self.request_resign()
        elif message.get("action") == "resigned" and message.get("leader_id") != self._client_id:
            self._wake.set()

    async def run(self) -> None:
        """Take part in elections until cancelled; then resign, if this client leads."""
        rest = 0.0
        try:
            while True:
                if rest:
                    await self._sleep(rest)
                term = await self._follow()
                rest = await self._hold_office(term)
        finally:
            with suppress(TimeoutError):
                await within(self._limit, self._connection.close())

    async def _follow(self) -> LeaderTerm:
        """Bid until it is elected."""
        errors = 0
        while True:
            if self._home is not None:
                # Whoever does not come to do a leader's work does not stand for it.
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
                # Somebody has resigned, and all the others have been told of it in the same
                # instant.
                await self._sleep(between(0, 0.05))

    async def _hold_office(self, term: LeaderTerm) -> float:
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
        """Renew the term until it is lost or to be given up; return whether there is something left
        to resign.
        """
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
                # It is taken up again should nobody else have led by the time that there is a
                # database.
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
                lambda executor: executor.leader_resume(
                    lapsed.leader_id, elected_at=lapsed.elected_at, ttl=self._terms.ttl
                )
            )
            if resumed is not None:
                return resumed
            self._lapsed = None
        return await self._connection.call(
            lambda executor: executor.leader_attempt_elect(self._client_id, ttl=self._terms.ttl)
        )

    async def _renew(self, term: LeaderTerm) -> LeaderRow | None:
        return await self._connection.call(
            lambda executor: executor.leader_attempt_reelect(
                term.leader_id, elected_at=term.elected_at, ttl=self._terms.ttl
            )
        )

    async def _resign(self, term: LeaderTerm) -> None:
        """Give the term up and tell the others; without success it runs out by itself."""
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
            lambda executor: executor.leader_resign(term.leader_id, elected_at=term.elected_at)
        )

    def _trusted_until(self, started: float) -> float:
        """Return until when a term can be trusted, counted from before the database was asked, so
        that a slow answer does not prolong the term.
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
