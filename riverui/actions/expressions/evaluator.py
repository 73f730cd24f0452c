"""Asks the process that evaluates expressions, and ends it when one takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from riverui.errors import ExpressionsUnavailable

_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpressionLimits:
    """How long expressions may take."""

    start_seconds: float = 30.0
    """Until the process answers at first: a busy machine takes a while to start Python."""
    one_seconds: float = 1.0
    """Of work for one context: a sane expression takes microseconds."""
    many_seconds: float = 0.5
    """Of work after which the rest of the contexts is left for the next request."""
    wall_seconds: float = 20.0
    """Until an answer, however busy the machine is."""
    most_stopped: int = 3
    """Contexts for which it is stopped in one request: whoever asks waits that long at most."""
    idle_seconds: float = 10.0
    """After which a process that is not asked ends: it takes 15 MB, and a fifth of a second to
    start.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What expressions gave."""

    values: Sequence[Sequence[bool]]
    """For each context a value for each expression; an expression that fails is false. Of one
    context and more, but not of the last ones where several took too long.
    """
    errors: Sequence[str | None]
    """For each expression what was wrong with it last."""


class Expressions:
    """A process that evaluates expressions, begun when it is first asked, one request at a time.

    It ends by itself when it is not asked for a while; `close`, or the end of a `with`, ends it at
    once.
    """

    def __init__(self, limits: ExpressionLimits | None = None) -> None:
        self._limits = limits or ExpressionLimits()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] = _nothing
        self._used = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None

    async def evaluate(
        self,
        programs: Sequence[str],
        contexts: Sequence[str],
        times: Iterable[Sequence[str]] = (),
    ) -> Evaluation:
        """Return what each expression gives in each context, a JSON object on one line.

        `times` are paths to texts in the contexts that are times; `*` stands for every key.
        ExpressionsUnavailable where the process cannot be started.
        """
        return await asyncio.to_thread(self.evaluate_now, programs, contexts, tuple(times))

    def evaluate_now(
        self, programs: Sequence[str], contexts: Sequence[str], times: Sequence[Sequence[str]] = ()
    ) -> Evaluation:
        """Return the same, while the caller's thread waits."""
        values: list[Sequence[bool]] = []
        errors: list[str | None] = [None] * len(programs)
        with self._lock:
            most, stopped = len(contexts), 0
            while len(values) < len(contexts):
                part = contexts[len(values) : len(values) + most]
                answer = self._ask(programs, part, times)
                if answer is not None and answer["done"] > 0:
                    values += answer["values"]
                    found = answer["errors"]
                elif len(part) > 1:
                    # Which one it was is found out one by one.
                    most = 1
                    continue
                else:
                    values.append([False] * len(programs))
                    found = [self._words(answer)] * len(programs)
                    stopped += answer is None
                errors = [new or old for new, old in zip(found, errors, strict=True)]
                if stopped == self._limits.most_stopped:
                    break
        return Evaluation(values=values, errors=errors)

    def close(self) -> None:
        """End the process; the next request begins another."""
        self._process = None
        self._end()

    def _words(self, answer: Any) -> str:
        if answer is not None:
            return str(answer["errors"][0])
        return (
            f"it took longer than {self._limits.one_seconds:g} s or needed too much memory, and was"
            " stopped"
        )

    def _ask(
        self, programs: Sequence[str], contexts: Sequence[str], times: Sequence[Sequence[str]]
    ) -> Any:
        """Return the process's answer; None where it had to be ended, or ended by itself."""
        self._used = time.monotonic()
        process = self._process or self._start()
        told = json.dumps(
            {
                "programs": programs,
                "times": times,
                "budget": self._limits.many_seconds,
                "most": self._limits.many_seconds + self._limits.one_seconds,
            }
        )
        line = f'{told[:-1]}, "contexts": [{", ".join(contexts)}]}}\n'
        answer = self._exchange(process, line.encode(), self._limits.wall_seconds)
        if answer is None:
            self.close()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        # Where Python is embedded, programs tell multiprocessing where it is.
        from multiprocessing.spawn import get_executable

        executable = get_executable() or sys.executable
        try:
            self._process = process = subprocess.Popen(  # noqa: S603
                [executable, "-u", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise ExpressionsUnavailable(
                f"The process that evaluates expressions cannot be started: {error}."
            ) from error
        self._end = weakref.finalize(self, _finish, process)
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        if self._exchange(process, f"{path}\n".encode(), self._limits.start_seconds) != "ready":
            self.close()
            raise ExpressionsUnavailable
        _end_when_idle(weakref.ref(self), self._limits.idle_seconds)
        return process

    def _close_if_idle(self) -> bool:
        """End the process unless it was asked lately; return whether there is one."""
        with self._lock:
            if time.monotonic() - self._used >= self._limits.idle_seconds:
                self.close()
            return self.running

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes, seconds: float) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        with _killed_after(process, seconds):
            try:
                process.stdin.write(line)
                process.stdin.flush()
                return json.loads(process.stdout.readline() or b"null")
            except (OSError, ValueError):
                return None


@contextlib.contextmanager
def _killed_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _nothing() -> None:
    pass


def _finish(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        # What could not be written any more is lost with the process.
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


def _end_when_idle(expressions: weakref.ref[Expressions], seconds: float) -> None:
    def look() -> None:
        there = expressions()
        if there is not None and there._close_if_idle():  # noqa: SLF001
            _end_when_idle(expressions, seconds)

    timer = threading.Timer(seconds, look)
    timer.daemon = True
    timer.start()
