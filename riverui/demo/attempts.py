"""What an attempt at one of the shop's jobs does: how long it takes, what it logs, how it ends.

The shop's workers act by it; of attempts in the past it tells what River wrote at their end.
"""

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

_LEVELS = {"WARN": "WARNING"}
_SPECIAL = frozenset(' ="\n')
_SCHEDULER_INTERVAL = timedelta(seconds=5)
"""River leaves a job that is due again within this time `available`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Says before it starts how an attempt goes: it ends in `failure`, waits for `snooze`, or
    succeeds.
    """

    seconds: float
    lines: tuple[tuple[float, Line], ...]
    """Log lines, and how many seconds after the start they are written."""
    failure: Failure | None = None
    mishap: int = 0
    """Which of the kind's failures it is."""
    gives_up: bool = False
    """The worker itself cancels the job."""
    snooze: timedelta | None = None
    output: object = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PastAttempt:
    """Holds an attempt that lies in the past."""

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
        """Return when the work is done."""
        return self.started_at + timedelta(seconds=self.plan.seconds)

    def logs_at(self, now: datetime) -> list[object]:
        """Return the whole of `river:log` as it is at a time."""
        elapsed = (now - self.started_at).total_seconds()
        go = LANGUAGE[self.kind.queue] == "go"
        text = ""
        for after, line in self.plan.lines:
            if after <= elapsed:
                at = self.started_at + timedelta(seconds=after)
                time = at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
                text += (
                    f"time={time} {_go(*line)}\n" if go else f"{time} {_python(self.kind, *line)}\n"
                )
        return [*self.logs, {"attempt": self.number, "log": text}] if text else list(self.logs)

    def outcome(self, ended_at: datetime, rng: Random) -> Row:
        """Return the end as River's completer writes it: the new state, `error` to add, `metadata`
        to merge.
        """
        plan = self.plan
        metadata: Row = {}
        if logs := self.logs_at(ended_at):
            metadata["river:log"] = logs
        row: Row = {
            "metadata": metadata,
            "scheduled_at": None,
            "error": None,
            "attempt": self.number,
        }
        if plan.snooze is not None:
            metadata["snoozes"] = self.snoozes + 1
            state = JobState.AVAILABLE if plan.snooze <= _SCHEDULER_INTERVAL else JobState.SCHEDULED
            return row | {
                "state": state,
                "scheduled_at": ended_at + plan.snooze,
                "attempt": self.number - 1,
            }
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
) -> PastAttempt:
    """Return an attempt as it started."""
    logs, snoozes = metadata.get("river:log"), metadata.get("snoozes")
    snoozes = snoozes if isinstance(snoozes, int) else 0
    return PastAttempt(
        kind=kind,
        plan=plan(kind, args, str(metadata.get("trace_id")), number, snoozes),
        number=number,
        max_attempts=max_attempts,
        errors=errors,
        snoozes=snoozes,
        logs=logs if isinstance(logs, list) else [],
        started_at=started_at,
    )


def plan(kind: Kind, args: Mapping[str, object], fate: str, number: int, snoozes: int) -> Plan:
    """Return what an attempt will do. Everything follows from the job's fate, which is its trace
    id.
    """
    job = Random(fate)
    doomed, mishap = job.random() < kind.doomed, job.randrange(len(kind.failures))
    rng = Random(f"{fate} {number} {snoozes}")
    seconds = math.exp(rng.uniform(math.log(kind.seconds[0]), math.log(kind.seconds[1])))
    chance = rng.random()
    lines = kind.lines(job, args)
    if doomed or chance < kind.flaky:
        mishap = mishap if doomed else rng.randrange(len(kind.failures))
        failure = _about(args, kind.failures[mishap])
        seconds = failure.seconds or seconds * rng.uniform(0.2, 0.9)
        lines = [
            *lines[:1],
            ("ERROR", "attempt failed", {"error": failure.error.split("\n", 1)[0]}),
        ]
        return Plan(
            seconds=seconds, lines=_spread(lines, seconds, rng), failure=failure, mishap=mishap
        )
    if number == 1 and not snoozes and chance > 1 - kind.snoozed:
        wait = timedelta(seconds=rng.choice((20, 45, 90)))
        lines = [("WARN", "rate limited, trying again later", {"retry_after": f"{wait.seconds}s"})]
        return Plan(seconds=0.3, lines=_spread(lines, 0.3, rng), snooze=wait)
    if chance > 0.995 - kind.snoozed:
        failure = Failure(error=rng.choice(CANCELLED))
        return Plan(seconds=seconds / 3, lines=(), failure=failure, gives_up=True)
    output = kind.output(rng, args) if kind.output else None
    return Plan(seconds=seconds, lines=_spread(lines, seconds, rng), output=output)


def _about(args: Mapping[str, object], failure: Failure) -> Failure:
    """Return the failure with the job's own args in its words."""
    endpoint = args.get("endpoint")
    error = failure.error
    for name, value in {**args, **(endpoint if isinstance(endpoint, dict) else {})}.items():
        error = error.replace(f"{{{name}}}", str(value))
    return replace(failure, error=error)


def _spread(lines: Sequence[Line], seconds: float, rng: Random) -> tuple[tuple[float, Line], ...]:
    """Spread the lines over the run, the first one at its start and the last one at its end."""
    between = sorted(rng.uniform(0.05, 0.95) for _ in lines[1:-1])
    moments = [0.001, *(seconds * place for place in between), seconds * 0.99]
    return tuple(zip(moments, lines, strict=False))


def message_of(message: str, attributes: Args) -> str:
    """Return the message with its attributes behind it, as `key=value`."""
    return message + "".join(f" {key}={_quoted(str(value))}" for key, value in attributes.items())


def _go(level: str, message: str, attributes: Args) -> str:
    """Return a line as Go's slog writes it."""
    return f"level={level} msg={message_of(_quoted(message), attributes)}"


def _python(kind: Kind, level: str, message: str, attributes: Args) -> str:
    """Return a line as riverui keeps what Python's logging is told."""
    return f"{_LEVELS.get(level, level)} shop.{kind.name}: {message_of(message, attributes)}"


def _quoted(text: str) -> str:
    if text and _SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
