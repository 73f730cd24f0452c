"""Fills River's tables with a realistic day of jobs: big and small kinds and queues, a backlog,
failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow

FILL = Path(__file__).with_name("fill.sql")
HISTORY = Path(__file__).with_name("history.sql")
SLIM_FROM = 20_000_000
"""Rows from which a table has a slim history: a row of `fill.sql` takes about 1,100 bytes with its
indexes, so that a hundred million would need 110 GB of disk; one of `history.sql` takes 250.
"""
SLICE = 5_000_000
"""Rows that one statement adds to the history, so that no sort of a statement needs much disk."""
QUEUES = ("default", "email", "webhooks", "reports", "billing", "images", "imports", "search")
RETIRED = "kind_retired"
"""A kind that only the oldest jobs have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How the rows of a table are spread."""

    mix: Sequence[tuple[str, int, float]]
    """Rows of each state per million, and over how many hours back their creation is spread."""
    most: int
    """Rows of the table up to which the states grow, but for completed, which grows on."""
    queue_skew: int
    """1 gives the first queue two fifths of the jobs, 6 gives it 95 %."""
    priorities: Sequence[float]
    """Shares of the jobs up to priority 1, 2 and 3."""


YOUNG = Shape(
    # Backlogs are young: a job waits, retries and runs in its first hours, and what is older has
    # ended.
    mix=(
        ("available", 174_000, 1.0),
        ("running", 5_000, 0.5),
        ("retryable", 20_000, 3.0),
        ("scheduled", 50_000, 6.0),
        ("pending", 1_000, 6.0),
        ("discarded", 30_000, 24.0),
        ("cancelled", 2_000, 24.0),
    ),
    most=1_000_000,
    queue_skew=1,
    priorities=(0.80, 0.92, 0.98),
)
"""A backlog at the end of a long history."""
DEEP = Shape(
    mix=(
        ("available", 20_000, 24.0),
        ("running", 500, 0.5),
        ("retryable", 10_000, 24.0),
        ("scheduled", 100_000, 24.0),
        ("pending", 1_000, 24.0),
        ("discarded", 30_000, 24.0),
        ("cancelled", 2_000, 24.0),
    ),
    most=100_000_000,
    queue_skew=6,
    priorities=(0.25, 0.50, 0.75),
)
"""Jobs that wait are spread over the whole table, a tenth of which is scheduled; nearly all are in
one queue, and as many have each priority.
"""
SHAPES = {"young": YOUNG, "deep": DEEP}


def mix(rows: int, shape: Shape = YOUNG) -> dict[str, int]:
    """Return the rows of each state for a table of `rows`: backlogs stop growing at the shape's
    most, finished jobs do not.

    No state has fewer than 200 rows, so that a page of a small table is as full as that of a big
    one.
    """
    share = min(rows, shape.most) / 1_000_000
    counts = {state: max(200, round(per_million * share)) for state, per_million, _ in shape.mix}
    return {**counts, "completed": rows - sum(counts.values())}


def fill(connection: psycopg.Connection[TupleRow], rows: int, shape: Shape = YOUNG) -> None:
    """Replace the contents of the tables with `rows` jobs and their queues, and commit.

    A table of more than `SLIM_FROM` rows is one of a million rows with a long history before it,
    whose completed jobs have small args and neither errors nor tags nor metadata. The connection
    must be in autocommit.
    """
    history = rows - 1_000_000 if rows > SLIM_FROM else 0
    counts = mix(rows - history, shape)
    hours = {state: spread for state, _, spread in shape.mix}
    spread = {
        "queues": list(QUEUES),
        "queue_skew": shape.queue_skew,
        "priorities": list(shape.priorities),
    }
    connection.execute("set maintenance_work_mem = '1GB'")
    connection.execute("set work_mem = '256MB'")
    with connection.transaction():
        connection.execute("truncate river_job, river_queue restart identity")
        indexes = connection.execute(
            # The primary key stays: it belongs to a constraint, and rows arrive in its order.
            "select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index"
            " where indrelid = 'river_job'::regclass and not indisprimary"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"drop index {name}".encode())
        connection.execute("select setseed(0.42)")
        for first in range(1, history + 1, SLICE):
            connection.execute(
                HISTORY.read_bytes(),
                {
                    **spread,
                    "rows": history,
                    "first": first,
                    "last": min(first + SLICE - 1, history),
                },
            )
        connection.execute(
            FILL.read_bytes(),
            {
                "history": history,
                **spread,
                "states": list(counts),
                "rows": list(counts.values()),
                "hours": [hours.get(state, 24.0) for state in counts],
            },
        )
        for _, definition in indexes:
            connection.execute(definition.encode())
        connection.execute(
            "insert into river_queue (name, updated_at) select unnest(%s::text[]), now()",
            [list(QUEUES)],
        )
        connection.execute(
            "select setval(pg_get_serial_sequence('river_job', 'id'), max(id)) from river_job"
        )
    connection.execute("vacuum (analyze) river_job, river_queue")
