"""The demo shop's past as rows for `seed.sql`: what a day of River, in Go and in Python, has left
behind.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from riverui.demo.attempts import Row, begin
from riverui.demo.shop import BY_NAME, KINDS, LANGUAGE, QUEUES, Kind, client_ids
from riverui.domain.jobs import FINALIZED, JobState

PAUSED_FOR = timedelta(minutes=38)
"""How long ago the paused queue was paused: long enough for jobs to pile up in it."""
_DAY = timedelta(hours=24)
"""How far the past reaches back: as long as River keeps completed jobs."""
_DEPLOYED = timedelta(hours=7)
"""How long ago the workers were last replaced."""
_MARK = "\ue000"
"""Stands before a number that is written as a string for a moment; no text of the shop has it."""
_MARKED = re.compile(f'"{_MARK}([^"]*)"')
_UNIQUE_STATES = "11110101"
"""River's default: unique in every state but cancelled and discarded."""


def encode(value: object) -> str:
    """Return JSON text in which decimals keep all their digits, which the standard encoder alone
    cannot do.
    """
    return _MARKED.sub(r"\1", json.dumps(value, default=_plain, ensure_ascii=False))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC).isoformat()[:-6]}Z"
    return f"{_MARK}{value}"


def any_kind(rng: Random) -> Kind:
    """Return a kind, each as often as the shop uses it."""
    return rng.choices(KINDS, [kind.share for kind in KINDS])[0]


def origin(rng: Random) -> dict[str, Any]:
    """Return the metadata that a job of the shop comes with; its trace id decides its fate."""
    return {
        "trace_id": f"{rng.getrandbits(128):032x}",
        "tenant": rng.choice(("eu-1", "eu-1", "us-2")),
    }


def tags(kind: Kind, rng: Random) -> list[str]:
    """Return a job's tags; one customer in twenty is important."""
    return [*kind.tags, *(["vip"] if rng.random() < 0.05 else [])]


def delay(kind: Kind, rng: Random) -> timedelta | None:
    """Return for how long a new job is put off; None for those that are due at once."""
    if rng.random() >= kind.later:
        return None
    return timedelta(
        seconds=rng.uniform(20, 240) if rng.random() < 0.8 else rng.uniform(3_600, 80_000)
    )


def new_job(kind: Kind, now: datetime, rng: Random) -> dict[str, Any]:
    """Return a job as a client inserted it at that time."""
    args = kind.args(rng)
    row: dict[str, Any] = {
        "args": args,
        "created_at": now,
        "kind": kind.name,
        "max_attempts": kind.max_attempts,
        "metadata": origin(rng),
        "priority": kind.priority,
        "queue": kind.queue,
        "scheduled_at": now,
        "state": JobState.AVAILABLE,
        "tags": tags(kind, rng),
    }
    if wait := delay(kind, rng):
        row |= {"state": JobState.SCHEDULED, "scheduled_at": now + wait}
    if kind.unique:
        key = f"&kind={kind.name}&args={encode(dict(sorted(args.items())))}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        row |= {"unique_key": f"\\x{digest}", "unique_states": _UNIQUE_STATES}
    return row


def history(
    now: datetime, rng: Random, *, jobs: int, since: datetime | None = None
) -> Iterator[Row]:
    """Return the shop's last day of so many jobs, oldest first: most are long done, some wait, and
    one is stuck.

    `since` leaves out what is there already.
    """
    ages = sorted((_age(rng) for _ in range(jobs)), reverse=True)
    for age in ages:
        if since is None or now - age > since:
            row = new_job(any_kind(rng), now - age, rng)
            live(row, now, rng)
            yield row
    if since is not None:
        return
    for number in range(34):
        yield new_job(BY_NAME["data_import"], now - PAUSED_FOR * number / 34, rng)
    for number in range(5):
        yield new_job(BY_NAME["payment_capture"], now - timedelta(seconds=11 * number), rng) | {
            "state": JobState.PENDING
        }
    yield _stuck(now - timedelta(hours=3, minutes=12), now, rng)


def _age(rng: Random) -> timedelta:
    """Return an age within the last day: more often recent than long ago, and more by day than by
    night.
    """
    while True:
        share: float = rng.random() ** 1.4
        if rng.random() < 0.6 + 0.4 * math.cos(2 * math.pi * share):
            return _DAY * share


def live(
    row: dict[str, Any], now: datetime, rng: Random, *, worked_until: datetime | None = None
) -> None:
    """Let everything happen to the job that would have happened to it until now; nobody has worked
    it since `worked_until`.
    """
    kind = BY_NAME[row["kind"]]
    row |= {"attempt": 0, "attempted_by": [], "errors": []}
    paused_at = (
        now - PAUSED_FOR
        if any(queue.paused for queue in QUEUES if queue.name == kind.queue)
        else worked_until or now
    )
    while row["state"] not in FINALIZED:
        started_at = row["scheduled_at"] + timedelta(seconds=rng.expovariate(2))
        if row["scheduled_at"] > now:
            return
        row["state"] = JobState.AVAILABLE
        if started_at > paused_at:
            return
        attempt = begin(
            kind,
            args=row["args"],
            metadata=row["metadata"],
            number=row["attempt"] + 1,
            max_attempts=kind.max_attempts,
            errors=len(row["errors"]),
            started_at=started_at,
        )
        if attempt.ends_at > now:
            # Nobody of back then works any more: it is for those who start now.
            return
        deployed = _DEPLOYED if now - started_at < _DEPLOYED else _DAY * 3
        row["attempted_by"].append(rng.choice(client_ids(LANGUAGE[kind.queue], now - deployed)))
        row |= {"attempt": attempt.number, "attempted_at": started_at}
        end: dict[str, Any] = attempt.outcome(attempt.ends_at, rng)
        row["metadata"] |= end["metadata"]
        row |= {"state": end["state"], "attempt": end["attempt"]}
        row["scheduled_at"] = end["scheduled_at"] or row["scheduled_at"]
        if end["error"]:
            row["errors"].append(end["error"])
    row["finalized_at"] = attempt.ends_at


def _stuck(started_at: datetime, now: datetime, rng: Random) -> Row:
    """Return a job whose worker has vanished, of a kind without a time limit: it is not rescued."""
    kind = BY_NAME["video_transcode"]
    row = new_job(kind, started_at - timedelta(seconds=2), rng)
    attempt = begin(
        kind,
        args=row["args"],
        metadata=row["metadata"],
        number=1,
        max_attempts=kind.max_attempts,
        errors=0,
        started_at=started_at,
    )
    row["metadata"]["river:log"] = attempt.logs_at(
        attempt.started_at + (attempt.ends_at - started_at) * 0.4
    )
    return row | {
        "state": JobState.RUNNING,
        "attempt": 1,
        "attempted_at": started_at,
        "attempted_by": [client_ids("python", now - _DAY)[0]],
    }
