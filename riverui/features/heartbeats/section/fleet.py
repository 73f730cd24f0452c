"""The clients of a database, as far as it tells: by their signs of life, and by the jobs they
took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from riverui.domain.time import LAST
from riverui.errors import DatabaseError
from riverui.features.heartbeats.store import ClientRow, ClientStore, SeenClient
from riverui.storage.interface import SQL, Driver, Executor
from riverui.storage.tables import installed
from riverui.web.view.facts import fact

MOST_CLIENTS = 500
"""Clients that are shown; more could not be looked at."""
RUNNING_CAP = 2_000
"""Running jobs that are looked at for who holds them."""
_HELD = 5
"""Jobs of each client that are named."""
_NEWEST = 500
"""Completed jobs that are looked at for who worked them: those of the last seconds of a busy fleet,
of the last hours of a quiet one.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """What is known of clients."""

    living: Sequence[ClientRow]
    """Those that give signs of life, or should; silent ones first, the others by host and id."""
    dead: Sequence[ClientRow]
    """Those declared dead, the latest first."""
    held: Mapping[str, SeenClient]
    """What jobs tell of all clients, by id."""
    seen: Sequence[SeenClient]
    """Those that only jobs tell of, by id."""
    capped: bool
    """Whether more jobs run than were looked at."""
    has_table: bool
    """Whether there is a table for signs of life."""
    problem: DatabaseError | None
    """Why something of this could not be read."""

    def holding(self, row: ClientRow) -> SeenClient | None:
        """Return what jobs tell of this life of a client: one that was killed and started again
        under its old id has two, until the first is declared dead.
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
        return replace(client, running=len(jobs), held=jobs)


async def read(driver: Driver) -> Fleet | None:
    """Return the clients; None where the driver cannot tell."""
    if SQL not in driver.capabilities:
        return None
    rows = await fact(driver, _rows)
    told = await fact(
        driver,
        lambda x: ClientStore(x).client_seen_list(
            cap=RUNNING_CAP, newest=_NEWEST, held=_HELD, limit=MOST_CLIENTS
        ),
    )
    known: Sequence[ClientRow] = () if rows is None or isinstance(rows, DatabaseError) else rows
    by_jobs: Sequence[SeenClient] = () if isinstance(told, DatabaseError) else told
    ids = {row.id for row in known}
    living = [row for row in known if row.declared_dead_at is None]
    return Fleet(
        living=[
            # The longest silent come first already.
            *(row for row in living if row.silent),
            *sorted((row for row in living if not row.silent), key=lambda row: (row.host, row.id)),
        ],
        dead=[row for row in known if row.declared_dead_at is not None],
        held={client.id: client for client in by_jobs},
        seen=[client for client in by_jobs if client.id not in ids],
        capped=sum(client.running for client in by_jobs) >= RUNNING_CAP,
        has_table=rows is not None,
        problem=next((each for each in (rows, told) if isinstance(each, DatabaseError)), None),
    )


async def _rows(executor: Executor) -> Sequence[ClientRow] | None:
    """Return the rows of clients; None where there is no table for them, which is asked first: a
    statement that fails would be in the server's log with every refresh.
    """
    if not await installed(executor):
        return None
    return await ClientStore(executor).client_list(limit=MOST_CLIENTS)
