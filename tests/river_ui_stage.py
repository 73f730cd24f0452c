"""What River UI's own pages are shown in the tests: jobs of every state, queues, a workflow; always
alike.
"""

from __future__ import annotations

import json
from typing import Any

from psycopg import AsyncConnection

from tests.own_tables import create
from tests.pro_tables import PRO_TABLES
from tests.workflows import DIAMOND, workflow

RUNNING, CONFLICT, TWIN, TAGGED = 61, 62, 63, 64
"""Ids of a running job, a discarded one that cannot be retried, its active twin, and a tagged one.
"""
TASKS = range(65, 69)
"""Ids of the workflow's tasks."""
DEAD = 110
"""Id of one of 25 dead letters, the only one of its kind."""

_WAIT = {
    "expr": "approved || late",
    "terms": [
        {
            "name": "approved",
            "kind": "signal",
            "label": "Approved",
            "signal_key": "approval",
            "expr": "true",
        },
        {
            "name": "late",
            "kind": "timer",
            "label": "Too late",
            "timer": {
                "name": "late",
                "after_us": 1_800_000_000,
                "anchor": {"kind": "workflow_created_at"},
            },
        },
    ],
}
_WAITS = {
    "river:workflow_wait": _WAIT,
    "river:workflow_wait_state": {
        "started_at": "2026-11-21T09:00:00Z",
        "timers": {"late": {"fire_at": "2026-11-21T09:30:00Z"}},
    },
}
_FILL = """
insert into river_job (args, kind, max_attempts, state, attempt, attempted_at, attempted_by,
finalized_at)
select jsonb_build_object('number', n, 'big', 1970670598291982290), 'mail_send', 25, 'completed', 1,
  now() - interval '1 h', '{worker_1}', now() - n * interval '1 s'
from generate_series(1, 50) n;
insert into river_job (args, kind, max_attempts, state, metadata, priority, queue, attempt,
attempted_at,
  attempted_by, finalized_at, scheduled_at, errors)
select '{"order": {"id": 42, "lines": [1, 2]}}', 'order_ship', 25, state::river_job_state,
'{"trace": "abc"}',
  1 + n % 4, 'shipping', case when state in ('retryable', 'discarded') then 1 else 0 end,
  case when state in ('retryable', 'discarded') then now() - interval '1 m' end,
  case when state in ('retryable', 'discarded') then '{worker_2}'::text[] end,
  case when state in ('cancelled', 'discarded') then now() end,
  now() + case when state in ('scheduled', 'retryable') then interval '1 h' else interval '-1 h'
  end,
  case when state in ('retryable', 'discarded') then array[jsonb_build_object(
    'at', now(), 'attempt', 1, 'error', 'it broke <x>', 'trace', 'main.go:1')] end
from unnest(array['available', 'available', 'available', 'scheduled', 'retryable', 'retryable',
'pending',
  'cancelled', 'discarded', 'discarded']) with ordinality as s (state, n);
insert into river_job (args, kind, max_attempts, state, attempt, attempted_at, attempted_by)
values ('{}', 'report', 25, 'running', 1, now() - interval '1 m', '{worker_1}');
insert into river_job (args, kind, max_attempts, state, finalized_at, unique_key, unique_states)
values ('{}', 'invoice', 25, 'discarded', now() - interval '1 d', 'same', b'11110101'),
  ('{}', 'invoice', 25, 'available', null, 'same', b'11110101');
insert into river_job (args, kind, max_attempts, state, tags, priority, scheduled_at)
values ('{"customer": 7}', 'report', 25, 'scheduled', '{vip}', 3, now() + interval '1 d');
insert into river_queue (name, metadata, updated_at)
values ('default', '{}', now()), ('shipping', '{"keep": true}', now());
insert into river_periodic_job (id, next_run_at) values ('nightly', now() + interval '1 h');
insert into river_producer (client_id, queue_name, max_workers) values ('worker_1', 'default', 10);
insert into river_workflow values ('wf_1', 'import', 1);
insert into river_workflow_signal (workflow_id, attempt, key, payload)
values ('wf_1', 1, 'approval', '{"by": "ada"}')
"""
_DEAD = """
insert into riverui_dead_job (id, created_at, scheduled_at, finalized_at, attempt, max_attempts,
  priority, kind, queue, state, args, errors, metadata, tags)
select n, now(), now(), now() - interval '8 d', 25, 25, 1 + n % 4,
  case n when 110 then 'video_encode' else 'video_upload' end, 'video', 'discarded',
  '{"clip": 1970670598291982290}',
  array[jsonb_build_object('at', now(), 'attempt', 25, 'error', 'no space left', 'trace', '')],
  '{}', case n when 110 then '{vip}'::text[] else '{}' end
from generate_series(101, 125) n
"""
_TASKS: tuple[tuple[str, str, list[str], dict[str, Any]], ...] = (
    ("fetch", "completed", [], {}),
    ("check", "discarded", ["fetch"], {}),
    ("approve", "pending", ["fetch"], _WAITS),
    ("load", "pending", ["check", "approve"], {}),
)


