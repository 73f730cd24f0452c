"""Fetches jobs that features choose among the waiting ones, for limits, rates and fair shares.

A feature returns a `Chooser` for each queue whose fetches it takes part in (`Feature.chooser`).
While none of a queue's choosers is active, jobs are fetched by one plain statement. Otherwise

1. candidates are read in fetch order, with their key in the partition of each active chooser,
   without the keys that are full for a chooser;
2. the choosers choose among them one after the other, in the order of the client's features, each
   among those that the previous ones passed; each reserves what its choice takes: a slot, a token;
3. if there is room for more than were chosen, more are read, without the keys that have become
   full;
4. the chosen ones are claimed by one statement: other clients may have taken some by then;
5. then each chooser is called with the chosen jobs that begin (`begun`) and those that do not
   (`give_back`), and later with each job that ends (`ended`).

Choosers see one fetch of a queue at a time, and run in the client's event loop.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from riverui.domain.partitions import WHOLE, Partition
from riverui.storage.stores.candidates import Candidate, CandidateStore, KeyPage, KeyRange

if TYPE_CHECKING:
    import logging

    from riverui.domain.jobs import JobRow
    from riverui.domain.queues import QueueRow
    from riverui.features.heartbeats.store import ClientLife
    from riverui.storage.interface import Executor
    from riverui.storage.interface.engine_params import JobFetchParams

_EXTRA = 50
"""Candidates beyond twice the room: other clients may take some, and choosers reject some."""
_KEYS = 1_000
"""Keys that one read by index covers: a few milliseconds."""
_CHECK_INDEXES_SECONDS = 60.0
"""Seconds between two checks whether a partition's index was created or dropped."""
_LOST_SECONDS = 1.0
"""Seconds for which jobs are left out that another client was taking: it has finished by then."""
_MAX_LOST = 10_000
"""Most such jobs that are left out at a time: with more, the next fetch waits for the cooldown."""
_PER_KEY = 20
"""Most jobs of one key per read by index: there may be a thousand keys."""
_ROUNDS = 4
"""Reads of candidates in one fetch: after these, the chosen jobs are worked first."""
_THOROUGH_SECONDS = 1.0
"""Seconds for which candidates are read first after a failed statement that chooses and claims."""
WINDOW = 10_000
"""Waiting jobs among which candidates are searched without an index: some 20 ms."""

_UNKNOWN = Candidate(0, "", {WHOLE: ""})
"""Stands for any job, if no chooser needs to know which one."""


class SignsOfLife(Protocol):
    """The client's entry in the table of clients: `Heartbeats`, which features cannot import."""

    @property
    def life(self) -> ClientLife | None:
        """The client's entry; None if it has none, or is declared dead."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether it is certain that the client was not declared dead."""
        ...

    def leave_behind(self) -> None:
        """Have the client declared dead after its end instead of removed, so that others take over
        what it leaves.
        """
        ...


class FetchedAtOnce(NamedTuple):
    """Jobs that a chooser has fetched by a statement of its own."""

    candidates: Sequence[Candidate]
    """Candidates for which it has reserved something, in the order of the jobs."""
    rows: Sequence[JobRow]
    """The jobs, which are running now."""
    seen: int
    """Jobs that were considered, without those of full keys."""


