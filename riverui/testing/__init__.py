"""Helpers for tests of programs that use River: store jobs in memory, check inserted jobs, work
jobs at once or one by one.

    async def test_signing_up(river):
        await sign_up(river, "ann@example.com")

        job = await require_inserted(river, SendWelcome, queue="mail", tags=["sign-up"])
        assert job.args.to == "ann@example.com"
        await require_not_inserted(river, SendInvoice)

    async def test_the_welcome_is_sent(river, outbox):
        result = await work(river, WelcomeWorker(outbox), SendWelcome(to="ann@example.com"))
        assert result.event == EventKind.JOB_COMPLETED

`river` is a fixture: a Client of a MemoryDatabase, which is empty at the beginning of each test and
needs no server. `sync_river` is a SyncClient of the same. They are enabled by
`pytest_plugins = ["riverui.testing"]` in a conftest.py, and use two fixtures that a project may
override: `river_database` and `river_config` (a ClientConfig). With another database (a URL, a
pool, a Driver) they are clients in a transaction that is rolled back when the test ends;
`rolled_back` is the same without pytest. An InlineClient works jobs where they are inserted, and
`drain` works all waiting jobs.

An expected job is a type of args, of which only the kind matters, or args, which must be equal. The
options `max_attempts`, `priority`, `queue`, `scheduled_at`, `state` and `tags` must all match.
`riverui.testing.sync` has the same for tests without asyncio.
"""

from __future__ import annotations

from riverui.engine.events import EventKind
from riverui.storage.sqlite.driver import MemoryDatabase
from riverui.testing.drain import DrainResult, drain
from riverui.testing.expectations import (
    Expected,
    Options,
    require_inserted,
    require_inserted_tx,
    require_many_inserted,
    require_many_inserted_tx,
    require_not_inserted,
    require_not_inserted_tx,
)
from riverui.testing.inline import InlineClient, InlineSyncClient
from riverui.testing.transaction import rolled_back
from riverui.testing.working import (
    WorkContext,
    WorkResult,
    resumable_step_after,
    resumable_step_at_cursor,
    work,
    work_context,
    work_tx,
)

__all__ = [
    "DrainResult",
    "EventKind",
    "Expected",
    "InlineClient",
    "InlineSyncClient",
    "MemoryDatabase",
    "Options",
    "WorkContext",
    "WorkResult",
    "drain",
    "require_inserted",
    "require_inserted_tx",
    "require_many_inserted",
    "require_many_inserted_tx",
    "require_not_inserted",
    "require_not_inserted_tx",
    "resumable_step_after",
    "resumable_step_at_cursor",
    "rolled_back",
    "work",
    "work_context",
    "work_tx",
]

try:
    from riverui.testing.fixtures import (
        river as river,
        river_config as river_config,
        river_database as river_database,
        sync_river as sync_river,
    )
except ModuleNotFoundError as error:
    # The fixtures need pytest.
    if error.name != "pytest":
        raise
