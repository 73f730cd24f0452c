"""Receives River's notifications for all parts of a client, and reports when some may be lost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from riverui.engine.waiting import Backoff, backoff
from riverui.errors import DatabaseError
from riverui.storage.interface import LISTENING, Driver, Listener

INSERT = "river_insert"
CONTROL = "river_control"
LEADERSHIP = "river_leadership"
JOB_ENDED = "riverui_job_ended"
"""A job has ended that a client waits for: riverui's own topic."""
JOB_WANTED = "riverui_job_wanted"
"""A client waits for a job: riverui's own topic."""
WAITS = "riverui_workflow_wait"
"""Waits of workflow tasks are due: riverui's own topic."""

_LONGEST_PAUSE = 8.0
"""Longest pause in seconds before reconnecting: jobs are found by polling in the meantime."""
_STEADY = 60.0
"""Seconds after which a connection counts as stable, and its loss as a first failure."""

Callback = Callable[[dict[str, Any]], None]
Unsubscribe = Callable[[], None]


class Notifier:
    """One LISTENing connection. Callbacks must be quick; their exceptions are logged."""

    def __init__(
        self,
        driver: Driver,
        logger: logging.Logger,
        *,
        backoff: Backoff = backoff,
        topics: Iterable[str] = (INSERT, CONTROL, LEADERSHIP, WAITS, JOB_WANTED),
        shared: bool = False,
    ) -> None:
        """Use a connection of its own unless it is `shared` by all notifiers of the pool."""
        self._backoff = backoff
        self._callbacks: defaultdict[str, list[Callback]] = defaultdict(list)
        self._driver = driver
        self._listener: Listener | None = None
        self._logger = logger
        self._reconnected: list[Callable[[], None]] = []
        self._topics = dict.fromkeys(topics)
        self._shared = shared

    @property
    def listening(self) -> bool:
        """Whether the listening connection is open, as far as is known."""
        return self._listener is not None

    def subscribe(self, topic: str, callback: Callback) -> Unsubscribe:
        """Call back with each payload of the topic that is a JSON object."""
        return _added(self._callbacks[topic], callback)

    def on_reconnect(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call back after each reconnect, as notifications may have been missed."""
        return _added(self._reconnected, callback)

    async def connect(self) -> None:
        """Start listening; notifications from now on are delivered by `run`. Raise if it cannot."""
        driver = LISTENING.on(self._driver)
        listener = await (driver.shared_listener() if self._shared else driver.listener())
        try:
            await listener.listen(*self._topics)
        except BaseException:
            await listener.close()
            raise
        self._listener = listener

    async def listen(self, topic: str) -> None:
        """Listen to another topic, now or from the next connection on. Raise if it cannot."""
        self._topics[topic] = None
        if self._listener is not None:
            await self._listener.listen(topic)

    async def run(self) -> None:
        """Deliver notifications, and reconnect whenever the connection is lost, until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                if self._listener is None:
                    await self.connect()
                    self._logger.info("notifications are received again")
                    for callback in tuple(self._reconnected):
                        self._call(callback)
                await self._listen()
                error: Exception = DatabaseError("The connection was closed.")
            except (DatabaseError, OSError) as raised:
                error = raised
            failures = 1 if loop.time() - began > _STEADY else failures + 1
            seconds = min(self._backoff(failures), _LONGEST_PAUSE)
            self._logger.warning(
                "notifications are not received, reconnecting in %.1f s: %s", seconds, error
            )
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()

    async def _listen(self) -> None:
        assert self._listener is not None
        try:
            async for topic, payload in self._listener.notifications():
                self._deliver(topic, payload)
        finally:
            await self.close()

    def _deliver(self, topic: str, payload: str) -> None:
        try:
            message = json.loads(payload)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._logger.warning("a notification on %s is not a JSON object, and is ignored", topic)
            return
        for callback in tuple(self._callbacks[topic]):
            self._call(callback, message)

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:
            self._logger.exception("a notification could not be handled")


def _added(callbacks: list[Any], callback: Hashable) -> Unsubscribe:
    callbacks.append(callback)

    def remove() -> None:
        if callback in callbacks:
            callbacks.remove(callback)

    return remove