class Chooser:
    """Chooses among the waiting jobs of one queue. Override what you need."""

    active = False
    """Whether it takes part in the next fetch; read before each."""
    at_once = False
    """Whether it can choose and claim in one statement (`fetch`), if it is the only active
    chooser.
    """
    partition: Partition = WHOLE
    """The partition in which it needs the keys of candidates."""
    looks_at: Sequence[Partition] = ()
    """Other partitions whose keys it needs."""
    blind = False
    """Whether it treats all jobs of the queue alike: then `choose` may get stand-ins for jobs,
    without id and kind.
    """
    spread = False
    """Whether candidates should be the first few of many keys, instead of the first of all: those
    of `key_range`, if the partition has its index.
    """

    @property
    def full(self) -> Collection[str]:
        """Keys of its partition of which no job can be chosen now. After `choose`, the keys of jobs
        that it rejected must be among them.
        """
        return ()

    @property
    def sure(self) -> bool:
        """Whether its reservations certainly still hold, just before jobs begin: if not, the jobs
        are made available again.
        """
        return True

    def can_decide(self, room: int) -> bool:
        """Return whether a `blind` chooser can decide how many of so many jobs may run. If not,
        candidates are read first, so that it reserves no more than there are jobs.
        """
        return True

    def news(self) -> None:
        """Handle a notification that there may be something to fetch."""

    async def start(self, row: QueueRow) -> None:
        """Start, before the client works the queue. An exception prevents that."""

    def learn(self, row: QueueRow) -> None:
        """Apply the queue's row: at intervals, and after a notification of a change."""

    async def stop(self) -> None:
        """Stop, as the client has left the queue. All jobs have `ended` by then, except abandoned
        ones.
        """

    def key_range(self, room: int, *, again: bool) -> KeyRange | None:
        """Return the keys to read next if it is `spread`, `again` in this fetch or for the first
        time; None to read no more.
        """
        return None

    def looked(self, page: KeyPage | None) -> None:
        """Handle the page that was read for `key_range`; None if the partition has no index, and
        the first jobs of all keys were read.
        """

    def fetch_begins(self) -> None:
        """Handle the start of a fetch in which it takes part: all of its reads use the current
        partition.
        """

    async def fetch(self, executor: Executor, params: JobFetchParams) -> FetchedAtOnce | None:
        """Fetch jobs, and reserve what they take; None if it has to `choose`. Jobs fetched this way
        are kept, even if the fetch fails later.
        """
        return None

    async def choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        """Return up to `room` of the candidates, in the order in which to work them, and reserve
        what they take.
        """
        return candidates[:room]

    def give_back(self, candidates: Sequence[Candidate]) -> None:
        """Free the reservations of these, which were chosen and do not begin."""

    def lost(self, candidates: Sequence[Candidate]) -> None:
        """Handle that these do not begin though all choosers passed them: another client has taken
        them, or they could not be fetched. `give_back` follows.
        """

    def begun(self, candidate: Candidate, row: JobRow) -> None:
        """Handle that a chosen job begins; a stand-in becomes this job."""

    def ended(self, row: JobRow) -> None:
        """Handle the end of an attempt at any job of the queue: its worker has returned. The row is
        the one that `begun` got, if that was called.
        """


