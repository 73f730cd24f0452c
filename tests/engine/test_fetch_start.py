"""Where fetches begin while the index entries of removed rows stay: what they read, and what they
never pass over.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import WHOLE, PartitionConfig
from riverui.engine.config import QueueConfig
from riverui.engine.work.fetch_start import Begun, FetchStart, Places
from riverui.engine.work.worker import BatchWorker, Job
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.connect import connect
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobFetchParams, Place
from riverui.storage.stores.candidates import CandidateStore
from riverui.storage.stores.first_places import FirstPlaceStore
from tests.engine.conftest import Playground, Task
from tests.scale import scaled

SPANS = (0.1, 1.0, 10.0)
"""Seconds after its place was passed within which a job is fetched within as many."""
BEGIN = datetime.now(UTC) - timedelta(hours=3)
"""When histories begin."""
STEPS = 120
"""Operations of one history."""


@dataclass
class History:
    """Random operations on one queue, and what every fetch may leave."""

    connection: AsyncConnection[DictRow]
    executor: Executor
    others: AsyncConnection[DictRow]
    """The connection of transactions that stay open for a while."""
    dice: random.Random
    time: float = 1000.0
    """Seconds since it began."""
    looked_at: float = 0.0
    came_at: dict[int, float] = field(default_factory=dict)
    """When each job became available to other transactions the last time."""
    marks: list[tuple[float, Places]] = field(default_factory=list)
    """What had been passed, and since when."""
    open: bool = False
    """Whether the other transaction is."""

    def __post_init__(self) -> None:
        self.start = FetchStart(lambda: self.time)
        self.held: list[int] = []
        self.set_back = 0.0

    @property
    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.time - self.set_back)

    def params(self, client: str = "me", limit: int = 1) -> JobFetchParams:
        return JobFetchParams(client, "default", limit, now=self.now)

    async def step(self) -> None:
        """Do one of the operations, some time later; seldom, set the database's clock back."""
        if self.dice.random() < 0.01:
            self.set_back += 60
        self.time += self.dice.choice((0.001, 0.01, 0.05, 0.2, 1, 4))
        operations = (
            self.insert,
            self.insert,
            self.insert_or_lock_for_long,
            self.finish_or_retry,
            self.fetch,
            self.fetch,
            self.fetch,
            self.fetch_two_at_once,
            self.choose,
            self.choose,
            self.fetch_by_another,
            self.fail,
            self.look,
        )
        await self.dice.choice(operations)()
        if self.start.passed is not None:
            # Where the first look begins, all may have been passed long ago.
            self.marks.append((self.time if self.marks else 0.0, self.start.passed))

    async def insert(self, connection: AsyncConnection[DictRow] | None = None) -> list[int]:
        """Insert jobs, some by a clock that is late or fast, some in another's transaction."""
        ids = []
        for _ in range(self.dice.randrange(1, 6)):
            off = self.dice.choice((0, 0, 0, 0.01, 0.3, 5, 60, 4000, -2))
            cursor = await (connection or self.connection).execute(
                "insert into river_job (kind, args, max_attempts, priority, scheduled_at)"
                " values ('task', '{}', 25, %s, %s) returning id",
                [self.dice.choice((1, 1, 1, 2, 3, 4)), self.now - timedelta(seconds=off)],
            )
            row = await cursor.fetchone()
            assert row is not None
            ids.append(row["id"])
        if connection is None:
            self.came_at |= dict.fromkeys(ids, self.time)
        return ids

    async def insert_or_lock_for_long(self) -> None:
        """Begin a transaction that inserts jobs, or holds some that wait; or end it."""
        if not self.open:
            if self.dice.random() < 0.5:
                self.held = await self.insert(self.others)
            else:
                rows = await self.waiting(self.others, self.dice.randrange(1, 4))
                self.held = [row["id"] for row in rows]
            self.open = True
        elif self.dice.random() < 0.5:
            await self.others.commit()
            self.open = False
            self.came_at |= dict.fromkeys(self.held, self.time)

    async def finish_or_retry(self) -> None:
        """End a running job, or make it available again, at its old time or a new one."""
        await self.connection.execute(
            "update river_job set state = 'completed', finalized_at = now() where id = any(array("
            " select id from river_job where state = 'running' order by id desc limit 3))"
        )
        changed = "scheduled_at" if self.dice.random() < 0.7 else "%(now)s"
        cursor = await self.connection.execute(
            f"update river_job set state = 'available', finalized_at = null,"
            f" scheduled_at = {changed} where id = any(array(select id from river_job"
            " where state = 'completed' order by random() limit 2)) returning id",
            {"now": self.now},
        )
        self.came_at |= {row["id"]: self.time for row in await cursor.fetchall()}

    async def fetch_by_another(self) -> None:
        """Fetch as Go does."""
        params = self.params("go", self.dice.randrange(1, 5))
        await self.executor.work.get_available(params)

    async def fail(self) -> None:
        """Begin a fetch that fails."""
        begun = self.start.begin()
        self.start.failed(begun)

    async def look(self) -> None:
        """Look for the first jobs if that is due; pretend that there is much in front of them."""
        if self.start.look_due or not self.start.later:
            found = await FirstPlaceStore(self.executor).job_first_place_list(self.params())
            entries = self.dice.choice((5_000, 100_000))
            self.start.looked(found._replace(entries=entries), self.time)
            self.looked_at = self.time

    async def fetch(self) -> int:
        """Fetch jobs, and compare them with those that are there."""
        limit, begun = self.dice.choice((1, 3, 100)), self.start.begin()
        waiting = await self.waiting(self.connection)
        rows = await self.take(begun, limit)
        self.start.end(begun, rows, limit)
        self.check(waiting, [row._asdict() for row in rows], limit, begun and begun.start)
        return len(rows)

    async def fetch_two_at_once(self) -> None:
        """Begin a fetch while another is under way, which ends last."""
        first, second = self.start.begin(), self.start.begin()
        rows = await self.take(first, 2)
        others = await self.take(second, 2)
        self.start.end(second, others, 2)
        self.start.end(first, rows, 2)

    async def choose(self) -> None:
        """Fetch some of the first jobs and leave the others, as features with limits do."""
        begun = self.start.begin()
        if begun is not None and (begun.start != begun.passed or self.dice.random() < 0.3):
            params = self.params()._replace(after=begun.start)
            self.start.step(
                begun, await FirstPlaceStore(self.executor).job_first_place_list(params)
            )
        waiting = await self.waiting(self.connection)
        limit, store = self.dice.choice((1, 3, 100)), CandidateStore(self.executor)
        params = self.params(limit=limit)._replace(after=self.start.passed)
        found = {each.id for each in await store.job_candidate_list(params, [WHOLE], window=50)}
        seen = [row for row in waiting if row["id"] in found]
        # Of those that are held by others nothing is expected.
        full = len(found) == min(limit, 50)
        self.check(waiting, seen, len(seen) if full else limit, self.start.passed)
        chosen = [row["id"] for row in seen if self.dice.random() < 0.5]
        self.start.count(await store.job_claim(params, chosen))

    async def take(self, begun: Begun | None, limit: int) -> Sequence[JobRow]:
        params = self.params(limit=limit)._replace(after=begun and begun.start)
        return await self.executor.work.get_available(params)

    async def waiting(
        self, connection: AsyncConnection[DictRow], limit: int | None = None
    ) -> list[DictRow]:
        """Return the due jobs that nobody holds, in River's order; hold them."""
        cursor = await connection.execute(
            "select id, priority, scheduled_at from river_job where state = 'available'"
            " and scheduled_at <= %s order by priority, scheduled_at, id limit %s"
            " for update skip locked",
            [self.now, limit],
        )
        return await cursor.fetchall()

    def check(
        self, waiting: list[DictRow], rows: Sequence[DictRow], limit: int, start: Places | None
    ) -> None:
        """All of the first jobs were found but for those that came late, and not long ago."""
        fetched = {row["id"] for row in rows}
        assert fetched <= {row["id"] for row in waiting}
        for row in waiting:
            if row["id"] in fetched:
                continue
            if len(fetched) == limit and all(
                (row["priority"], row["scheduled_at"], row["id"])
                > (other["priority"], other["scheduled_at"], other["id"])
                for other in rows
            ):
                break
            assert start is not None, "a fetch from the beginning leaves nothing"
            due = (row["scheduled_at"] - BEGIN).total_seconds() + self.set_back
            came = max(self.came_at[row["id"]], due)
            passed = self.passed_at(row)
            assert passed is not None, "what was not passed is fetched"
            assert passed <= came, "what was available was not passed"
            assert self.looked_at < came, "a look finds whatever is there"
            for span in SPANS:
                if came - passed <= span:
                    assert self.time - came < span, (span, came - passed)

    def passed_at(self, row: DictRow) -> float | None:
        """Return when the place of a job was passed first."""
        place = Place(row["scheduled_at"], row["id"])
        number = row["priority"] - 1
        return next((at for at, passed in self.marks if passed[number] >= place), None)


