"""The clients of a database, as far as known from their heartbeats and from the jobs they took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from riverui.domain.time import LAST
from riverui.errors import DatabaseError
from riverui.features.heartbeats.store import ClientRow, ClientStore, SeenClient
from riverui.storage.interface import Driver, Executor
from riverui.web.view.facts import fact

MOST_CLIENTS = 500
"""Clients that are shown: more than a person can look through."""
RUNNING_CAP = 2_000
"""Running jobs that are read to find the clients that hold them."""
_HELD = 5
"""Jobs of each client that are named."""
_NEWEST = 500
"""Completed jobs that are read to find the clients that worked them: the last seconds of a busy
fleet, the last hours of a quiet one.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """The known clients."""

    living: Sequence[ClientRow] = ()
    """Clients that send heartbeats, or should; silent ones first, the others by host and id."""
    dead: Sequence[ClientRow] = ()
    """Clients declared dead, the latest first."""
    held: Mapping[str, SeenClient] = field(default_factory=dict)
    """Every client with jobs, by id, as known from `attempted_by`."""
    seen: Sequence[SeenClient] = ()
    """Clients known only from `attempted_by`, by id."""
    capped: bool = False
    """Whether more jobs run than were read."""
    has_table: bool = False
    """Whether the table of heartbeats exists."""
    problem: DatabaseError | None = None
    """The error of a part that could not be read."""

    def holding(self, row: ClientRow) -> SeenClient | None:
        """Return the jobs held by this life of a client: one that was killed and started again
        under its old id has two lives until the first is declared dead.
        """
        client = self.held.get(row.id)
        begun = sorted(each.registered_at for each in self.living if each.id == row.id)
        if client is None or len(begun) < 2:
            return client
        until = next((at for at in begun if at > row.registered_at), LAST)
        jobs = [
            job
            for job in client.held
            if job.attempted_at and row.registered_at <= job.attempted_at < until
        ]
        kinds = Counter(job.kind for job in jobs)
        return replace(client, running=len(jobs), held=jobs, held_kinds=kinds)


async def read(driver: Driver) -> Fleet:
    """Return the clients."""
    rows = await fact(driver, _rows)
    seen = await fact(
        driver,
        lambda x: ClientStore(x).client_seen_list(
            cap=RUNNING_CAP, newest=_NEWEST, held=_HELD, limit=MOST_CLIENTS
        ),
    )
    known: Sequence[ClientRow] = () if rows is None or isinstance(rows, DatabaseError) else rows
    by_jobs: Sequence[SeenClient] = () if isinstance(seen, DatabaseError) else seen
    ids = {row.id for row in known}
    living = [row for row in known if row.declared_dead_at is None]
    return Fleet(
        living=[
            # The rows come with the longest silent first.
            *(row for row in living if row.silent),
            *sorted((row for row in living if not row.silent), key=lambda row: (row.host, row.id)),
        ],
        dead=[row for row in known if row.declared_dead_at is not None],
        held={client.id: client for client in by_jobs},
        seen=[client for client in by_jobs if client.id not in ids],
        capped=sum(client.running for client in by_jobs) >= RUNNING_CAP,
        has_table=rows is not None,
        problem=next((each for each in (rows, seen) if isinstance(each, DatabaseError)), None),
    )


async def _rows(executor: Executor) -> Sequence[ClientRow] | None:
    """Return the rows of clients; None without their table. That is checked first, as a failing
    statement would be in the server's log with every refresh.
    """
    if not await ClientStore.installed(executor):
        return None
    return await ClientStore(executor).client_list(limit=MOST_CLIENTS)
