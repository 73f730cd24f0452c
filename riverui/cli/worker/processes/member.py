"""A place among the processes of one `riverui worker`."""

from __future__ import annotations

import asyncio
from collections import Counter

from riverui.cli.worker.processes.worker_process import WorkerProcess


class Member:
    """A place among the processes, with its share of the slots."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.current: WorkerProcess | None = None
        """The process that works in this place."""
        self.starting: WorkerProcess | None = None
        """The process that is being started."""
        self.leaving: list[WorkerProcess] = []
        """Previous processes whose jobs still run."""
        self.restarts: Counter[str] = Counter()
        """How often a process was replaced, by reason."""
        self.most_jobs = 0.0
        """Jobs after which the current process is replaced; 0 for any number."""
        self.changed = asyncio.Event()
        self.reload = asyncio.Event()
        """Set to replace it by a process that runs the current code."""
        self.renewed = asyncio.Event()
        """Set after the replacement, also if it failed."""

    @property
    def processes(self) -> list[WorkerProcess]:
        """All processes that have not ended."""
        found = [self.starting, self.current, *self.leaving]
        return [each for each in found if each is not None and not each.ended.is_set()]

    def lend(self) -> None:
        """Lend the current process the slots that leaving processes do not use."""
        self.leaving = [each for each in self.leaving if not each.ended.is_set()]
        current = self.current
        if current is not None and current.ready.is_set():
            current.lend(
                {
                    name: count - sum(each.holds(name) for each in self.leaving)
                    for name, count in current.share.items()
                }
            )
