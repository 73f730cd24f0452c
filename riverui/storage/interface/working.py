"""Connections of one's own, which a client that works jobs keeps."""

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

        It has no pool: every connection is made for its use. Nothing of it has to be closed.
        """
        ...

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        """Open a connection outside the pool, for a service that asks all the time; each call
        commits itself.

        `timeout` limits each statement, on the server. DatabaseUnavailable ends its use: ask for
        another one. Behind a pooler in transaction mode it works as well, but then with no limit of
        the server's.
        """
        ...


WORKING: Capability[WorkingDriver] = Capability(
    "working",
    "This database connection can insert and manage jobs; to work them, give a URL or a pool.",
)
