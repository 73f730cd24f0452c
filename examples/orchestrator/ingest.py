"""The hot path: makes drawers of messages at once, in this process. What it drops is dropped: no
queue.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

from examples.orchestrator.repos import DrawerRepo

log = logging.getLogger(__name__)

_QUICK = {"i like": "preference", "remember": "fact"}


class IngestPool:
    """16 workers with 1,024 places in front of them; `async with` starts them, and drains them at
    its end.
    """

    def __init__(self, drawers: DrawerRepo) -> None:
        self._drawers = drawers
        self._waiting: asyncio.Queue[tuple[str, str]] = asyncio.Queue(1024)
        self._workers: list[asyncio.Task[None]] = []

    def submit(self, workspace: str, text: str) -> bool:
        """Take a message without waiting; return False where there is no place left."""
        try:
            self._waiting.put_nowait((workspace, text))
        except asyncio.QueueFull:
            return False
        return True

    async def __aenter__(self) -> Self:
        self._workers = [asyncio.create_task(self._work()) for _ in range(16)]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._waiting.join()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            workspace, text = await self._waiting.get()
            try:
                memory_type = next(
                    (type_ for words, type_ in _QUICK.items() if words in text.lower()), None
                )
                tier = "heuristic" if memory_type else None
                await self._drawers.add(workspace, text, memory_type=memory_type, tier=tier)
            except Exception:
                log.exception("a message was not remembered")
            finally:
                self._waiting.task_done()
