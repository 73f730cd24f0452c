"""The outcome of a transaction, by its id."""

from __future__ import annotations

import pytest

from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.server import ServerStore

_NEVER_BEGUN = 2**40 + 5
"""A transaction id that the server has not used yet."""


async def test_the_end_of_a_transaction_is_known_by_its_number(driver: PostgresDriver) -> None:
    async with driver.autocommit() as outside:
        async with driver.transaction() as executor:
            kept = await ServerStore(executor).transaction_id()
            assert await ServerStore(executor).transaction_id() == kept
            assert await ServerStore(outside).transaction_committed(kept) is None
        assert await ServerStore(outside).transaction_committed(kept) is True
        undone: list[int] = []

        async def fail() -> None:
            async with driver.transaction() as executor:
                undone.append(await ServerStore(executor).transaction_id())
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert await ServerStore(outside).transaction_committed(undone[0]) is False
        assert await ServerStore(outside).transaction_committed(_NEVER_BEGUN) is False
