"""What became of a transaction, told by its number."""

from __future__ import annotations

import pytest

from riverui.storage.postgres.driver import PostgresDriver

_NEVER_BEGUN = 2**40 + 5
"""A transaction's number that the server has not given out yet."""


async def test_the_end_of_a_transaction_is_known_by_its_number(driver: PostgresDriver) -> None:
    async with driver.autocommit() as outside:
        async with driver.transaction() as executor:
            kept = await executor.transaction_id()
            assert await executor.transaction_id() == kept
            assert await outside.transaction_committed(kept) is None
        assert await outside.transaction_committed(kept) is True
        undone: list[int] = []

        async def fail() -> None:
            async with driver.transaction() as executor:
                undone.append(await executor.transaction_id())
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert await outside.transaction_committed(undone[0]) is False
        assert await outside.transaction_committed(_NEVER_BEGUN) is False
