"""The interface of a database for the client without asyncio."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from riverui.storage.interface.capabilities import Offering
from riverui.storage.interface.driver import Executor, Transaction

T = TypeVar("T")


class SyncDriver(Offering, Protocol):
    """A database with the operations of a Driver that never wait for an event loop: `at_once`
    runs each coroutine to its end in one step.
    """

    is_synchronous: bool
    """True, to distinguish it from a Driver."""

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        ...

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction under time limits; it commits unless an exception leaves it."""
        ...

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """Lend a connection on which each call is its own transaction."""
        ...

    async def adopt(self, transaction: object) -> Transaction:
        """Return the operations inside the caller's own transaction: a psycopg or psycopg2
        connection, a SQLAlchemy Session or Connection on one of these, or a Django database
        connection. TypeError for anything else.
        """
        ...

    def close(self) -> None:
        """Close what it opened itself; safe to call twice."""
        ...


class SyncListener(Protocol):
    """One connection that receives topics without an event loop; see Listener."""

    def listen(self, *topics: str) -> None:
        """Return once the server listens; DatabaseUnavailable when the connection is lost."""
        ...

    def heard(self, seconds: float) -> Sequence[tuple[str, str]]:
        """Return topics and payloads as soon as any arrive; none after so many seconds.
        DatabaseUnavailable when the connection is lost.
        """
        ...

    def hang_up(self) -> None:
        """End `heard` in another thread, which has to close the listener."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@runtime_checkable
class SyncListeningDriver(Protocol):
    """A SyncDriver that may receive notifications."""

    @property
    def listens(self) -> bool:
        """Whether it does: a driver on a given pool opens no connections."""
        ...

    def sync_listener(self) -> SyncListener:
        """Return a new SyncListener on its own connection; DatabaseUnavailable if it cannot
        connect.
        """
        ...


class TwoSidedDriver(Protocol):
    """A Driver that a SyncClient accepts as well."""

    @property
    def sync_driver(self) -> SyncDriver:
        """The same database for a SyncClient."""
        ...


class WouldWait(Exception):
    """A coroutine that must not wait for anything does wait."""


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, in one step; WouldWait if it does
    wait.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # the coroutine's own type says what it is
    except RuntimeError as error:
        if "no running event loop" in str(error):
            raise WouldWait from error
        raise
    coroutine.close()
    raise WouldWait


@contextmanager
def entered(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an asynchronous context that never waits; see at_once."""
    value = at_once(context.__aenter__())
    try:
        yield value
    except BaseException as error:
        if not at_once(context.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        at_once(context.__aexit__(None, None, None))
