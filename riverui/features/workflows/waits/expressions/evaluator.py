"""Evaluate expressions in a child process, which is killed if one takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from riverui.errors import ExpressionsUnavailable
from riverui.features.workflows.waits.expressions.child import Evaluation, Ready, Request, Setup
from riverui.ipc.child_process import start_interpreter
from riverui.ipc.connection import Connection


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpressionLimits:
    """Time limits of expressions."""

    start_seconds: float = 30.0
    """Until the process is ready: a busy machine starts Python slowly."""
    one_seconds: float = 1.0
    """CPU for one context: normal expressions take microseconds."""
    many_seconds: float = 0.5
    """CPU after which the remaining contexts are left for the next request."""
    wall_seconds: float = 20.0
    """Until a response, however busy the machine is."""
    most_stopped: int = 3
    """Maximum kills in one request, which limits how long the caller waits."""
    idle_seconds: float = 10.0
    """Without requests, after which the process is stopped: it takes 40 MB, and a fifth of a second
    to start.
    """


class Expressions:
    """A process that evaluates expressions, started by the first request, one request at a time.

    It is stopped after some time without requests, by `close`, or at the end of a `with` block.
    """

    def __init__(self, limits: ExpressionLimits | None = None) -> None:
        self._limits = limits or ExpressionLimits()
        self._child: _Child | None = None
        self._end: Callable[[], object] = _nothing
        self._used = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._child is not None

    async def evaluate(
        self,
        programs: Sequence[str],
        contexts: Sequence[str],
        times: Iterable[Sequence[str]] = (),
    ) -> Evaluation:
        """Return the value of each expression in each context, a JSON object.

        `times` are paths to texts in the contexts that are times; `*` stands for every key. Raise
        ExpressionsUnavailable if the process cannot be started.
        """
        return await asyncio.to_thread(self.evaluate_now, programs, contexts, tuple(times))

    def evaluate_now(
        self, programs: Sequence[str], contexts: Sequence[str], times: Sequence[Sequence[str]] = ()
    ) -> Evaluation:
        """Return the same, blocking the calling thread."""
        values: list[Sequence[bool]] = []
        errors: list[str | None] = [None] * len(programs)
        with self._lock:
            most, stopped = len(contexts), 0
            while len(values) < len(contexts) and stopped < self._limits.most_stopped:
                part = contexts[len(values) : len(values) + most]
                answer = self._ask(programs, part, times)
                if answer is None and len(part) > 1:
                    # Find the slow context by evaluating one at a time.
                    most = 1
                    continue
                if answer is None:
                    stopped += 1
                    answer = Evaluation([[False] * len(programs)], [self._too_long] * len(programs))
                values += answer.values
                errors = [new or old for new, old in zip(answer.errors, errors, strict=True)]
        return Evaluation(values, errors)

    def close(self) -> None:
        """End the process; the next request starts another."""
        self._child = None
        self._end()

    @property
    def _too_long(self) -> str:
        return (
            f"it took longer than {self._limits.one_seconds:g} s or needed too much memory, and was"
            " stopped"
        )

    def _ask(
        self, programs: Sequence[str], contexts: Sequence[str], times: Sequence[Sequence[str]]
    ) -> Evaluation | None:
        """Return the process's response; None if it was killed or has ended."""
        self._used = time.monotonic()
        child = self._child or self._start()
        limits = self._limits
        request = Request(
            programs=programs,
            contexts=contexts,
            times=times,
            budget=limits.many_seconds,
            most=limits.many_seconds + limits.one_seconds,
        )
        answer = child.ask(request, limits.wall_seconds)
        if isinstance(answer, Evaluation):
            return answer
        self.close()
        return None

    def _start(self) -> _Child:
        try:
            self._child = child = _Child()
        except OSError as error:
            raise ExpressionsUnavailable(
                f"The process that evaluates expressions cannot be started: {error}."
            ) from error
        self._end = weakref.finalize(self, child.end)
        path = [entry for entry in sys.path if isinstance(entry, str)]
        if not isinstance(child.ask(Setup(path), self._limits.start_seconds), Ready):
            self.close()
            raise ExpressionsUnavailable
        _end_when_idle(weakref.ref(self), self._limits.idle_seconds)
        return child

    def _close_if_idle(self) -> bool:
        """Stop the process if it is idle; return whether it runs."""
        with self._lock:
            if time.monotonic() - self._used >= self._limits.idle_seconds:
                self.close()
            return self.running


class _Child:
    """The process, and the connection through its stdin and stdout."""

    def __init__(self) -> None:
        self._process = process = start_interpreter(
            "riverui.features.workflows.waits.expressions.child",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._pipes = process.stdin, process.stdout
        self._connection: Connection[Ready | Evaluation] = Connection(
            process.stdout, process.stdin, Ready | Evaluation
        )

    def ask(self, message: Setup | Request, seconds: float) -> Ready | Evaluation | None:
        """Return the response; None if it has ended or was killed after `seconds`."""
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            self._connection.send(message)
            return self._connection.receive()
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            # Unwritten data are lost with the process.
            with contextlib.suppress(OSError):
                pipe.close()


def _nothing() -> None:
    pass


def _end_when_idle(expressions: weakref.ref[Expressions], seconds: float) -> None:
    def look() -> None:
        found = expressions()
        if found is not None and found._close_if_idle():  # noqa: SLF001
            _end_when_idle(expressions, seconds)

    timer = threading.Timer(seconds, look)
    timer.daemon = True
    timer.start()
