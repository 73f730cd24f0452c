"""The same random history on Postgres and on SQLite: every answer is the same, and every row."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.domain.jobs import FINALIZED, WAITING, JobRow, JobState, state_bits
from riverui.errors import NotFound, UniqueConflict
from riverui.storage.interface import Driver, Transaction
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobFetchParams,
    JobInsertParams,
    JobRescueParams,
    JobsAlike,
    JobSelectParams,
    JobSetStateParams,
)
from riverui.storage.interface.params import (
    Field,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.testing import MemoryDatabase
from tests.drivers import connect

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
"""Before the clocks of both databases, so that their own times differ from given ones."""
KEYS = [None, b"1" * 32, b"2" * 32]
KINDS = ["mail", "post"]
MINUTE = timedelta(minutes=1)
QUEUES = ["a", "b"]
STATES = list(JobState)
STEPS = 120
"""Operations of one history. Those that may give a unique key from one job to another do it to one
job at a time: in which order a statement changes its rows is Postgres's own affair.
"""

Ask = Callable[[Transaction, Sequence[int]], Awaitable[Any]]
"""An operation, given the ids of this database's jobs in the order of their insertion."""


class History:
    """Makes up operations, and does each to both databases."""

    def __init__(self, postgres: Driver, sqlite: Driver, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = BEGIN
        self.sides: list[tuple[Driver, list[int]]] = [(postgres, []), (sqlite, [])]
        self.done: list[str] = []
        self.states: dict[int, JobState] = {}
        """The jobs that there are, by place."""

    async def step(self) -> None:
        """Do the next operation to both."""
        self.now += self.dice.randrange(4) * MINUTE
        operation = self.dice.choice(OPERATIONS)
        self.done.append(operation.__name__)
        await self.same(operation(self))
        rows = await self.same(everything)
        self.states = {place: state for place, state, *_ in rows}

    async def same(self, ask: Ask) -> Any:
        """Ask both, and find that they answer the same; return it."""
        answers = [await self.answer(driver, ids, ask) for driver, ids in self.sides]
        assert answers[0] == answers[1], self.done
        return answers[0]

    async def answer(self, driver: Driver, ids: list[int], ask: Ask) -> Any:
        """Return the answer of one database, with places in place of ids."""
        try:
            async with driver.transaction() as transaction:
                found = await ask(transaction, ids)
                newest = await transaction.jobs.row_list(JobSelectParams(limit=10_000))
        except (NotFound, UniqueConflict) as error:
            return type(error)
        ids += [row.id for row in newest if row.id not in ids]
        return plain(found, ids)

    def some(self, *states: JobState, most: int = 3) -> list[int]:
        """Return a few places of jobs, mostly in these states, perhaps the same one twice, and
        perhaps of none.
        """
        fitting = [place for place, state in self.states.items() if state in states]
        if fitting and self.dice.random() < 0.8:
            return self.dice.choices(fitting, k=self.dice.randrange(1, most + 1))
        end = len(self.sides[0][1]) + 1
        return [self.dice.randrange(end) for _ in range(self.dice.randrange(1, most + 1))]

    def one_of(self, *given: Any) -> Any:
        """Return one of these."""
        return self.dice.choice(given)

    def time(self) -> datetime:
        """Return a time around now."""
        return self.now + self.dice.randrange(-10, 10) * MINUTE


def plain(found: Any, ids: Sequence[int]) -> Any:
    """Return an answer as both give it: places for ids, one word for their own clocks."""
    if isinstance(found, JobRow):
        metadata = json.loads(found.metadata)
        if "cancel_attempted_at" in metadata:
            metadata["cancel_attempted_at"] = "now"
        row = found._replace(id=ids.index(found.id), metadata="", args="")
        return plain([*row, json.loads(found.args), metadata], ids)
    if isinstance(found, datetime):
        return "now" if found.year > BEGIN.year else found
    if is_dataclass(found) and not isinstance(found, type):
        return plain(asdict(found), ids)
    if isinstance(found, dict):
        return {key: plain(value, ids) for key, value in found.items()}
    if isinstance(found, set | frozenset):
        return sorted(found)
    if isinstance(found, tuple | list):
        return [plain(each, ids) for each in found]
    return found


def ids_of(ids: Sequence[int], places: Sequence[int]) -> list[int]:
    """Return the ids at some places; an id of no job beyond the last."""
    return [ids[place] if place < len(ids) else 10**9 for place in places]


def places_of(ids: Sequence[int], found: Sequence[int]) -> list[int]:
    """Return the places of ids, put in order."""
    return sorted(ids.index(each) for each in found)


async def everything(transaction: Transaction, ids: Sequence[int]) -> Any:
    """Return all jobs."""
    return await transaction.jobs.row_list(JobSelectParams(limit=10_000))


def insert(history: History) -> Ask:
    jobs = []
    for _ in range(history.dice.randrange(1, 4)):
        key = history.one_of(*KEYS)
        states = history.dice.sample(STATES, history.dice.randrange(1, 8))
        jobs.append(
            JobInsertParams(
                kind=history.one_of(*KINDS),
                args=history.one_of("{}", '{"a": 1, "b": [1, 2]}', '{"b": {"c": "ü"}}'),
                created_at=history.now,
                scheduled_at=history.time(),
                state=history.one_of(JobState.AVAILABLE, JobState.SCHEDULED, JobState.PENDING),
                max_attempts=history.one_of(1, 2, 25),
                metadata=history.one_of("{}", '{"c": 2}'),
                priority=history.one_of(1, 2, 3),
                queue=history.one_of(*QUEUES),
                tags=history.one_of((), ("x",), ("x", "y")),
                unique_key=key,
                unique_states=state_bits(states) if key else 0,
            )
        )

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        results = await transaction.jobs.insert_many(jobs, notify=["a"])
        return [(each.job.kind, each.unique_skipped_as_duplicate) for each in results]

    return ask


def fetch(history: History) -> Ask:
    alike = history.one_of(
        None,
        None,
        JobsAlike("mail", 3),
        JobsAlike("mail", 5, '{"b": [1, 2], "a": 1}'),
        JobsAlike("post", 5, '{"a": 1.0}', ("a", "z")),
    )
    params = JobFetchParams(
        client_id=history.one_of("me", "you"),
        queue=history.one_of(*QUEUES),
        limit=history.one_of(1, 2, 10),
        now=history.now,
        kinds=None if alike else history.one_of(None, None, ("mail",)),
        max_attempted_by=2,
        alike=alike,
    )

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        first = await transaction.work.first_available(params) if alike is None else None
        rows = await transaction.work.get_available(params)
        return first and ids.index(first), sorted(plain(list(rows), ids))

    return ask


def end(history: History) -> Ask:
    changes = []
    for place in history.some(JobState.RUNNING, most=1):
        state = history.one_of(*STATES[:3], *STATES[4:])
        changes.append(
            JobSetStateParams(
                id=place,
                state=state,
                attempt=history.one_of(None, None, 0, 1),
                error=history.one_of(
                    None, '{"at": "2020-01-01T00:00:00Z", "error": "no", "attempt": 1}'
                ),
                finalized_at=history.now if state in FINALIZED else None,
                scheduled_at=history.one_of(None, history.time()),
                metadata=history.one_of(None, '{"m": {"n": 1}}'),
                of_attempt=history.one_of(None, 1, 2),
                attempted_at=history.one_of(None, None, history.now),
                ephemeral=state is JobState.COMPLETED and history.one_of(True, False),
            )
        )

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        return await transaction.work.set_state_many(
            [change._replace(id=ids_of(ids, [change.id])[0]) for change in changes]
        )

    return ask


def complete(history: History) -> Ask:
    places = list(dict.fromkeys(history.some(JobState.RUNNING)))
    times = [history.time() for _ in places]
    attempts = history.one_of(None, [1] * len(places), [history.one_of(1, 2) for _ in places])
    removes = attempts is not None and history.one_of(True, False)

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        given = ids_of(ids, places)
        if removes:
            gone = await transaction.work.delete_completed_many(given, of_attempts=attempts)
            return places_of(ids, gone)
        done = await transaction.work.complete_many(given, times, of_attempts=attempts)
        return places_of(ids, done)

    return ask


def act(history: History) -> Ask:
    verb = history.one_of("cancel", "retry", "retry", "delete", "move", "retry_pending")
    if verb.startswith("retry"):
        places = history.some(*FINALIZED, JobState.RETRYABLE, most=1)
    else:
        places = history.some(*WAITING, JobState.RUNNING)
    queue, priority = history.one_of(("a", None), (None, 2), ("b", 1))

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        given = ids_of(ids, places)
        if verb == "move":
            changes = await transaction.jobs.move_many(given, queue=queue, priority=priority)
        elif verb == "retry_pending":
            changes = await transaction.jobs.retry_many(given, pending=True)
        else:
            changes = await getattr(transaction.jobs, f"{verb}_many")(given)
        skipped = {given.index(each): reason for each, reason in changes.skipped}
        return places_of(ids, changes.changed), places_of(ids, changes.requested), skipped

    return ask


def note(history: History) -> Ask:
    (place, *_), metadata = history.some(), history.one_of('{"x": null}', '{"c": [1]}')

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        updated = await transaction.jobs.update(ids_of(ids, [place])[0], metadata=metadata)
        asked = await transaction.work.cancel_requested(list(ids))
        return updated, places_of(ids, asked), await transaction.jobs.outcome_list([])

    return ask


def schedule(history: History) -> Ask:
    limit, now = history.one_of(1, 3, 100), history.now

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        moved = await transaction.work.schedule(now=now, limit=limit)
        return [plain([ids.index(each.id), *each[1:]], ids) for each in moved]

    return ask


def rescue(history: History) -> Ask:
    before, places = history.now - 2 * MINUTE, history.some(JobState.RUNNING, most=1)
    state = history.one_of(JobState.RETRYABLE, JobState.DISCARDED, JobState.CANCELLED)
    ends = history.now if state in FINALIZED else None
    error = '{"at": "2020-01-01T00:00:00Z", "error": "stuck", "attempt": 1, "trace": "t"}'

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        stuck = await transaction.work.get_stuck(attempted_before=before, after_id=0, limit=3)
        first = await transaction.work.first_stuck(attempted_before=before, after_id=0)
        rescues = [
            JobRescueParams(id=each, state=state, error=error, finalized_at=ends)
            for each in ids_of(ids, places)
        ]
        changed = await transaction.work.rescue_many(rescues, attempted_before=before)
        return stuck, first and ids.index(first), places_of(ids, changed)

    return ask


def clean(history: History) -> Ask:
    params = JobDeleteBeforeParams(
        cancelled_before=history.now - 20 * MINUTE,
        completed_before=history.now - 30 * MINUTE,
        discarded_before=None,
        limit=100,
        queues_excluded=history.one_of((), ("a",)),
    )

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        return await transaction.work.delete_before(params)

    return ask


def select(history: History) -> Ask:
    params = JobSelectParams(
        kinds=history.one_of((), ("mail",)),
        priorities=history.one_of((), (1, 3)),
        queues=history.one_of((), ("b",)),
        states=history.one_of((), (), tuple(FINALIZED), (JobState.AVAILABLE,)),
        tags_any=history.one_of((), ("y", "z")),
        tags_all=history.one_of((), ("x", "y")),
        metadata=history.one_of(None, None, '{"c": 2}', '{"m": {}}'),
        limit=history.one_of(3, 100),
        order=history.one_of("id", "scheduled_at", "attempted_at"),
        descending=history.one_of(True, False),
    )
    removes = history.one_of(True, False, False, False)

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        if removes:
            return await transaction.jobs.delete_selected(params)
        rows = await transaction.jobs.row_list(params)
        if params.order == "id" or not rows:
            return rows
        after = (getattr(rows[-1], params.order), rows[-1].id)
        return rows, await transaction.jobs.row_list(
            JobSelectParams(order=params.order, descending=params.descending, after=after)
        )

    return ask


def browse(history: History) -> Ask:
    term = history.one_of(
        Term(field=Field.KIND, op=Op.LIKE, values=("P*",)),
        Term(field=Field.TAG, op=Op.EQ, values=("y",), negated=True),
        Term(field=Field.WORKER, op=Op.EQ, values=("you",)),
        Term(field=Field.ARGS, op=Op.CONTAINS, values=('{"b": [2]}',)),
        Term(field=Field.METADATA, op=Op.CONTAINS, values=('{"c": 2}',), negated=True),
        Term(field=Field.ERROR, op=Op.LIKE, values=("STUC",)),
        Term(field=Field.STARTED, op=Op.LE, values=(history.now,), negated=True),
        Term(field=Field.FINISHED, op=Op.GE, values=(history.time(),)),
        Term(field=Field.STATE, op=Op.EQ, values=("available", "running"), negated=True),
        Term(field=Field.ATTEMPT, op=Op.GT, values=(0, 5)),
        Term(field=Field.QUEUE, op=Op.EQ, values=("a", "z")),
    )
    chosen = JobFilter(states=history.one_of((), (JobState.AVAILABLE,)), terms=(term,))
    params = JobPageParams(filter=chosen, order=history.one_of(*JobOrder), limit=5)

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        page = await transaction.jobs.list(params)
        # Times of their own clocks have no common order.
        order = [ids.index(row.id) for row in page.rows] if params.order.by_id else []
        return (
            order,
            len(page.rows),
            page.more,
            (await transaction.jobs.count(chosen, cap=100)).value,
            (await transaction.jobs.progress(chosen, window=1_000)).counts,
            await transaction.jobs.count_by_state(cap=2),
            await transaction.jobs.kind_list(),
        )

    return ask


def queues(history: History) -> Ask:
    name, verb = history.one_of("a", "b", "*"), history.one_of("pause", "resume", "upsert")
    now = history.now

    async def ask(transaction: Transaction, ids: Sequence[int]) -> Any:
        if verb == "upsert":
            return await transaction.queues.upsert(name.replace("*", "c"), now=now)
        changed = await getattr(transaction.queues, verb)(name)
        return (
            sorted(changed),
            await transaction.queues.row_list(),
            await transaction.queues.list(cap=3),
            await transaction.queues.count_list(cap=2, limit=2),
            sorted(await transaction.queues.name_list()),
        )

    return ask


OPERATIONS = (
    *(insert,) * 4,
    *(fetch,) * 4,
    *(end,) * 3,
    *(act,) * 4,
    *(schedule,) * 2,
    browse,
    clean,
    complete,
    note,
    queues,
    rescue,
    select,
)


@pytest.fixture
async def postgres(database_url: str) -> AsyncIterator[Driver]:
    """Return a Postgres."""
    driver = connect(database_url)
    yield driver
    await driver.close()


@pytest.mark.parametrize("seed", range(6))
async def test_both_tell_the_same_story(postgres: Driver, seed: int) -> None:
    history = History(postgres, MemoryDatabase(), seed)
    for _ in range(STEPS):
        await history.step()
    assert len(history.sides[0][1]) > 10
