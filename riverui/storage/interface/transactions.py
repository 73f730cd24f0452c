"""What became of a transaction whose answer was lost."""

from __future__ import annotations

from typing import Protocol

from riverui.storage.interface.capabilities import Capability


class TransactionStatusExecutor(Protocol):
    """Numbers transactions, and tells of each whether it was kept."""

    async def transaction_id(self) -> int:
        """Return the number of the transaction that this is part of, by which it is known later."""
        ...

    async def transaction_committed(self, id: int) -> bool | None:
        """Return whether that transaction was kept; None while it is not decided.

        True also for one so old that the server has forgotten it, False for one it has never heard
        of.
        """
        ...


TRANSACTION_STATUS: Capability[TransactionStatusExecutor] = Capability(
    "transaction status",
    "The database cannot be asked what became of a transaction: a periodic job may be inserted"
    " twice where the connection is lost while it is committed.",
)
