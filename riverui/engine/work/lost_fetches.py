"""Makes jobs available again that were fetched for this client by a query whose result was lost.

A fetch that was given up may still be executed: the connection broke before its result arrived, or
the server was frozen and finds the statement in its socket minutes later. The jobs are `running`
then, under a client that is alive and does not have them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.client_context import ClientContext
from riverui.engine.dedicated_connection import is_outcome_unknown
from riverui.engine.lead.elector import steady_clock
from riverui.engine.pilot import JobEnd
from riverui.engine.service import WakeUp
from riverui.engine.waiting import pass_on_cancellation, within
from riverui.engine.work.outcome import not_begun
from riverui.errors import DatabaseUnavailable, RiveruiError
from riverui.storage.interface.engine_params import JobSelectParams

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

_CHUNK = 1_000
"""Jobs in one transaction: they are read whole, and their args may be large."""
_FIRST_SECONDS = 1.0
"""Seconds from a failed fetch to the next check: a server that resumes executes what it finds in
its sockets within that time.
"""
_LAST_SECONDS = 5.0
"""Maximum seconds of the check at the client's stop: without it the jobs are rescued."""


class LostFetches:
    """Checks for such jobs from the first failed fetch until some minutes after the last one.

    A check queries which jobs run under this client. A returned job is lost unless the client had
    it at the time of the query, or began it before all fetches of that time had ended, or has yet
    to write its outcome; and unless it was fetched before the first failed fetch.
    """

    def __init__(
        self,
        client: ClientContext,
        queues: Mapping[str, Producer],
        unwritten: Callable[[], Iterable[int]],
    ) -> None:
        self._begun: set[int] | None = None
        """Jobs that have begun during a check."""
        self._client = client
        self._most = client.limits.look_for_lost_most_seconds
        self._pause = 0.0
        """Seconds until the next check."""
        self._queues = queues
        self._since: float | None = None
        """When the first failed fetch began (steady clock); None if no jobs can be lost."""
        self._until = 0.0
        """When to stop checking (steady clock)."""
        self._unwritten = unwritten
        """Returns the jobs whose outcome is not written yet."""
        self._wake_up = WakeUp()

    @property
    def looking(self) -> bool:
        """Whether jobs may be lost."""
        return self._since is not None

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Check later for jobs that the fetch in the block may have fetched although it failed."""
        began = steady_clock()
        try:
            yield
        except BaseException as error:
            if is_outcome_unknown(error):
                if self._since is None:
                    self._since = began
                self._begin()
                self._wake_up.set()
            raise

    def begun(self, rows: Sequence[JobRow]) -> None:
        """Record that fetched jobs begin."""
        if self._begun is not None:
            self._begun.update(row.id for row in rows)

    async def run(self) -> None:
        """Check while jobs may be lost, until cancelled: soon at first, then less and less
        often.
        """
        while True:
            pass_on_cancellation()
            if self._since is not None and steady_clock() >= self._until:
                self._since = None
            if await self._wake_up.wait(None if self._since is None else self._pause):
                await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, self._most)
            try:
                await self._look()
            except DatabaseUnavailable:
                # It may execute old statements when it responds again.
                self._begin()
            except RiveruiError as error:
                self._client.logger.warning("lost jobs cannot be searched for: %s", error)

    async def finish(self) -> bool:
        """Check once more at the end if jobs may be lost; return whether any may be left."""
        if not self.looking:
            return False
        try:
            await within(_LAST_SECONDS, self._look())
        except (RiveruiError, TimeoutError):
            return True
        return False

    def _begin(self) -> None:
        """Check as often and for as long as after the first failure."""
        self._pause = min(_FIRST_SECONDS, self._most)
        self._until = steady_clock() + self._client.limits.look_for_lost_seconds

    async def _look(self) -> None:
        """Make the currently lost jobs available."""
        if lost := await self._find():
            given_back: Counter[str] = Counter()
            for at in range(0, len(lost), _CHUNK):
                given_back += await self._give_back(dict([*lost.items()][at : at + _CHUNK]))
            for name, count in given_back.items():
                self._client.logger.warning(
                    "%d jobs of queue %s were fetched by a request whose answer never arrived; they"
                    " are available again",
                    count,
                    name,
                )
                if (queue := self._queues.get(name)) is not None:
                    queue.given_back()

    async def _find(self) -> Mapping[int, datetime]:
        """Return the currently lost jobs, and when each was fetched."""
        assert self._since is not None
        self._begun = begun = set[int]()
        # A new connection each time: others may be dead without a sign of it.
        connection = self._client.connection()
        try:
            held = set(self._unwritten())
            for queue in self._queues.values():
                held.update(queue.slots.attempts)
            running = await connection.call(
                lambda executor: executor.work.running_list(self._client.id)
            )
            most = steady_clock() - self._since
            for queue in tuple(self._queues.values()):
                await queue.slots.landed()
        finally:
            self._begun = None
            await connection.close()
        return {
            job.id: job.attempted_at
            for job in running
            if job.seconds <= most and job.id not in held and job.id not in begun
        }

    async def _give_back(self, lost: Mapping[int, datetime]) -> Counter[str]:
        """Make jobs available that are still at that attempt; return how many by queue."""
        params = JobSelectParams(ids=tuple(lost), states=(JobState.RUNNING,), limit=len(lost))
        async with self._client.driver.transaction() as transaction:
            rows = await transaction.jobs.row_list(params)
            ends = [JobEnd(row, not_begun(row)) for row in rows if row.attempted_at == lost[row.id]]
            written = await self._client.pilot.set_state_if_running_many(transaction, ends)
        return Counter(
            row.queue for row in written if row.id in lost and row.state is JobState.AVAILABLE
        )
