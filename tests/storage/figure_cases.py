"""What figures read of a busy day, for the tests of plans: by which index, and how many rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from riverui.features.figures.store import JobFigures
from tests.storage.plan_case import FETCHING, FINALIZED, PKEY, Call, Case


def figure_cases() -> dict[str, Case]:
    """Return the calls by name. Ten minutes have 1,500 jobs."""
    ago = datetime.now(UTC) - timedelta(hours=3)
    minutes = [(ago + timedelta(minutes=n), ago + timedelta(minutes=n + 1)) for n in range(10)]
    seconds = [(since, since + timedelta(seconds=1)) for since, _ in minutes]
    calls: dict[str, tuple[Call, set[str], int]] = {
        "figures: clock": (lambda x: JobFigures(x).figure_clock_get(), {PKEY}, 1),
        "figures: ended": (
            lambda x: JobFigures(x).job_ended_tally_list(minutes),
            {FINALIZED},
            1500,
        ),
        "figures: ended, sampled": (
            lambda x: JobFigures(x).job_ended_tally_list(seconds),
            {FINALIZED},
            60,
        ),
        "figures: failed and ended": (
            lambda x: JobFigures(x).job_ended_failure_list(minutes),
            {FINALIZED},
            1500,
        ),
        "figures: failed and going on": (
            lambda x: JobFigures(x).job_unfinished_failure_list(ago, cap=5000),
            {FETCHING},
            5000 + 200 + 200,
        ),
        "figures: inserted": (
            lambda x: JobFigures(x).job_inserted_tally_list(upto=200_000, since=ago, limit=1000),
            {PKEY},
            1000,
        ),
        # Each queue is counted, its oldest job found in four priorities, and the next one looked
        # for.
        "figures: waiting": (
            lambda x: JobFigures(x).queue_waiting_list(now=ago, cap=500),
            {FETCHING},
            6 * (500 + 4 + 4),
        ),
        "figures: pace": (
            lambda x: JobFigures(x).job_completed_pace_get(ago, most=500),
            {FINALIZED},
            500,
        ),
        "figures: first completed": (
            lambda x: JobFigures(x).job_first_completed_at(ago),
            {FINALIZED},
            1,
        ),
    }
    return {
        name: Case(call=call, indexes=indexes, reads=reads)
        for name, (call, indexes, reads) in calls.items()
    }