@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(scaled(3, 150)))
async def test_no_job_is_passed_over(play: Playground, seed: int) -> None:
    async with AsyncExitStack() as stack:
        driver = connect(play.database_url)
        stack.push_async_callback(driver.close)
        others = await AsyncConnection.connect(play.database_url, row_factory=dict_row)
        await stack.enter_async_context(others)
        executor = await stack.enter_async_context(driver.autocommit())
        history = History(play.connection, executor, others, random.Random(seed))
        for _ in range(STEPS):
            await history.step()
        await others.commit()
        # However late they came, a look and a fetch find them all.
        history.time += 100
        await history.look()
        while await history.fetch():
            pass
        assert not await history.waiting(play.connection)
        assert history.start.later


async def entries_read(play: Playground) -> int:
    """Return how many entries of the fetching index have been read by processes that ended."""
    (row,) = await play.rows(
        "select idx_tup_read as read from pg_stat_user_indexes"
        " where indexrelname = 'river_job_prioritized_fetching_index'"
    )
    return int(row["read"])


class InBatches(BatchWorker[Task]):
    """Works a few jobs at once."""

    max_count = 10

    async def work_many(self, jobs: Sequence[Job[Task]]) -> None:
        """Do nothing."""


BY_VALUE = PartitionConfig(by_args=["value"])
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batches": {},
    "limit": {"concurrency": ConcurrencyConfig(global_limit=3)},
    "limit_by_value": {"concurrency": ConcurrencyConfig(global_limit=3, partition=BY_VALUE)},
    "limit_here": {"concurrency": ConcurrencyConfig(local_limit=3, partition=BY_VALUE)},
    "rate": {"rate_limit": RateLimit(limit=10_000, partition=BY_VALUE)},
    "share": {"fair_share": FairShare(partition=BY_VALUE)},
}
"""Settings of a queue by name."""


