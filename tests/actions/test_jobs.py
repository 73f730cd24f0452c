"""The verbs on chosen jobs: what changes, what is skipped and why; one bad id never fails the
rest.
"""

from __future__ import annotations

from riverui.actions import jobs
from riverui.actions.job_verbs import RETRY
from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import SkipReason
from tests.factory import Make

UNIQUE = {"unique_key": b"k" * 32, "unique_states": "11110101"}


async def state_of(make: Make, job_id: int) -> str | None:
    row = await (
        await make.execute("select state::text from river_job where id = %s", [job_id])
    ).fetchone()
    return row["state"] if row else None


async def test_retry_skips_jobs_whose_unique_key_is_taken(driver: Driver, make: Make) -> None:
    plain = [await make.job("discarded") for _ in range(5)]
    await make.job("available", **UNIQUE)
    conflicting = await make.job("discarded", **UNIQUE)
    more = [await make.job("cancelled") for _ in range(6)]

    changes = await jobs.apply(driver, RETRY, [*plain, conflicting, *more], pilot=plain_pilot())
    assert sorted(changes.changed) == sorted(plain + more)
    assert changes.skipped == ((conflicting, SkipReason.UNIQUE_CONFLICT),)
    assert await state_of(make, conflicting) == "discarded"
    assert await state_of(make, more[-1]) == "available"


async def test_of_two_twins_only_one_is_retried(driver: Driver, make: Make) -> None:
    twins = [await make.job("discarded", **UNIQUE) for _ in range(2)]
    changes = await jobs.apply(driver, RETRY, twins, pilot=plain_pilot())
    assert len(changes.changed) == 1
    assert [reason for _, reason in changes.skipped] == [SkipReason.UNIQUE_CONFLICT]
