"""What the statements of sequences may read of river_job: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.features.sequences.store import SequenceStore
from tests.storage.plan_case import PKEY, Call, Case


def cases() -> Mapping[str, Case]:
    """Return the cases by name."""
    some = list(range(1, 2000, 2))
    keys = [f"k{n}" for n in range(1, 501)]
    calls: dict[str, tuple[Call, set[str], int]] = {
        "sequences go on": (
            lambda x: SequenceStore(x).sequence_advance(keys),
            {PKEY},
            4 * 500 + 2 * 1000,
        ),
        "sequences looked at": (
            lambda x: SequenceStore(x).sequence_list_heads(after="", limit=500),
            {PKEY},
            500,
        ),
        "sequences of jobs": (lambda x: SequenceStore(x).sequence_key_get_many(some), {PKEY}, 1000),
        "a place in a sequence": (lambda x: SequenceStore(x).sequence_place(1001), {PKEY}, 8),
        "past a job of a sequence": (
            lambda x: SequenceStore(x).sequence_skip("k1", 1001),
            {PKEY},
            1,
        ),
        "back into sequences": (
            lambda x: SequenceStore(x).sequence_requeue([(key, 1001) for key in keys]),
            {PKEY},
            2 * 500,
        ),
        "retry into a sequence": (
            lambda x: x.jobs.retry_many(some, pending=True),
            {PKEY},
            4 * 1000,
        ),
    }
    return {
        name: Case(call=call, indexes=indexes, reads=reads)
        for name, (call, indexes, reads) in calls.items()
    }
