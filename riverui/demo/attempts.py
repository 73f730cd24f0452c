"""Plans of attempts at the shop's jobs: how long they take, what they log, how they end.

Workers carry out the plans; the history contains the results of plans.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from riverui.demo.failures import CANCELLED, Failure, error_and_trace
from riverui.demo.shop import LANGUAGE, Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How an attempt goes: it fails with `error`, is snoozed for `snooze`, or succeeds."""

    seconds: float
    lines: tuple[tuple[float, str], ...] = ()
    """Log lines, and how many seconds after the start they are written."""
    failure: Failure | None = None
    error: str = ""
    trace: str = ""
    cancels: bool = False
    """Whether the worker itself cancels the job, for the reason in `error`."""
    snooze: timedelta | None = None
    output: object = None


def plan(kind: Kind, args: Mapping[str, Any], fate: str, number: int, snoozes: int) -> Plan:
    """Return the plan of an attempt, which follows from the job's trace id, its `fate`."""
    job = Random(fate)
    doomed, failure = job.random() < kind.doomed, job.choice(kind.failures)
    rng = Random(f"{fate} {number} {snoozes}")
    seconds = math.exp(rng.uniform(math.log(kind.seconds[0]), math.log(kind.seconds[1])))
    chance = rng.random()
    if doomed or chance < kind.flaky:
        failure = failure if doomed else rng.choice(kind.failures)
        seconds = failure.seconds or seconds * rng.uniform(0.2, 0.9)
        return plan_failure(kind, args, failure, seconds, rng)
    if number == 1 and not snoozes and chance > 1 - kind.snoozed:
        wait = rng.choice((20, 45, 90))
        line = f"WARN rate limited, trying again later retry_after={wait}s"
        return Plan(seconds=0.3, lines=((0.1, line),), snooze=timedelta(seconds=wait))
    if chance > 0.995 - kind.snoozed:
        return Plan(seconds=seconds / 3, error=rng.choice(CANCELLED), cancels=True)
    lines = fill(kind.lines, args, rng)
    output = kind.output(rng, args) if kind.output else None
    return Plan(seconds=seconds, lines=_spread(lines, seconds, rng), output=output)


def plan_failure(
    kind: Kind, args: Mapping[str, Any], failure: Failure, seconds: float, rng: Random
) -> Plan:
    """Return an attempt that fails after so many seconds."""
    first, message = fill((kind.lines[0], failure.error), args, rng)
    error, trace = error_and_trace(failure, message, args)
    summary = error.partition("\n")[0]
    lines = ((0.001, first), (seconds * 0.99, f"ERROR attempt failed: {summary}"))
    return Plan(seconds=seconds, lines=lines, failure=failure, error=error, trace=trace)


class _Values(dict[str, Any]):
    """Values for placeholders; missing ones are shown unchanged."""

    def __missing__(self, name: str) -> str:
        return "?"


def fill(lines: Sequence[str], args: Mapping[str, Any], rng: Random) -> list[str]:
    """Return the lines with values for their `{names}`: args, nested args, and random numbers for
    the log.
    """
    values = _Values(
        bytes=rng.randrange(9_000, 400_000),
        hex=f"{rng.getrandbits(32):08x}",
        ms=rng.randrange(40, 1_900),
        rows=rng.randrange(2_000, 400_000),
        speed=round(rng.uniform(0.8, 2.4), 2),
    )
    for each in args.values():
        if isinstance(each, dict):
            values.update(each)
    values.update(args)
    return [line.format_map(values) for line in lines]


def _spread(lines: Sequence[str], seconds: float, rng: Random) -> tuple[tuple[float, str], ...]:
    """Distribute the lines over the run, from its start to its end."""
    between = sorted(rng.uniform(0.05, 0.95) for _ in lines[1:-1])
    moments = [0.001, *(seconds * place for place in between), seconds * 0.99]
    return tuple(zip(moments, lines, strict=False))


def log_text(kind: Kind, plan: Plan, started_at: datetime, until: datetime) -> str:
    """Return the log of an attempt until `until`: as Go's slog writes it, or as riverui stores
    Python's log.
    """
    text = ""
    for after, line in plan.lines:
        at = started_at + timedelta(seconds=after)
        if at > until:
            break
        time = at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        level, _, message = line.partition(" ")
        if LANGUAGE[kind.queue] == "go":
            message = message.replace('"', '\\"')
            text += f'time={time} level={level} msg="{message}"\n'
        else:
            text += f"{time} {level} shop.{kind.name}: {message}\n"
    return text
