"""A database with River's tables: the interface of every driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol

from riverui.storage.interface.capabilities import Offering
from riverui.storage.interface.jobs import Jobs
from riverui.storage.interface.leader import Leader
from riverui.storage.interface.queues import Queues
from riverui.storage.interface.sql import Sql
from riverui.storage.interface.work import Work


class Executor(Offering, Protocol):
    """The operations on River's tables that every driver has, by what they are about."""

    @property
    def jobs(self) -> Jobs:
        """Return the operations on jobs: insert, read, count, change."""
        ...

    @property
    def work(self) -> Work:
        """Return the engine's operations on jobs: fetch, end, schedule, rescue, clean."""
        ...

    @property
    def queues(self) -> Queues:
        """Return the operations on queues."""
        ...

    @property
    def leader(self) -> Leader:
        """Return the operations on the row of the leader."""
        ...

    async def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Send each payload on the schema's channel of that topic."""
        ...

    @property
    def sql(self) -> Sql:
        """Return the statements of stores on the same connection."""
        ...


class Transaction(Executor, Protocol):
    """An Executor whose work is kept or lost as one."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """Begin a part that can fail alone: an exception leaving it undoes it and is raised on."""
        ...


class Driver(Offering, Protocol):
    """A database. Opens itself at first use, so that a mounted app needs no lifespan."""

    @property
    def product(self) -> str:
        """The database's name as people say it, such as `PostgreSQL`."""
        ...

    @property
    def library(self) -> tuple[str, str]:
        """Name and version of the package by which the database is reached, for the About page."""
        ...

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        ...

    @property
    def database(self) -> str:
        """The database's name, empty before the first connection."""
        ...

    @property
    def read_only(self) -> str:
        """Why the database takes no changes, as a sentence; empty if it takes them or this is not
        known yet.
        """
        ...

    @property
    def schema_in_use(self) -> str:
        """The schema, or else the first of the search path, which is empty before the first
        connection.
        """
        ...

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Begin a short read-only transaction under a statement timeout, the page timeout unless
        given.
        """
        ...

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction that may write, under time limits; it commits unless an exception
        leaves it.
        """
        ...

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """Lend a pooled connection on which each call is its own transaction, in one round
        trip.

        The server enforces no time limit then: the driver cancels what takes longer than `timeout`
        (the action timeout unless given), with QueryTimeout.
        """
        ...

    async def adopt(self, transaction: object) -> Transaction:
        """Return the operations inside the caller's own transaction, which stays theirs to commit.

        Each driver takes its own kinds of transactions: Postgres a psycopg AsyncConnection, or a
        SQLAlchemy AsyncSession or AsyncConnection on psycopg or asyncpg, which is begun if it was
        not. The driver's own Transaction is returned as it is. TypeError for anything else. The
        only time limits are those of the transaction.
        """
        ...

    async def ping(self) -> None:
        """Run a trivial query; raises as any call does."""
        ...

    async def close(self) -> None:
        """Close every connection that the driver opened itself; safe to call twice."""
        ...
