"""What the statements of waits may read from river_job: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from riverui.features.workflows.waits.store import WaitRow, WaitStore, WaitUpdate
from tests.storage.plan_case import PKEY, Case

_LOOKED_AT = 100
"""Waits that are written at once: the tasks of the workflow `waits` of workflow_plans."""


def cases() -> Mapping[str, Case]:
    """Return the cases by name."""
    now = datetime.now(UTC)
    rows = [
        WaitRow("waits", f"task-{n}", 50_000 + n, "wait", "{}", "{}", 0, now)
        for n in range(1, _LOOKED_AT + 1)
    ]
    updates = [WaitUpdate(row, '{"attempt": 1}', now, '{"started_at": "x"}') for row in rows]
    names = [(row.workflow_id, row.name) for row in rows]
    calls = {
        "what was found of waits": lambda x: WaitStore(x).workflow_wait_update_many(updates),
        "facts of waits": lambda x: WaitStore(x).workflow_wait_facts(names),
        "dependencies of waits": lambda x: WaitStore(x).workflow_wait_dep_list(names),
    }
    return {
        name: Case(call=call, indexes={PKEY}, reads=2 * _LOOKED_AT) for name, call in calls.items()
    }
