"""Tables of riverui's own, through every way to a database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from riverui.errors import SchemaMissing
from riverui.features.operations.store import Operation, OperationStore
from riverui.storage.interface.params import Count, JobCutoff, JobOrder
from riverui.storage.migrations import migrate
from riverui.storage.tables import OWN_TABLES, table_names
from tests.storage.conftest import Way, every_way


@every_way
async def test_a_store_runs_its_statements(way: Way) -> None:
    """In the search path's schema and in another."""
    assert await table_names(way.executor) == frozenset()
    store = OperationStore(way.executor)
    async with way.driver.reading() as reading:
        with pytest.raises(SchemaMissing):
            await OperationStore(reading).operation_list(verbs=["move"], limit=1)
    await migrate(way.driver, "up", line="riverui")
    assert await table_names(way.executor) == OWN_TABLES
    assert await OperationStore.installed(way.executor)
    await store.operation_turn()
    inserted = await store.operation_insert(
        Operation(
            id="one",
            verb="move",
            query="",
            order=JobOrder.TIME_DESC,
            cutoff=JobCutoff(id=77, at=datetime(2026, 11, 22, 12, tzinfo=UTC)),
            total=Count(value=12),
            allowed="jobs.move",
        )
    )
    assert await store.operation_list(verbs=["move"], limit=1) == [inserted]
