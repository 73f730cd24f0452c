"""What the statements by which clients keep to their own jobs may read: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from riverui.features.heartbeats.store import ClientLife, ClientStore, DeadClient
from riverui.storage.interface.engine_params import JobFetchParams, JobsAlike
from tests.storage.plan_case import FETCHING, FINALIZED, PKEY, Case


def client_cases(rows: int) -> Mapping[str, Case]:
    """Return the cases by name, for a table of so many jobs."""
    now = datetime.now(UTC)
    dead = DeadClient(
        life=ClientLife(id="worker_1", registered_at=now - timedelta(days=9)),
        host="",
        pid=0,
        silent_since=now,
        attempted_before=now,
    )
    some = list(range(1, 1001))
    alike = JobsAlike(kind="mail", window=5_000)
    return {
        "fetch for a batch": Case(
            call=lambda x: x.work.get_available(
                JobFetchParams("me", "default", 99, alike=alike._replace(kind="no such kind"))
            ),
            indexes={FETCHING, PKEY},
            reads=5_000 + 100,
        ),
        "fetch for a batch, by args": Case(
            call=lambda x: x.work.get_available(
                JobFetchParams(
                    "me",
                    "default",
                    99,
                    alike=alike._replace(args='{"customer": 3}', keys=("customer",)),
                )
            ),
            indexes={FETCHING, PKEY},
            reads=5_000 + 4 * 99 + 200,
        ),
        "complete at an attempt": Case(
            call=lambda x: x.work.complete_many(some, [now] * 1000, of_attempts=[1] * 1000),
            indexes={PKEY},
            reads=2 * 1000,
        ),
        "complete at attempts": Case(
            call=lambda x: x.work.complete_many(some, [now] * 1000, of_attempts=some),
            indexes={PKEY},
            reads=2 * 1000,
        ),
        "clients seen": Case(
            call=lambda x: ClientStore(x).client_seen_list(cap=2000, newest=500, held=5, limit=500),
            indexes={FETCHING, FINALIZED},
            reads=rows // 1000 + 60 + 2 * 500,
        ),
        "held jobs": Case(
            call=lambda x: ClientStore(x).job_get_held(dead, after_id=0, limit=50),
            indexes={FETCHING, PKEY},
            reads=rows // 1000 + 60,
        ),
        "first held job": Case(
            call=lambda x: ClientStore(x).job_first_held(dead, after_id=0),
            indexes={FETCHING},
            reads=rows // 1000 + 60,
        ),
    }
