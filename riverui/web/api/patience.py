"""The time that lists may take for which River UI's own parameters ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from riverui.web.config import DashboardConfig

_MOST = 2
"""Lists at once that may take long: half of the connections of a pool of the usual size."""


class Patience:
    """Gives the lists of one dashboard their time limits."""

    def __init__(self, config: DashboardConfig) -> None:
        self._config = config
        self._waiting = 0

    @contextmanager
    def time_limit(self) -> Iterator[timedelta]:
        """Lend the API's time limit, or that of a page where others have it already."""
        if self._waiting >= _MOST:
            yield self._config.page_timeout
            return
        self._waiting += 1
        try:
            yield self._config.api_timeout
        finally:
            self._waiting -= 1