@pytest.mark.parametrize("way", WAYS)
async def test_removed_rows_are_not_read_by_every_fetch(
    play: Playground, own_tables: None, way: str
) -> None:
    removed, jobs = 3_000, 200
    if way == "batches":
        play.worker(InBatches())
    async with await AsyncConnection.connect(play.database_url) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select from river_job")
        await play.rows(
            "with taken as (insert into river_job (kind, args, max_attempts, scheduled_at)"
            " select 'task', '{}', 1, now() - interval '1 minute' from generate_series(1, %s)"
            " returning id) select from taken",
            removed,
        )
        await play.rows(
            "update river_job set state = 'completed', finalized_at = now() returning id"
        )
        ids = [await play.insert() for _ in range(jobs // 2)]
        before = await entries_read(play)
        seen: Counter[str] = Counter()
        client = await play.start(
            database=connect(play.database_url, watch=lambda name, *_: seen.update([name])),
            queues={"default": QueueConfig(max_workers=4, **WAYS[way])},
        )
        for _ in range(jobs // 2):
            ids.append(await play.insert())
        for job_id in ids:
            await play.event(job_id)
        # A process reports at its end, if not before.
        await client.stop()

        async def reported() -> bool:
            return await entries_read(play) - before >= removed + jobs

        await play.until(reported)
    # A look reads them all: there is one at the beginning, and seldom another. Features read some
    # jobs more than once.
    fetches = seen["job_candidate_list"] + seen["job_fetch_limited"]
    assert await entries_read(play) - before <= 2 * (removed + jobs) + 10 * jobs + 100 * fetches
