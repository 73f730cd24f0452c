"""A worker process, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from riverui.cli.worker.processes import messages
from riverui.ipc.child_process import ChildProcess

if TYPE_CHECKING:
    from riverui.cli.worker.metrics import Family


class WorkerProcess(ChildProcess[messages.Report]):
    """One process, from its fork to its end."""

    def __init__(self, number: int, changed: Callable[[], None]) -> None:
        super().__init__(messages.Report)
        self.number = number
        self.slots: Mapping[str, int] = {}
        """Of each queue, in all processes together, once it is `ready`."""
        self.share: Mapping[str, int] = {}
        self.client = ""
        """The id of its client, once it has started."""
        self.metrics: list[Family] = []
        """Its metrics, as last reported."""
        self.memory = 0
        """Bytes, as last reported."""
        self.worked = 0
        """Jobs."""
        self.ready = asyncio.Event()
        self.started = asyncio.Event()
        self.began_at = self._loop.time()
        self.stopping = False
        """Whether it takes no more jobs, or was asked to stop."""
        self._lent: dict[str, int] = {}
        self._taken: Mapping[str, int] | None = None
        """Slots that its jobs use while it stops."""
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._changed = changed
        self._ids = itertools.count()
        self._exit_unreported = False
        """Whether its exit is not reported."""

    def holds(self, queue: str) -> int:
        """Return how many slots of a queue it uses, or may use until it stops."""
        if self.ended.is_set():
            return 0
        return (self._lent if self._taken is None else self._taken).get(queue, 0)

    def lend(self, slots: Mapping[str, int]) -> None:
        """Let it use slots of its share: at least as many as before."""
        lent = {name: count for name, count in slots.items() if count > 0}
        if lent != self._lent and not self.stopping:
            self._lent = lent
            self.send(messages.Lend(lent))

    def stop(self, phase: int = 1) -> None:
        """Begin this phase of its stop: jobs may end, are cancelled, are abandoned."""
        self.stopping = True
        self.send(messages.Stop(phase))
        if not self.ready.is_set():
            # Loading the program may take long, and there are no jobs to finish.
            self.signal(signal.SIGTERM)

    async def ask(self, about: str, *, seconds: float) -> Any:
        """Return its answer; None if it does not answer in time or has ended."""
        if self.ended.is_set() or not self.ready.is_set():
            return None
        number = next(self._ids)
        answer = self._answers[number] = self._loop.create_future()
        self.send(messages.Ask(number, about))
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            return None
        finally:
            self._answers.pop(number, None)

    async def ask_metrics(self, *, seconds: float) -> list[Family]:
        """Return its metrics; as last reported if it does not answer in time."""
        self.metrics = await self.ask("metrics", seconds=seconds) or self.metrics
        return self.metrics

    def end_with_channel(self) -> None:
        """Treat it as ended once its channel is closed, because its exit is not reported."""
        self._exit_unreported = True
        if self._channel.closed.is_set():
            self._finish()

    def take(self, report: messages.Report) -> None:
        """Handle a report."""
        if isinstance(report, messages.State):
            self.memory, self.worked = report.memory, report.worked
        elif isinstance(report, messages.Taken):
            self.stopping, self._taken = True, report.slots
        elif isinstance(report, messages.Ready):
            self.slots, self.share = report.slots, report.share
            self.ready.set()
        elif isinstance(report, messages.Started):
            self.client = report.client
            self.started.set()
        elif isinstance(report, messages.Metrics):
            self.metrics = report.families
        elif isinstance(report, messages.Answer):
            answer = self._answers.get(report.id)
            if answer is not None and not answer.done():
                answer.set_result(report.found)
        self._changed()

    def silent(self, error: ValueError | None) -> None:
        """Treat it as ended if its exit is not reported."""
        if self._exit_unreported:
            self._finish()

    def over(self) -> None:
        """Wake all tasks that wait for it."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)
        self._changed()
