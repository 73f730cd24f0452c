"""Keeps the statements with which a client fetches below a number a second."""

from __future__ import annotations

import asyncio

_BURST_SECONDS = 0.01
"""Seconds whose turns may be taken at once: timers of the event loop are no more exact."""
_MOST_SECONDS = 0.1
"""Longest wait for a turn: a client with more than a hundred busy queues fetches each as often as
the default of `fetch_cooldown` allows.
"""


class FetchPace:
    """Gives turns to the queues of one client."""

    def __init__(self, per_second: float) -> None:
        self._at = 0.0
        """When the last turn was due."""
        self._seconds = 1 / per_second

    async def turn(self) -> None:
        """Return when the next fetch may begin."""
        now = asyncio.get_running_loop().time()
        due = max(self._at + self._seconds, now - _BURST_SECONDS)
        self._at = min(due, now + _MOST_SECONDS)
        if self._at > now:
            await asyncio.sleep(self._at - now)
