"""Jobs of a sequence, as an insert leaves them."""

from __future__ import annotations

from typing import Any

from riverui.actions import jobs
from riverui.engine.feature_list import plain_pilot
from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from tests.factory import Make
from tests.features.both import SqliteMake

KEY = "order"


class Line:
    """The jobs of one sequence, as an insert leaves them."""

    def __init__(self, driver: Driver, insert: Make | SqliteMake) -> None:
        self.insert = insert
        self.driver = driver
        self.pilot = plain_pilot()

    async def make(self, *states: str, key: str = KEY, **options: Any) -> list[int]:
        """Put jobs into the database: the first is the head, the others wait."""
        metadata = {"seq_key": key, "riverui:sequence": options}
        ids = [await self.insert.job(state, metadata=metadata) for state in states]
        async with self.driver.transaction() as executor:
            sequences = SequenceStore(executor)
            await sequences.sequence_claim([key])
            await sequences.sequence_put([(key, ids[0])], [(key, each) for each in ids[1:]])
        return ids

    async def do(self, verb: Any, *ids: int) -> Any:
        """Do a verb as a dashboard does."""
        return await jobs.apply(self.driver, verb, ids, pilot=self.pilot)

    async def states(self, ids: list[int]) -> list[str]:
        """Return the states of jobs, `gone` for those that are."""
        found = await self.insert.states()
        return [found.get(each, "gone") for each in ids]
