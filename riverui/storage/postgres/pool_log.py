"""Keeps psycopg's pool from printing why it cannot connect: who waits for a connection is told
anyway.
"""

from __future__ import annotations

import logging

POOL_NAME = "riverui"
"""Of our own pools; those of the program around us log as it pleases."""

_SAID_ELSEWHERE = ("error connecting in", "reconnection attempt in pool")


class _Own(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Drop those lines of our own pools, which come twice or more a second while a database is
        away.
        """
        ours = isinstance(record.args, tuple) and record.args[:1] == (POOL_NAME,)
        return not (ours and str(record.msg).startswith(_SAID_ELSEWHERE))


_own = _Own()


def leave_to_exceptions() -> None:
    """Silence those lines from now on. Once is enough, and twice does no harm."""
    logging.getLogger("psycopg.pool").addFilter(_own)
