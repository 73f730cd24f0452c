"""Values and fragments of the statements that read the jobs that a client may fetch."""

from __future__ import annotations

from typing import Any

from riverui.domain.time import FIRST
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.interface.sql_blocks import EMPTY, Fragment
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_rows import excepted


def which(params: JobFetchParams) -> dict[str, Any]:
    """Return the values of the conditions on the jobs."""
    values = {
        "queue": params.queue,
        "now": params.now,
        "kinds": array_literals.texts(params.kinds or ()),
        "except_ids": array_literals.numbers(params.except_ids),
    }
    if params.after is not None:
        values["after_at"] = array_literals.instants(
            [None if place.scheduled_at == FIRST else place.scheduled_at for place in params.after]
        )
        values["after_ids"] = array_literals.numbers([place.id for place in params.after])
    return values


def of_kinds(params: JobFetchParams) -> dict[str, Fragment]:
    """Return the fragment for the slot `kinds`."""
    return {"kinds": EMPTY} if params.kinds is None else {}


def in_order(params: JobFetchParams, **after: Fragment) -> dict[str, Fragment]:
    """Return the fragments of a block that reads jobs in their order. If it does not begin at the
    beginning, `job_after` with the slots `after` is in its slot `jobs`.
    """
    slots = {**of_kinds(params), **excepted(params.except_ids)}
    return slots if params.after is None else {"jobs": Fragment("job_after", **slots, **after)}