async def fill(connection: AsyncConnection[Any]) -> None:
    """Fill an empty migrated database, with River Pro's tables and riverui's own."""
    await connection.execute(PRO_TABLES)
    await connection.execute(_FILL)
    await create(connection)
    await connection.execute(_DEAD)
    for name, state, deps, more in _TASKS:
        metadata = {"workflow_id": "wf_1", "task": name, "deps": deps, **more}
        await connection.execute(
            "insert into river_job (args, kind, max_attempts, state, metadata, finalized_at) values"
            " ('{}', 'import', 25, %s, %s,"
            " case when %s in ('completed', 'discarded') then now() - interval '1 d' end)",
            [state, json.dumps(metadata), state],
        )


async def fill_own(connection: AsyncConnection[Any]) -> None:
    """Fill an empty migrated database with a workflow in riverui's own tables."""
    await create(connection)
    await workflow(connection, DIAMOND, id="01JD_ORDER", name="Order 42")


async def picture(connection: AsyncConnection[Any]) -> dict[str, str]:
    """Return what the pages can change, by job, dead letter and queue: states, asked-for
    cancellations, pauses and limits.
    """
    jobs = await connection.execute(
        "select id, state::text || case when metadata ? 'cancel_attempted_at' then ', asked to"
        " stop' else '' end as what from river_job"
    )
    found = {f"job {row['id']}": row["what"] for row in await jobs.fetchall()}
    dead = await connection.execute("select id, kind from riverui_dead_job")
    found |= {f"dead letter {row['id']}": row["kind"] for row in await dead.fetchall()}
    queues = await connection.execute(
        "select name, case when paused_at is null then 'active' else 'paused' end"
        " || ' ' || metadata::text as what from river_queue"
    )
    return found | {f"queue {row['name']}": row["what"] for row in await queues.fetchall()}


def difference(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    """Return what changed, and into what; None is what is gone."""
    names = sorted(before.keys() | after.keys())
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}


_STEADY = ("id", "name", "kind", "state", "attempt", "args", "queue", "priority", "tags")
"""Fields of a row that are alike whenever it is asked for."""


def outline(answer: Any) -> Any:
    """Return what of an answer is alike whenever it is asked for: names, rows, messages, counts; no
    times.
    """
    if not isinstance(answer, dict):
        return type(answer).__name__
    if isinstance(data := answer.get("data"), list):
        return {
            "data": [
                row["id"] if isinstance(row, dict) and "id" in row else _name(row) for row in data
            ]
        }
    if "extensions" in answer or {"message", "status"} & answer.keys():
        return answer
    if all(isinstance(value, dict) and "accuracy" in value for value in answer.values()):
        return {state: found["count"] for state, found in answer.items()}
    return {"fields": sorted(answer)} | {name: answer[name] for name in _STEADY if name in answer}


def _name(row: Any) -> Any:
    return row.get("name") if isinstance(row, dict) else row
