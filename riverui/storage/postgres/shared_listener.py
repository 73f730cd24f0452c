"""One connection that receives notifications for many clients on one pool and several schemas."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from weakref import WeakKeyDictionary

from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.storage.postgres.conninfo import Connection
from riverui.storage.postgres.limits import PostgresLimits
from riverui.storage.postgres.listener import MAX_KEPT, PostgresListener

Connect = Callable[[], Awaitable[Connection]]


class _Shared:
    """The connection, and the listeners of each channel on it."""

    def __init__(self, limits: PostgresLimits) -> None:
        self._limits = limits
        self._hearing: defaultdict[str, set[SharedListener]] = defaultdict(set)
        self._listener: PostgresListener | None = None
        self._opening = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def current_schema(self, connect: Connect) -> str:
        """Return the schema that the connection's search path leads to."""
        return await (await self._opened(connect)).current_schema()

    async def listen(self, listener: SharedListener, channels: list[str], connect: Connect) -> None:
        """Add a listener to these channels; return once the server sends them."""
        # Before any wait: the connection closes when no channel has a listener.
        for channel in channels:
            self._hearing[channel].add(listener)
        try:
            await (await self._opened(connect)).listen(*channels)
        except BaseException:
            await self.leave(listener)
            raise

    async def leave(self, listener: SharedListener) -> None:
        """Remove a listener; close the connection after the last one."""
        for hearing in self._hearing.values():
            hearing.discard(listener)
        if not any(self._hearing.values()):
            self._hearing.clear()
            opened, self._listener = self._listener, None
            if opened is not None:
                await opened.close()

    async def _opened(self, connect: Connect) -> PostgresListener:
        async with self._opening:
            if self._listener is None:
                self._listener = PostgresListener(
                    await connect(), None, self._limits, whole_names=True
                )
                self._reading = asyncio.create_task(
                    self._read(self._listener), name="riverui shared listener"
                )
            return self._listener

    async def _read(self, opened: PostgresListener) -> None:
        """Pass notifications to the listeners; when the connection is lost, all of them fail."""
        lost: Exception = DatabaseUnavailable("The connection to the database was lost.")
        try:
            async for channel, payload in opened.notifications():
                for listener in tuple(self._hearing.get(channel, ())):
                    listener.hear(channel, payload)
        except (DatabaseError, OSError) as error:
            lost = error
        finally:
            if self._listener is opened:
                self._listener = None
                for listener in set[SharedListener]().union(*self._hearing.values()):
                    listener.lose(lost)
                self._hearing.clear()
                await opened.close()


_SHARED: WeakKeyDictionary[object, _Shared] = WeakKeyDictionary()
"""By pool, the only object that drivers of several schemas share. A value refers to its pool only
while it has listeners.
"""


class SharedListener:
    """A Listener for `<schema>.<topic>` channels on a shared connection."""

    def __init__(
        self, pool: object, schema: str | None, connect: Connect, limits: PostgresLimits
    ) -> None:
        """Make a listener. All of a `pool` share a connection, which the first one opens by
        `connect`.
        """
        self._closed = False
        self._connect = connect
        self._heard: deque[tuple[str, str]] = deque(maxlen=MAX_KEPT)
        self._lost: Exception | None = None
        self._prefix = "" if schema is None else f"{schema}."
        self._shared = _SHARED.setdefault(pool, _Shared(limits))
        self._wake = asyncio.Event()

    async def listen(self, *topics: str) -> None:
        """Return once the server sends new notifications; DatabaseUnavailable when the
        connection is lost.
        """
        if not self._prefix:
            self._prefix = f"{await self._shared.current_schema(self._connect)}."
        if self._lost is None:
            channels = [self._prefix + topic for topic in topics]
            try:
                await self._shared.listen(self, channels, self._connect)
            except (DatabaseError, OSError) as error:
                # It receives nothing from now on: its reader must not wait.
                self.lose(error)
                raise
        if self._lost is not None:
            raise self._lost

    async def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Yield topic and payload until closed; DatabaseUnavailable when the connection is lost.

        Listens to the topics first, unless `listen` has done so.
        """
        if topics:
            await self.listen(*topics)
        while True:
            while self._heard and not self._closed:
                yield self._heard.popleft()
            if self._closed:
                return
            if self._lost is not None:
                raise self._lost
            self._wake.clear()
            await self._wake.wait()

    async def close(self) -> None:
        """Stop receiving; safe to call twice."""
        if not self._closed:
            self._closed = True
            self._wake.set()
            await self._shared.leave(self)

    def hear(self, channel: str, payload: str) -> None:
        """Add a notification of one of its channels."""
        self._heard.append((channel.removeprefix(self._prefix), payload))
        self._wake.set()

    def lose(self, error: Exception) -> None:
        """End with an error, as the connection is lost."""
        self._lost = error
        self._wake.set()
