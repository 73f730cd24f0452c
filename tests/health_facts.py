"""Facts for tests of the health report, made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from riverui.domain.figures import WINDOWS, FigureColumn, Figures, Tally
from riverui.domain.health.facts import (
    DatabaseState,
    HealthFacts,
    LostJobs,
    OverdueJobs,
    QueueWaiting,
    RunningJob,
    RunningJobs,
    WaitingKind,
)
from riverui.domain.jobs import JsonText
from riverui.domain.queues import LeaderRow, QueueListRow, QueueRow
from riverui.domain.sketch import Sketch

NOW = datetime(2026, 11, 22, 9, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
CLIENT = "host_2026_11_22T07_00_00_000000"


def tally(
    completed: int = 10,
    failed: int = 0,
    *,
    wait: timedelta = SECOND,
    run: timedelta = SECOND,
) -> Tally:
    """Return what was done to so many jobs, each of which waited and ran so long; as many came."""
    made = Tally(completed=completed, failed=failed, inserted=completed)
    if completed:
        made.run = Sketch()
        made.run.add(run, completed)
        made.wait = Sketch()
        made.wait.add(wait, completed)
    return made


def figures(
    minute: Callable[[int], Tally | None] = lambda _: tally(),
    pairs: Mapping[tuple[str, str], Tally] | None = None,
    *,
    window: str = "1h",
    now: datetime = NOW,
    **fields: Any,
) -> Figures:
    """Return a window whose columns are told by how many steps ago they began; 0 is unfinished."""
    chosen = WINDOWS[window]
    begun = datetime.fromtimestamp(
        now.timestamp() // chosen.step.total_seconds() * chosen.step.total_seconds(), UTC
    )
    columns = [
        FigureColumn(at=begun - ago * chosen.step, tally=minute(ago), finished=ago > 0)
        for ago in reversed(range(chosen.columns))
    ]
    made = Figures(
        window=chosen,
        columns=columns,
        pairs=pairs if pairs is not None else {("mail", "mail_send"): tally(600)},
        read_at=now - 4 * SECOND,
        since=now - chosen.span,
        complete=True,
        source="all rows",
    )
    return replace(made, **fields)


def queue(
    name: str = "mail",
    *,
    available: int = 0,
    waits: timedelta | None = None,
    paused: timedelta | None = None,
    **counts: int,
) -> QueueListRow:
    """Return a queue's row; `waits` is how long its oldest job has been due."""
    chosen = {"running": 0, "scheduled": 0, "retryable": 0} | counts
    return QueueListRow(
        queue=QueueRow(
            name=name,
            created_at=NOW - timedelta(days=30),
            metadata=JsonText(text="{}", size=2),
            paused_at=None if paused is None else NOW - paused,
            updated_at=NOW - 3 * MINUTE,
        ),
        available=available,
        oldest_waiting_at=None if waits is None else NOW - waits,
        **chosen,
    )


def running(
    count: int = 1,
    *,
    queue: str = "mail",
    kind: str = "mail_send",
    client: str = CLIENT,
    age: timedelta = SECOND,
) -> list[RunningJob]:
    """Return so many running jobs that were all taken at the same time."""
    return [
        RunningJob(id=n + 1, queue=queue, kind=kind, client=client, attempted_at=NOW - age)
        for n in range(count)
    ]


def waiting(
    jobs: int = 100,
    kinds: Mapping[str, tuple[int, int]] | None = None,
    *,
    taken: timedelta | None = SECOND,
    client: str = CLIENT,
) -> QueueWaiting:
    """Return what waits in a queue: by kind how many come next, and how many were tried before."""
    found = {"mail_send": (jobs, 0)} if kinds is None else kinds
    return QueueWaiting(
        cap=10_000,
        kinds={
            name: WaitingKind(jobs=count, retries=retries)
            for name, (count, retries) in found.items()
        },
        takers={} if taken is None else {client: NOW - taken},
    )


def database(**fields: Any) -> DatabaseState:
    """Return a database that is well."""
    well = DatabaseState(
        oldest=None,
        hidden=0,
        blocked=0,
        blocked_since=None,
        blocker=None,
        notifications=0.0,
        standby=False,
        dead_rows=0,
    )
    return replace(well, **fields)


def leader() -> LeaderRow:
    """Return a leader in the middle of its term."""
    return LeaderRow(leader_id=CLIENT, elected_at=NOW - 60 * MINUTE, expires_at=NOW + 10 * SECOND)


def facts(**fields: Any) -> HealthFacts:
    """Return a database whose jobs are well: one queue, one client, ten jobs a minute."""
    well = HealthFacts(
        now=NOW,
        queues=[queue(running=1)],
        leader=leader(),
        running=RunningJobs(jobs=running(), cap=1_000),
        overdue=OverdueJobs(jobs=0, cap=1_000, oldest_at=None),
        lost=LostJobs(jobs=(), whole=True),
        database=database(),
        rhythms=(),
        failed_jobs=dict.fromkeys(("mail_send", "a", "b", "c"), [NOW] * 200),
        hour=figures(),
    )
    return replace(well, **fields)


def jobs(*rows: RunningJob, cap: int = 1_000) -> RunningJobs:
    """Return the running jobs of a database."""
    return RunningJobs(jobs=rows, cap=cap)
