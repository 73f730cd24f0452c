"""A worker process, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from riverui.cli.worker.processes.channel import Channel, Message

if TYPE_CHECKING:
    from riverui.cli.worker.metrics import Family

_LAST_WORDS_SECONDS = 1.0
"""For what a process told before it ended: it is there, unless others hold its end open."""


class WorkerProcess:
    """One process, from its fork to its end."""

    def __init__(self, number: int, changed: Callable[[], None]) -> None:
        self.number = number
        self.pid = 0
        """Once it was forked."""
        self.slots: Mapping[str, int] = {}
        """Of each queue, in all processes together, once it is `ready`."""
        self.share: Mapping[str, int] = {}
        self.client = ""
        """The id of its client, once it has started."""
        self.metrics: list[Family] = []
        """What it has counted, as it told last."""
        self.memory = 0
        """Bytes, as it told last."""
        self.worked = 0
        """Jobs."""
        self.exit_code: int | None = None
        self.forked = asyncio.Event()
        self.ready = asyncio.Event()
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.began_at = asyncio.get_running_loop().time()
        self.stopping = False
        """Whether it takes no more jobs, or was told so."""
        self._lent: dict[str, int] = {}
        self._taken: Mapping[str, int] | None = None
        """Slots as it told while it stops."""
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._channel: Channel | None = None
        self._changed = changed
        self._ids = itertools.count()
        self._listening: asyncio.Task[None] | None = None

    async def listen(self, end: socket.socket) -> None:
        """Begin to hear what it tells."""
        self._channel = await Channel.open(end)
        self._listening = asyncio.create_task(self._listen(self._channel))

    @property
    def works(self) -> bool:
        """Whether it has started and is not about to end."""
        return self.started.is_set() and not self.stopping and not self.ended.is_set()

    def holds(self, queue: str) -> int:
        """Return how many slots of a queue it takes, or may take before it hears to stop."""
        if self.ended.is_set():
            return 0
        return (self._lent if self._taken is None else self._taken).get(queue, 0)

    def lend(self, slots: Mapping[str, int]) -> None:
        """Let it use slots of its share: as many as before, or more."""
        lent = {name: count for name, count in slots.items() if count > 0}
        if lent != self._lent and not self.stopping:
            self._lent = lent
            self._send({"lend": lent})

    def stop(self, phase: int = 1) -> None:
        """Let it stop, from this phase on: its jobs may end, are cancelled, are abandoned."""
        self.stopping = True
        self._send({"stop": phase})
        if not self.ready.is_set():
            # It may take its time to load the program, and there is nothing to end well.
            self._kill(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._kill(signal.SIGKILL)

    async def ask(self, what: str, *, seconds: float) -> Any:
        """Return what it answers; None where it does not in time, or has ended."""
        if self._channel is None or self.ended.is_set() or not self.ready.is_set():
            return None
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._send({"ask": what, "id": number})
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            return None
        finally:
            self._answers.pop(number, None)

    async def ask_metrics(self, *, seconds: float) -> list[Family]:
        """Return what it has counted; as it told last, where it does not answer in time."""
        self.metrics = await self.ask("metrics", seconds=seconds) or self.metrics
        return self.metrics

    def has_ended(self, exit_code: int) -> None:
        """Take in that it is no more."""
        self.exit_code = exit_code
        self._burying = asyncio.create_task(self._bury(_LAST_WORDS_SECONDS))

    def ends_unseen(self) -> None:
        """Count it as ended once it tells no more, as nobody sees it end."""
        self._burying = asyncio.create_task(self._bury(None))

    async def _bury(self, seconds: float | None) -> None:
        """Hear what it told last, and count it as ended."""
        if self._listening is not None:
            await asyncio.wait([self._listening], timeout=seconds)
            self._listening.cancel()
        if self._channel is not None:
            self._channel.close()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)
        self.ended.set()
        self._changed()

    async def _listen(self, channel: Channel) -> None:
        async for message in channel.messages():
            self._take(message)
            self._changed()

    def _take(self, message: Message) -> None:
        if "state" in message:
            self.memory, self.worked = message["state"]["memory"], message["state"]["worked"]
        elif "metrics" in message:
            self.metrics = message["metrics"]
        elif "taken" in message:
            self.stopping, self._taken = True, message["taken"]
        elif "ready" in message:
            self.slots, self.share = message["ready"]["slots"], message["ready"]["share"]
            self.ready.set()
        elif "started" in message:
            self.client = message["started"]
            self.started.set()
        elif "answer" in message:
            answer = self._answers.get(message["answer"])
            if answer is not None and not answer.done():
                answer.set_result(message["told"])

    def _kill(self, number: int) -> None:
        if self.pid and not self.ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _send(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)
