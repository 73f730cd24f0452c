"""Listening to River's topics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from riverui.storage.interface.capabilities import Capability


class Listener(Protocol):
    """One connection that receives River's topics: `river_insert`, `river_control`,
    `river_leadership`.
    """

    async def listen(self, *topics: str) -> None:
        """Return once the server listens: notifications sent from then on are received.

        A caller that must not miss anything awaits this, then reads the tables, then reads
        `notifications`. May be called again for further topics, also during a read.
        DatabaseUnavailable when the connection is lost.
        """
        ...

    def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Yield pairs of topic and payload, until closed; listen to `topics` first.

        After 5 seconds of silence it pings the server, which has 10 seconds to answer:
        DatabaseUnavailable if it does not, or if the connection is lost. A new Listener is needed
        then. For one reader.
        """
        ...

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        ...


class ListeningDriver(Protocol):
    """A driver that receives notifications."""

    async def listener(self) -> Listener:
        """Return a new Listener on its own connection."""
        ...

    async def shared_listener(self) -> Listener:
        """Return a new Listener on a connection that is shared by all listeners of the pool."""
        ...


LISTENING: Capability[ListeningDriver] = Capability(
    "listening", "Notifications are not received: new jobs are found by polling."
)
