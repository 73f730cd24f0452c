"""What became of a transaction, told by its number."""

from __future__ import annotations

from riverui.storage.postgres.driver import PostgresDriver

_NEVER_BEGUN = 2**40 + 5


async def test_the_end_of_a_transaction_is_known_by_its_number(driver: PostgresDriver) -> None:
    async with driver.autocommit() as outside:
        async with driver.transaction() as executor:
            kept = await executor.transaction_id()
            assert await executor.transaction_id() == kept
            assert await outside.transaction_committed(kept) is None
        assert await outside.transaction_committed(kept) is True
        try:
            async with driver.transaction() as executor:
                undone = await executor.transaction_id()
                raise LookupError
        except LookupError:
            pass
        assert await outside.transaction_committed(undone) is False
        assert await outside.transaction_committed(_NEVER_BEGUN) is False
