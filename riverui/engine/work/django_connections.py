"""Closes Django's old database connections around a job, as Django does around a request.

Django keeps a connection for each thread, and expects `close_old_connections` to be called before
and after code that runs there. This module does not import Django: in programs without it, nothing
is done.
"""

from __future__ import annotations

import sys


def in_use() -> bool:
    """Return whether the program has configured Django and loaded its database layer."""
    if "django.db" not in sys.modules:
        return False
    configured: bool = sys.modules["django.conf"].settings.configured
    return configured


def close_old() -> None:
    """Close this thread's connections that are broken, in a transaction left open, or past
    CONN_MAX_AGE.
    """
    if in_use():
        _close_old()


async def close_old_of_async_jobs() -> None:
    """Do the same in the thread that asynchronous code shares for Django's models
    (`sync_to_async`).
    """
    from asgiref.sync import sync_to_async

    await sync_to_async(_close_old)()


def _close_old() -> None:
    # Missing while another thread imports the module.
    known = getattr(sys.modules["django.db"], "connections", None)
    for connection in known.all(initialized_only=True) if known else ():
        # A test may have a transaction open around the job.
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
