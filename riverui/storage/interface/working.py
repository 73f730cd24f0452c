"""Connections outside the pool, which a client that works jobs keeps."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol

from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.driver import Driver, Executor


class WorkingDriver(Driver, Protocol):
    """A driver through which jobs can be worked."""

    def apart(self) -> WorkingDriver:
        """Return another driver of the same database that shares nothing with this one, for another
        event loop.

        It has no pool: it connects for each use. It need not be closed.
        """
        ...

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        """Open a connection outside the pool, for a service that sends statements all the time;
        each call commits itself.

        `timeout` limits each statement, on the server. After DatabaseUnavailable a new one is
        needed. Behind a pooler in transaction mode it works as well, but without the server's
        limit.
        """
        ...


WORKING: Capability[WorkingDriver] = Capability(
    "working",
    "This database connection can insert and manage jobs; to work them, give a URL or a pool.",
)
