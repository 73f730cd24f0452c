"""The database: locks, and transactions that stay open."""

from __future__ import annotations

from bench.incidents.case import Truth
from bench.incidents.world import World

_SESSIONS = ("psql", "backfill.py", "rails console", "pg_dump", "metabase")


def blocked(world: World) -> Truth | None:
    """Keep a lock on River's jobs: nothing is inserted, fetched or completed."""
    world.frozen = 0.0
    world.locks = world.rng.choice(_SESSIONS)
    return Truth(
        causes=["blocked"],
        names=[world.locks],
        also=["nobody_works", "long_transaction", "periodic_stopped", "leaderless"],
    )


def long_transaction(world: World) -> Truth | None:
    """Leave a transaction open, so that Postgres cannot clean up."""
    world.idle = world.rng.choice(_SESSIONS)
    return Truth(
        causes=["long_transaction"],
        names=[world.idle],
        shown=lambda minutes: minutes >= 15,
    )


CAUSES = {"blocked": blocked, "long_transaction": long_transaction}
