"""Listening to River's topics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from riverui.storage.interface.capabilities import Capability


class Listener(Protocol):
    """One connection that hears River's topics: `river_insert`, `river_control`,
    `river_leadership`.
    """

    async def listen(self, *topics: str) -> None:
        """Return once the server listens: what is notified from then on will be heard.

        Whoever must not miss anything awaits this, then reads what stands in the tables, then reads
        `notifications`. May be called again for further topics, also while somebody reads.
        DatabaseUnavailable when the connection is lost.
        """
        ...

    def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Yield pairs of topic and payload, until closed; listen to `topics` first.

        After 5 seconds of silence the server is asked whether it lives, and given 10 to answer:
        DatabaseUnavailable when it does not, or when the connection is lost. A new Listener is
        needed then. For one reader.
        """
        ...

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        ...


class ListeningDriver(Protocol):
    """A driver that hears notifications."""

    async def listener(self) -> Listener:
        """Return a new Listener on a connection of its own."""
        ...

    async def shared_listener(self) -> Listener:
        """Return a new Listener on a connection that all who call this for the same pool share."""
        ...


LISTENING: Capability[ListeningDriver] = Capability(
    "listening", "Notifications are not received: new jobs are found by polling."
)
