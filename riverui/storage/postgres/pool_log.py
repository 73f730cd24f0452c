"""Drops the log lines of riverui's psycopg pools about failed connections: callers get an exception
with the reason.
"""

from __future__ import annotations

import logging

POOL_NAME = "riverui"
"""The name of riverui's pools. Those of the host program have other names, and keep logging."""

_DROPPED = ("error connecting in", "reconnection attempt in pool")


class _Own(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for these lines of riverui's pools, which repeat twice a second or more
        while a database is down.
        """
        own = isinstance(record.args, tuple) and record.args[:1] == (POOL_NAME,)
        return not (own and str(record.msg).startswith(_DROPPED))


_own = _Own()


def leave_to_exceptions() -> None:
    """Install the filter; safe to call twice."""
    logging.getLogger("psycopg.pool").addFilter(_own)
