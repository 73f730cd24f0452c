"""Workflows for tests, written as the engine leaves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import AsyncConnection

from tests import factory

_ENDED = ("cancelled", "completed", "discarded")
_FILL_FAN = """
with made as (
  select n, case when n = 0 then 'split' when n = %(pages)s + 1 then 'join' else 'page' end as kind,
    case when n = 0 then 'completed' when n = %(pages)s + 1 then 'pending'
      when n %% 997 = 0 then 'discarded' when n <= %(pages)s * 0.8 then 'completed'
      when n <= %(pages)s * 0.81 then 'running' else 'available' end as state
  from generate_series(0, %(pages)s + 1) n
), jobs as (
  insert into river_job (args, kind, max_attempts, state, metadata, attempt, attempted_at,
    finalized_at)
  select '{}', m.kind, 25, m.state::river_job_state,
    jsonb_build_object('workflow_id', %(id)s::text, 'deps', '[]'::jsonb, 'task',
      case when m.kind = 'page' then 'page-' || lpad(m.n::text, 4, '0') else m.kind end), 1,
    case when m.state not in ('pending', 'available') then now() - m.n * interval '10 ms' end,
    case when m.state in ('completed', 'discarded') then now() end
  from made m
  returning id, state::text as state, kind, metadata->>'task' as name
), tasks as (
  insert into riverui_workflow_task
    (workflow_id, name, job_id, waits_for, state, staged_at, ended_at)
  select %(id)s, j.name, j.id, case when j.name = 'join' then %(pages)s else 0 end,
    case when j.state = 'pending' then 'waiting'
      when j.state in ('completed', 'discarded') then j.state else 'staged' end,
    case when j.state <> 'pending' then now() - interval '1 minute' end,
    case when j.state in ('completed', 'discarded') then now() end
  from jobs j
), edges as (
  insert into riverui_workflow_edge (workflow_id, dependency, task)
  select %(id)s, 'split', j.name from jobs j where j.kind = 'page'
  union all
  select %(id)s, j.name, 'join' from jobs j where j.kind = 'page'
)
insert into riverui_workflow (id, name, open) values (%(id)s, %(name)s, 1)
"""


async def workflow(
    connection: AsyncConnection[Any],
    tasks: Mapping[str, tuple[str, Sequence[str]]],
    *,
    id: str = "01JD0000000000000000000001",
    name: str = "",
    columns: Mapping[str, Any] | None = None,
    jobs: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, int]:
    """Insert a workflow whose tasks have these states and dependencies, by name; return the ids of
    their jobs. `columns` are more of the workflow's row, `jobs` of the jobs' by task.
    """
    now, made = datetime.now(UTC), {}
    is_open = sum(state not in _ENDED for state, _ in tasks.values())
    row: dict[str, Any] = {
        "id": id,
        "name": name,
        "open": is_open,
        "created_at": now - timedelta(minutes=5),
        "ended_at": None if is_open else now,
        **(columns or {}),
    }
    await connection.execute(
        "insert into riverui_workflow (id, name, open, created_at, ended_at, attempt, cancelled_at,"
        " retried_at) values (%s, %s, %s, %s, %s, %s, %s, %s)",
        [
            row["id"],
            row["name"],
            row["open"],
            row["created_at"],
            row["ended_at"],
            row.get("attempt", 1),
            row.get("cancelled_at"),
            row.get("retried_at"),
        ],
    )
    for task, (state, deps) in tasks.items():
        metadata = {"riverui:workflow": {}, "workflow_id": id, "task": task, "deps": list(deps)}
        if name:
            metadata["workflow_name"] = name
        more: Mapping[str, Any] = (jobs or {}).get(task, {})
        made[task] = await factory.job(
            connection, state, **{"kind": "step", "metadata": metadata, **more}
        )
        left = sum(tasks[dep][0] != "completed" for dep in deps if dep in tasks)
        kept = "waiting" if state == "pending" else state if state in _ENDED else "staged"
        await connection.execute(
            "insert into riverui_workflow_task (workflow_id, name, job_id, waits_for, state,"
            " staged_at, ended_at) values (%s, %s, %s, %s, %s, %s, %s)",
            [
                id,
                task,
                made[task],
                left,
                kept,
                None if kept == "waiting" else now - timedelta(minutes=4),
                now if kept in _ENDED else None,
            ],
        )
        for dep in deps:
            await connection.execute(
                "insert into riverui_workflow_edge (workflow_id, dependency, task)"
                " values (%s, %s, %s)",
                [id, dep, task],
            )
    return made


DIAMOND: Mapping[str, tuple[str, Sequence[str]]] = {
    "read": ("completed", ()),
    "charge": ("completed", ("read",)),
    "pack": ("running", ("read",)),
    "ship": ("pending", ("charge", "pack")),
}
"""Four tasks, one of them running."""


async def fan(
    connection: AsyncConnection[Any], pages: int, *, id: str = "01JD_fan", name: str = ""
) -> None:
    """Insert a workflow of so many like tasks between one that splits and one that joins."""
    await connection.execute(_FILL_FAN, {"pages": pages, "id": id, "name": name})
