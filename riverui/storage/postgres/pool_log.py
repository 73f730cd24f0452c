"""Keeps psycopg's pools of ours from logging why they cannot connect: who waits for a connection
gets an exception that says it.
"""

from __future__ import annotations

import logging

POOL_NAME = "riverui"
"""The name of our pools. Those of the program around us have others, and go on logging."""

_SAID_ELSEWHERE = ("error connecting in", "reconnection attempt in pool")


class _Own(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for those lines of our pools, which come twice or more a second while a
        database is away.
        """
        ours = isinstance(record.args, tuple) and record.args[:1] == (POOL_NAME,)
        return not (ours and str(record.msg).startswith(_SAID_ELSEWHERE))


_own = _Own()


def leave_to_exceptions() -> None:
    """Drop those lines from now on; to do so twice does no harm."""
    logging.getLogger("psycopg.pool").addFilter(_own)
