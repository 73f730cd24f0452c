"""Measures the processor time of attempts, where it can be attributed: in the steps of their task,
in their call in a thread, in their process. Tasks and threads that a job starts itself are not
measured.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from itertools import chain, repeat
from time import perf_counter_ns, thread_time_ns
from typing import Any, TypeVar

from riverui.domain.jobs import JobRow
from riverui.domain.time import FIRST

T = TypeVar("T")

_SECOND = timedelta(seconds=1)
_EACH_SECOND = 10
"""Attempts of a kind that are measured in each second: reading the clock takes less than a
microsecond, but tens of them in some sandboxes.
"""
_STEPS = 64
"""Steps of an attempt that are measured with the clock of the thread. Of further ones the time on
the event loop counts, which is quicker to read.
"""


class CpuTime:
    """The processor time of one attempt."""

    __slots__ = ("nanoseconds",)

    def __init__(self) -> None:
        self.nanoseconds = 0


class CpuMeter:
    """Chooses the attempts to measure."""

    def __init__(self, add: Callable[[JobRow, datetime, CpuTime], None]) -> None:
        """Create a meter; `add` is called with each measured attempt and the time of its end."""
        self.add = add
        self._begun: dict[str, int] = {}
        """Attempts by kind that began within the current second."""
        self._until = FIRST

    def begin(self, kind: str, at: datetime) -> CpuTime | None:
        """Return what the attempt is measured with; None if it is not measured."""
        if at >= self._until:
            self._begun.clear()
            self._until = at + _SECOND
        begun = self._begun[kind] = self._begun.get(kind, 0) + 1
        return CpuTime() if begun <= _EACH_SECOND else None


@types.coroutine
def stepwise(work: Awaitable[T], cpu: CpuTime) -> Generator[Any, Any, T]:
    """Do the work, and add the processor time of each step, from one wait to the next."""
    steps = work.__await__()
    value: Any = None
    error: BaseException | None = None
    for clock in chain(repeat(thread_time_ns, _STEPS), repeat(perf_counter_ns)):
        began = clock()
        try:
            awaited = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            cpu.nanoseconds += clock() - began
            # It refers to this frame.
            error = None
        try:
            value = yield awaited
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as raised:
            value, error = None, raised
    raise AssertionError("unreachable")


def in_thread(function: Callable[..., T], cpu: CpuTime | None) -> Callable[..., T]:
    """Return a function that does the same, and adds the processor time of its thread."""
    if cpu is None:
        return function

    def run(*arguments: Any) -> T:
        began = thread_time_ns()
        try:
            return function(*arguments)
        finally:
            cpu.nanoseconds += thread_time_ns() - began

    return run
