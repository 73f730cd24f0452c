"""Events of a client for its subscribers: River's event kinds, local to the process."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from riverui.domain.jobs import JobRow
from riverui.domain.queues import QueueRow
from riverui.engine.service import WakeUp


class EventKind(StrEnum):
    """Kinds of events."""

    JOB_CANCELLED = "job_cancelled"
    JOB_COMPLETED = "job_completed"
    JOB_FAILED = "job_failed"
    JOB_INTERRUPTED = "job_interrupted"
    JOB_SNOOZED = "job_snoozed"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_RESUMED = "queue_resumed"


class JobStats(NamedTuple):
    """How long a job waited, ran, and took to complete."""

    complete_duration: timedelta
    queue_wait_duration: timedelta
    run_duration: timedelta


class Event(NamedTuple):
    """One event; `job` and `stats` for those of jobs, `queue` for those of queues."""

    kind: EventKind
    job: JobRow | None = None
    stats: JobStats | None = None
    queue: QueueRow | None = None


class Subscription(AsyncIterator[Event]):
    """A stream of events: iterate over it, and `close` it (or use `with`) when done.

    It buffers `size` events; further ones are dropped and counted in `dropped`. It ends when the
    client has stopped and the buffer is empty.
    """

    def __init__(self, events: Events, kinds: frozenset[EventKind], size: int) -> None:
        self.kinds = kinds
        self.dropped = 0
        self._wake_up = WakeUp()
        self._closed = False
        self._events = events
        self._held: deque[Event] = deque()
        self._size = size

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Subscription to {', '.join(sorted(self.kinds))}: {len(self._held)} held{state}>"

    async def __anext__(self) -> Event:
        while not self._held:
            if self._closed:
                raise StopAsyncIteration
            await self._wake_up.wait()
        return self._held.popleft()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the subscription; buffered events can still be read. Safe to call twice."""
        self._closed = True
        self._events.subscriptions.discard(self)
        self._wake_up.set()

    def offer(self, event: Event) -> bool:
        """Buffer an event; return False if the buffer is full."""
        if len(self._held) >= self._size:
            self.dropped += 1
            return False
        self._held.append(event)
        self._wake_up.set()
        return True


class Listener(Subscription):
    """A subscription that passes each event to a function, which must neither block nor raise."""

    def __init__(
        self, events: Events, kinds: Iterable[EventKind], take: Callable[[Event], None]
    ) -> None:
        super().__init__(events, frozenset(kinds), size=1)
        self._take = take

    def offer(self, event: Event) -> bool:
        """Pass the event to the function."""
        self._take(event)
        return True


class Events:
    """Distributes the events of one client to its subscriptions."""

    def __init__(self, logger: logging.Logger) -> None:
        self.subscriptions: set[Subscription] = set()
        self._logger = logger

    def subscribe(self, *kinds: EventKind | str, size: int = 1000) -> Subscription:
        """Return a new subscription to these kinds. ValueError for unknown kinds, or none at
        all.
        """
        if not kinds:
            raise ValueError(
                "name the kinds of events to subscribe to: later versions may add kinds"
            )
        if size < 1:
            raise ValueError("size must be at least 1")
        subscription = Subscription(self, frozenset(map(EventKind, kinds)), size)
        self.subscriptions.add(subscription)
        return subscription

    def listen(self, kinds: Iterable[EventKind], take: Callable[[Event], None]) -> None:
        """Pass events of these kinds to a function until the client stops."""
        self.subscriptions.add(Listener(self, kinds, take))

    def wants(self, kind: EventKind) -> bool:
        """Return whether this kind has subscribers; if not, the event need not be made."""
        return any(kind in subscription.kinds for subscription in self.subscriptions)

    def publish(self, event: Event) -> None:
        """Give an event to the subscriptions for its kind, without waiting."""
        for subscription in self.subscriptions:
            if (
                event.kind in subscription.kinds
                and not subscription.offer(event)
                and (
                    # Log at 1, 2, 4, 8 … dropped events.
                    subscription.dropped & (subscription.dropped - 1) == 0
                )
            ):
                self._logger.warning(
                    "a subscription is too slow: %s events dropped so far, now a %s",
                    subscription.dropped,
                    event.kind,
                )

    def close(self) -> None:
        """End every subscription."""
        for subscription in tuple(self.subscriptions):
            subscription.close()