class CandidateFetch:
    """Fetches one queue's jobs through its choosers."""

    def __init__(self, queue: str, choosers: Sequence[Chooser], *, logger: logging.Logger) -> None:
        self._after: dict[Partition, str] = {}
        """Where the next read by index continues, so that no key is always first."""
        self._chosen: dict[Chooser, list[Candidate]] = {}
        """Candidates for which each chooser has reserved something in the current fetch."""
        self._claimed: dict[int, Candidate] = {}
        self._choosers = tuple(choosers)
        self._indexes: Collection[str] = ()
        self._logger = logger
        self._lost: dict[int, float] = {}
        """Jobs that another client was taking → until when they are left out (monotonic)."""
        self._loses = False
        """Whether another client was taking jobs that the last fetch chose."""
        self._check_indexes_at = 0.0
        """When to check the indexes again (monotonic)."""
        self._queue = queue
        self.tried: Sequence[int] = ()
        """The jobs that the last fetch tried to claim."""
        self._thorough = False
        """Whether the next fetch reads candidates first."""
        self._thorough_until = 0.0
        """Until when all fetches do (monotonic)."""
        self._window_logged = False

    @property
    def active(self) -> bool:
        """Whether a chooser takes part in the next fetch."""
        return any(chooser.active for chooser in self._choosers)

    @property
    def sure(self) -> bool:
        """Whether fetched jobs may begin."""
        return all(chooser.sure for chooser in self._choosers if chooser.active)

    def goes_on(self) -> bool:
        """Return whether to fetch again, for other jobs than those that another client was taking;
        called once after each fetch.
        """
        loses, self._loses = self._loses, False
        return loses

    async def fetch(
        self, executor: Executor, params: JobFetchParams, *, at_once: bool = False
    ) -> Sequence[JobRow]:
        """Fetch jobs and return them; `settle` must be called after it, or after the transaction
        around it. Without a transaction one statement may do everything (`at_once`).
        """
        choosers = [chooser for chooser in self._choosers if chooser.active]
        if not choosers:
            return await executor.work.get_available(params)
        self._chosen = {chooser: [] for chooser in choosers}
        self._loses = False
        for chooser in choosers:
            chooser.fetch_begins()
        if all(chooser.blind and chooser.can_decide(params.limit) for chooser in choosers):
            self.tried = ()
            chosen = await self._choose([_UNKNOWN] * params.limit, params.limit)
            if not chosen:
                return ()
            return await executor.work.get_available(params._replace(limit=len(chosen)))
        candidates = CandidateStore(executor)
        if self._lost:
            now = time.monotonic()
            self._lost = {job_id: until for job_id, until in self._lost.items() if until > now}
            params = params._replace(except_ids=(*params.except_ids, *self._lost))
        if at_once and len(choosers) == 1 and choosers[0].at_once:
            rows = await self._fetch_at_once(choosers[0], executor, params)
            if rows is not None:
                return rows
        chosen = await self._collect(candidates, params)
        if not chosen:
            return ()
        self._claimed = {candidate.id: candidate for candidate in chosen}
        self.tried = tuple(self._claimed)
        rows = await candidates.job_claim(params, self.tried)
        if len(rows) < len(self.tried) and len(self._lost) < _MAX_LOST:
            lost = self._claimed.keys() - {row.id for row in rows}
            self._lost |= dict.fromkeys(lost, time.monotonic() + _LOST_SECONDS)
            self._loses = True
        place = {job_id: number for number, job_id in enumerate(self.tried)}
        return sorted(rows, key=lambda row: place[row.id])

    def settle(self, rows: Sequence[JobRow]) -> None:
        """Report the jobs of the last fetch to the choosers; none if it failed."""
        chosen, claimed = self._chosen, self._claimed
        if not chosen:
            return
        self._chosen, self._claimed = {}, {}
        begun = {row.id: row for row in rows}
        lost = [candidate for job_id, candidate in claimed.items() if job_id not in begun]
        for chooser, candidates in chosen.items():
            if claimed or not candidates or candidates[0] is not _UNKNOWN:
                left = []
                for candidate in candidates:
                    row = begun.get(candidate.id) if candidate.id in claimed else None
                    if row is not None:
                        chooser.begun(candidate, row)
                    else:
                        left.append(candidate)
            else:
                for row in rows[: len(candidates)]:
                    chooser.begun(_UNKNOWN, row)
                left = candidates[len(rows) :]
            if lost:
                chooser.lost(lost)
            if left:
                chooser.give_back(left)

    async def _fetch_at_once(
        self, chooser: Chooser, executor: Executor, params: JobFetchParams
    ) -> Sequence[JobRow] | None:
        """Return jobs that a chooser has fetched in one statement; None if candidates must be read
        first, because that statement failed or brought too few the last time.
        """
        self.tried = ()
        thorough, self._thorough = self._thorough, False
        if thorough or time.monotonic() < self._thorough_until:
            return None
        indexed = await self._has_index(CandidateStore(executor), chooser.partition)
        try:
            found = await chooser.fetch(executor, params)
        except BaseException:
            self._thorough_until = time.monotonic() + _THOROUGH_SECONDS
            raise
        if found is None:
            return None
        self._chosen[chooser] = list(found.candidates)
        self._claimed = {candidate.id: candidate for candidate in found.candidates}
        # There may be other jobs, or slots for them: the next fetch looks for them.
        self._thorough = self._loses = len(found.rows) < params.limit and (
            found.seen > len(found.rows) or (indexed and bool(chooser.full))
        )
        return found.rows

    async def _choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        """Return the candidates that all choosers pass."""
        for chooser, chosen in self._chosen.items():
            if not candidates:
                break
            candidates = await chooser.choose(candidates, room)
            chosen += candidates
        return candidates

    async def _collect(
        self, executor: CandidateStore, params: JobFetchParams
    ) -> Sequence[Candidate]:
        """Return jobs up to the room that all choosers pass."""
        choosers, room = list(self._chosen), params.limit
        if any(chooser.partition.whole and chooser.full for chooser in choosers):
            return []
        partitions = list(dict.fromkeys(by for c in choosers for by in (c.partition, *c.looks_at)))
        if dealer := next((chooser for chooser in choosers if chooser.spread), None):
            return await self._deal(dealer, executor, params, partitions)
        per_key = min(max(2, room // _ROUNDS), _PER_KEY)
        # Set to read by the index of a partition, once jobs of full keys fill the window.
        by: Partition | None = None
        chosen: list[Candidate] = []
        for _ in range(_ROUNDS):
            full = _full(choosers)
            if WHOLE in full:
                break
            left = room - len(chosen)
            most = 2 * left + _EXTRA
            asked = params._replace(
                limit=most,
                except_ids=(*params.except_ids, *(candidate.id for candidate in chosen)),
            )
            if by is not None:
                # From where the last read ended, so that no key is always first.
                keys = KeyRange(
                    partition=by, per_key=per_key, keys=_KEYS, after=self._after.get(by, "")
                )
                page = await executor.job_candidate_list_by_key(
                    asked, partitions, keys=keys, full=full
                )
                self._after[by] = page.last_key or ""
                candidates = page.candidates
            else:
                candidates = await executor.job_candidate_list(
                    asked, partitions, window=WINDOW, full=full
                )
            more = await self._choose(candidates, left)
            chosen += more
            if len(chosen) >= room:
                break
            if len(candidates) < most:
                if by is not None or not full:
                    break
                # Jobs of full keys may fill the window, with others after them.
                fullest = max(full, key=lambda partition: len(full[partition]))
                if not await self._has_index(executor, fullest):
                    self._log_window(fullest)
                    break
                by = fullest
            elif not more and _full(choosers) == full:
                break
        return chosen

    async def _deal(
        self,
        dealer: Chooser,
        executor: CandidateStore,
        params: JobFetchParams,
        partitions: Sequence[Partition],
    ) -> Sequence[Candidate]:
        """Return the first jobs of many keys, up to the room, that all choosers pass."""
        room, chosen, again = params.limit, list[Candidate](), False
        while len(chosen) < room:
            if (keys := dealer.key_range(room - len(chosen), again=again)) is None:
                break
            again = True
            ids = (*params.except_ids, *(candidate.id for candidate in chosen))
            asked = params._replace(except_ids=ids)
            full = _full(self._chosen)
            if WHOLE in full:
                break
            page: KeyPage | None = None
            if await self._has_index(executor, keys.partition):
                page = await executor.job_candidate_list_by_key(
                    asked, partitions, keys=keys, full=full
                )
                candidates = page.candidates
            else:
                self._log_window(keys.partition)
                candidates = await executor.job_candidate_list(
                    asked._replace(limit=WINDOW), partitions, window=WINDOW, full=full, few=keys
                )
            dealer.looked(page)
            chosen += await self._choose(candidates, room - len(chosen))
        return chosen

    async def _has_index(self, executor: CandidateStore, partition: Partition) -> bool:
        now = time.monotonic()
        if now >= self._check_indexes_at:
            self._indexes = await executor.partition_index_list()
            self._check_indexes_at = now + _CHECK_INDEXES_SECONDS
        return partition.index_name in self._indexes

    def _log_window(self, partition: Partition) -> None:
        if not self._window_logged:
            self._window_logged = True
            self._logger.info(
                "queue %s: many jobs of one partition may precede others; without an index by"
                " %s, only the first %s waiting jobs are read (riverui partition-index)",
                self._queue,
                partition.words,
                f"{WINDOW:,}",
            )


def _full(choosers: Iterable[Chooser]) -> dict[Partition, Collection[str]]:
    """Return the keys that are full for any chooser, by partition."""
    full: dict[Partition, Collection[str]] = {}
    for chooser in choosers:
        if keys := chooser.full:
            full[chooser.partition] = {*full.get(chooser.partition, ()), *keys}
    return full
