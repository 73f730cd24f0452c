"""What the statements of dead letters may read of river_job: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from riverui.features.dead_letters.store import DeadJobListParams, DeadLetterStore
from riverui.storage.interface.engine_params import JobDeleteBeforeParams
from tests.storage.plan_case import FINALIZED, PKEY, Call, Case


def cases() -> Mapping[str, Case]:
    """Return the cases by name."""
    now = datetime.now(UTC)
    some = list(range(1, 2000, 2))
    old = JobDeleteBeforeParams(
        cancelled_before=now, completed_before=now, discarded_before=now, limit=1000
    )
    calls: dict[str, tuple[Call, set[str], int]] = {
        "clean and keep": (
            lambda x: DeadLetterStore(x).dead_job_move_before(old),
            {FINALIZED, PKEY},
            4 * 1000,
        ),
        "keep what is deleted": (
            lambda x: DeadLetterStore(x).dead_job_keep_many(some, user="ops"),
            {PKEY},
            4 * 1000,
        ),
        "what was deleted": (
            lambda x: DeadLetterStore(x).dead_job_deleted_list(now, user="ops", limit=50),
            set(),
            0,
        ),
        "deleted jobs back": (lambda x: DeadLetterStore(x).dead_job_undo_many([1, 2, 3]), set(), 0),
        "count dead letters": (
            lambda x: DeadLetterStore(x).dead_job_count(DeadJobListParams(kind="k", error="boom")),
            set(),
            0,
        ),
        "dead letters back": (
            lambda x: DeadLetterStore(x).dead_job_restore_many([1, 2, 3]),
            set(),
            0,
        ),
    }
    return {
        name: Case(call=call, indexes=indexes, reads=reads)
        for name, (call, indexes, reads) in calls.items()
    }
