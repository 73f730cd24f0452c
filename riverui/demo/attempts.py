"""What one attempt at a demo job does: how long it takes, what it logs, and what River writes at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from riverui.demo.failures import CANCELLED, Failure
from riverui.demo.payloads import Args, Line
from riverui.demo.shop import LANGUAGE, Kind
from riverui.domain.jobs import JobState

Row = dict[str, object]
"""Names and values of columns, ready for `encode`."""

_SPECIAL = frozenset(' ="\n')
_SCHEDULER_INTERVAL = timedelta(seconds=5)
"""River leaves a job that is due again within this time `available`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """An attempt, decided before it starts: it ends in `failure`, waits for `snooze`, or succeeds."""

    seconds: float
    lines: tuple[tuple[float, str], ...]
    """Log lines without their time, and how many seconds after the start they are written."""
    failure: Failure | None = None
    gives_up: bool = False
    """The worker itself cancels the job."""
    snooze: timedelta | None = None
    output: object = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An attempt under way."""

    kind: Kind
    plan: Plan
    number: int
    max_attempts: int
    errors: int
    """How often the job has failed before."""
    snoozes: int
    logs: Sequence[object]
    """Entries of `river:log` from before."""
    started_at: datetime

    @property
    def ends_at(self) -> datetime:
        """When the work is done."""
        return self.started_at + timedelta(seconds=self.plan.seconds)

    def logs_at(self, now: datetime) -> list[object]:
        """The whole of `river:log` at a time."""
        elapsed = (now - self.started_at).total_seconds()
        go = LANGUAGE[self.kind.queue] == "go"
        text = ""
        for after, line in self.plan.lines:
            if after <= elapsed:
                at = self.started_at + timedelta(seconds=after)
                time = at.isoformat(timespec="milliseconds").removesuffix("+00:00")
                text += f"time={time}Z {line}\n" if go else f"{time.replace('T', ' ')} {line}\n"
        return [*self.logs, {"attempt": self.number, "log": text}] if text else list(self.logs)

    def outcome(self, ended_at: datetime, rng: Random, *, cancelled: bool = False) -> Row:
        """The end as River's completer writes it: the new state, `error` to add, `metadata` to merge."""
        plan = self.plan
        metadata: Row = {}
        if logs := self.logs_at(ended_at):
            metadata["river:log"] = logs
        row: Row = {"metadata": metadata, "scheduled_at": None, "error": None, "attempt": self.number}
        if cancelled:
            error = self._error("JobCancelError: job cancelled remotely")
            return row | {"state": JobState.CANCELLED, "error": error}
        if plan.snooze is not None:
            metadata["snoozes"] = self.snoozes + 1
            state = JobState.AVAILABLE if plan.snooze <= _SCHEDULER_INTERVAL else JobState.SCHEDULED
            return row | {"state": state, "scheduled_at": ended_at + plan.snooze, "attempt": self.number - 1}
        if plan.failure is None:
            if plan.output is not None:
                metadata["output"] = plan.output
            return row | {"state": JobState.COMPLETED}
        row["error"] = self._error(plan.failure.error, plan.failure.trace)
        if plan.gives_up:
            return row | {"state": JobState.CANCELLED}
        if self.number >= self.max_attempts:
            return row | {"state": JobState.DISCARDED}
        # River's own retry policy.
        delay = timedelta(seconds=(self.errors + 1) ** 4 * rng.uniform(0.9, 1.1))
        state = JobState.AVAILABLE if delay <= _SCHEDULER_INTERVAL else JobState.RETRYABLE
        return row | {"state": state, "scheduled_at": ended_at + delay}

    def _error(self, error: str, trace: str = "") -> Row:
        # River's `at` is when the failed attempt started.
        return {"at": self.started_at, "attempt": self.number, "error": error, "trace": trace}


def begin(
    kind: Kind,
    *,
    args: Mapping[str, object],
    metadata: Mapping[str, object],
    number: int,
    max_attempts: int,
    errors: int,
    started_at: datetime,
) -> Attempt:
    """An attempt as it starts. What becomes of a job hangs on its trace id alone."""
    logs, snoozes = metadata.get("river:log"), metadata.get("snoozes")
    snoozes = snoozes if isinstance(snoozes, int) else 0
    return Attempt(
        kind=kind,
        plan=_plan(kind, args, str(metadata.get("trace_id")), number, snoozes),
        number=number,
        max_attempts=max_attempts,
        errors=errors,
        snoozes=snoozes,
        logs=logs if isinstance(logs, list) else [],
        started_at=started_at,
    )


def _plan(kind: Kind, args: Mapping[str, object], fate: str, number: int, snoozes: int) -> Plan:
    job = Random(fate)
    doomed, failure = job.random() < kind.doomed, job.choice(kind.failures)
    rng = Random(f"{fate} {number} {snoozes}")
    seconds = math.exp(rng.uniform(math.log(kind.seconds[0]), math.log(kind.seconds[1])))
    chance = rng.random()
    lines = kind.lines(job, args)
    if doomed or chance < kind.flaky:
        failure = _about(args, failure if doomed else rng.choice(kind.failures))
        seconds = failure.seconds or seconds * rng.uniform(0.2, 0.9)
        lines = [*lines[:1], ("ERROR", "attempt failed", {"error": failure.error.split("\n", 1)[0]})]
        return Plan(seconds=seconds, lines=_spread(kind, lines, seconds, rng), failure=failure)
    if number == 1 and not snoozes and chance > 1 - kind.snoozed:
        wait = timedelta(seconds=rng.choice((20, 45, 90)))
        lines = [("WARN", "rate limited, trying again later", {"retry_after": f"{wait.seconds}s"})]
        return Plan(seconds=0.3, lines=_spread(kind, lines, 0.3, rng), snooze=wait)
    if chance > 0.995 - kind.snoozed:
        failure = Failure(error=rng.choice(CANCELLED))
        return Plan(seconds=seconds / 3, lines=(), failure=failure, gives_up=True)
    output = kind.output(rng, args) if kind.output else None
    return Plan(seconds=seconds, lines=_spread(kind, lines, seconds, rng), output=output)


def _about(args: Mapping[str, object], failure: Failure) -> Failure:
    """The failure with the job's own args in its words."""
    endpoint = args.get("endpoint")
    error = failure.error
    for name, value in {**args, **(endpoint if isinstance(endpoint, dict) else {})}.items():
        error = error.replace(f"{{{name}}}", str(value))
    return replace(failure, error=error)


def _spread(kind: Kind, lines: list[Line], seconds: float, rng: Random) -> tuple[tuple[float, str], ...]:
    """The lines over the run, the first one at once and the last one at the end."""
    between = sorted(rng.uniform(0.05, 0.95) for _ in lines[1:-1])
    moments = [0.001, *(seconds * place for place in between), seconds * 0.99]
    return tuple((moment, _line(kind, *line)) for moment, line in zip(moments, lines, strict=False))


def _line(kind: Kind, level: str, message: str, attributes: Args) -> str:
    """A line as Go's slog writes it, or as Python's logging is usually told to."""
    pairs = "".join(f" {key}={_quoted(str(value))}" for key, value in attributes.items())
    if LANGUAGE[kind.queue] == "go":
        return f"level={level} msg={_quoted(message)}{pairs}"
    return f"{level} shop.{kind.name}: {message}{pairs}"


def _quoted(text: str) -> str:
    if text and _SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
