"""The time limits of the API's lists when a request uses River UI's own parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from riverui.web.config import DashboardConfig
from riverui.web.http.context import Service


class ApiTimeLimits:
    """Grants the lists of one dashboard's API their time limit."""

    def __init__(self, config: DashboardConfig, *, long_lists: int) -> None:
        self._config = config
        self._long_lists = long_lists
        """Lists that may have the API's long time limit at the same time."""
        self._lent = 0
        """Lists that have it now."""

    @contextmanager
    def lend(self) -> Iterator[timedelta]:
        """Grant the API's time limit, or that of a page if enough others hold it already."""
        if self._lent >= self._long_lists:
            yield self._config.page_timeout
            return
        self._lent += 1
        try:
            yield self._config.api_timeout
        finally:
            self._lent -= 1


API_TIME_LIMITS = Service(
    make=lambda board: ApiTimeLimits(board.config, long_lists=board.limits.long_api_lists)
)
