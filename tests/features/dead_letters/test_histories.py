"""Dead letters and ephemeral jobs in random histories: no job is lost or duplicated."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.actions.job_verbs import DELETE
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.work.worker import Job
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.sequences.engine.opts import SequenceOpts
from tests.features.histories import SEEDS, Deed, History, Passing

SETTINGS: dict[str, Any] = {
    "dead_letter": DeadLetterConfig(enabled=True),
    "discarded_job_retention_period": timedelta(0),
}
"""Discarded jobs become dead letters whenever a leader cleans."""


class Shelf:
    """Jobs that mostly are discarded, some of them in sequences."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.passed: Counter[int] = Counter()
        """How often ephemeral jobs succeeded."""
        self.wrong: list[str] = []
        self._at_work: Counter[str] = Counter()
        history.workers.work(Deed)(self._work)
        history.workers.work(Passing)(self._pass)

    async def insert(self) -> None:
        """Insert some jobs."""
        history, random = self.history, self.history.random
        made = []
        for _ in range(random.randint(1, 5)):
            args = history.deed(
                f"key {random.randrange(4)}", Passing if random.random() < 0.4 else Deed
            )
            if random.random() < 0.6:
                args.ends.insert(0, "fail")
            sequence = SequenceOpts(by_args=["key"], exclude_kind=True)
            made.append(
                InsertManyParams(
                    args,
                    InsertOpts(
                        max_attempts=random.randint(1, 2),
                        sequence=sequence if random.random() < 0.4 else None,
                    ),
                )
            )
        made.sort(key=lambda job: str(job.args))
        results = await random.choice(history.clients).insert_many(made)
        history.ids += [result.job.id for result in results]

    async def bring_back(self) -> None:
        """Retry some ids that may be dead letters."""
        chosen = await self._some()
        pilot = plain_pilot() if self.history.random.random() < 0.5 else self.history.client.pilot
        await dead_letters.retry(self.history.client.driver, chosen, pilot=pilot)

    async def throw_away(self) -> None:
        """Remove some dead letters."""
        chosen = await self._some()
        self.history.deleted.update(chosen)
        await dead_letters.delete(self.history.client.driver, chosen)

    async def look(self) -> None:
        """Check that each job is in exactly one table."""
        history = self.history
        known = list(history.ids)
        rows = await history.rows(
            "select id, (select count(*) from river_job j where j.id = i.id)"
            " + (select count(*) from riverui_dead_job d where d.id = i.id) as places"
            " from unnest(%s::bigint[]) as i (id)",
            known,
        )
        for row in rows:
            gone = row["id"] in history.deleted or self.passed[row["id"]]
            if row["places"] > 1 or (row["places"] < 1 and not gone):
                self.wrong.append(f"{row['id']} is in {row['places']} places")

    async def _some(self) -> list[int]:
        random = self.history.random
        rows = await self.history.rows("select id from riverui_dead_job order by id")
        ids = [row["id"] for row in rows] + self.history.ids[-3:]
        return random.sample(ids, min(len(ids), random.randint(1, 3)))

    async def _work(self, job: Job[Any]) -> None:
        key = job.metadata_dict.get("seq_key", "")
        self._at_work[key] += 1
        if key and self._at_work[key] > 1:
            self.wrong.append(f"{job.id} began while another one of {key} was at work")
        try:
            await self.history.act(job)
        finally:
            self._at_work[key] -= 1

    async def _pass(self, job: Job[Any]) -> None:
        await self._work(job)
        self.passed[job.id] += 1


@pytest.mark.scaled
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_job_is_lost_or_duplicated(
    connection: AsyncConnection[DictRow], database_url: str, seed: int
) -> None:
    history = await History.begun(connection, database_url, seed)
    shelf = Shelf(history)
    for number in range(2):
        await history.start(id=f"client {number}", **SETTINGS)
    people = [(3, history.meddle), (4, shelf.bring_back), (1, shelf.throw_away)]
    faults = [(2, history.crash), (1, history.bury), (2, history.haunt), (3, history.lead)]
    await history.play(
        [(1, shelf.insert)], people, faults, [(1, shelf.look), (2, history.lead)], rounds=40
    )

    async def mend() -> None:
        """Remove what halts a sequence."""
        for row in await history.rows(
            "select head_id from riverui_sequence where halted_at < now()"
        ):
            history.ids = [row["head_id"]]
            await history.meddle(verb=DELETE)

    everything = list(history.ids)
    await history.quiet(also=mend)
    history.ids = everything
    await shelf.look()
    assert shelf.wrong == []
    rows = await history.rows("select state, attempt, max_attempts from riverui_dead_job")
    assert len(rows) > 5
    assert {row["state"] for row in rows} == {"discarded"}
    assert all(row["attempt"] > 0 for row in rows)
    # All come back at once, while a leader takes away what fails again.
    dead = await history.rows("select id from riverui_dead_job")
    chosen = [row["id"] for row in dead]
    changes = await dead_letters.retry(history.client.driver, chosen, pilot=plain_pilot())
    assert set(changes.changed) == set(chosen)
    await history.quiet(also=mend)
    history.ids = everything
    await shelf.look()
    assert shelf.wrong == []
    await history.close()
