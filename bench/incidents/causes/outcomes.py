"""Jobs that fail, kill their clients, or no longer come."""

from __future__ import annotations

from math import inf

from bench.incidents.background import MINUTE
from bench.incidents.case import Truth
from bench.incidents.world import Attempt, Job, World

_BUGS = (
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "KeyError: 'customer_id'",
    "runtime error: invalid memory address or nil pointer dereference",
    'pq: column "tenant_id" does not exist',
    "PermissionDenied: access token expired",
)


def failures(world: World) -> Truth | None:
    """Let a kind begin to fail."""
    return _fails(world, ["failures"])


def deploy(world: World) -> Truth | None:
    """Let a kind begin to fail with a deploy, which is marked."""
    version = f"v{world.rng.randint(1, 9)}.{world.rng.randint(0, 40)}.{world.rng.randint(0, 9)}"
    world.marks.append((-world.rng.random() * 60, version))
    # Without marks, which are rows of riverui, it can only be told that failures rise.
    return _fails(world, ["deploy"], alone=["deploy", "failures"])


def _fails(world: World, causes: list[str], alone: list[str] | None = None) -> Truth | None:
    found = [kind for kind in world.background.kinds if kind.rate >= 0.5]
    if not found:
        return None
    kind = world.rng.choice(found)
    usual = kind.rate * world.background.share_of_day(0) * kind.failing
    share = world.rng.choice((0.3, 0.5, 0.8, 1.0, 1.0))
    world.fails[kind.name] = ((0.0, inf), share, world.rng.choice(_BUGS))
    return Truth(
        causes=causes,
        alone=alone or causes,
        names=[kind.name],
        also=["retry_storm", "limits"],
        shown=lambda minutes: world.failed(kind, minutes) - usual * minutes >= 5,
    )


def poison_job(world: World) -> Truth | None:
    """Let one job kill every client that takes it, and be rescued again and again."""
    background, rng = world.background, world.rng
    kind = rng.choice(background.kinds)
    every = rng.uniform(1.2, 4) * MINUTE
    job = Job(kind, -1.0, -1.0)
    counted = rng.random() < 0.7
    crashes = int(45 * MINUTE / every)
    for number in range(crashes):
        start = number * every + 0.2
        attempt = Attempt(start - 0.2, start, rng.choice(background.clients).id)
        attempt.end = start + every * 0.8
        attempt.error, attempt.state = "Stuck job rescued by Rescuer", "retryable"
        job.attempts.append(attempt)
    job.due = job.moved = inf
    if counted:
        job.rescued = True
    world.made.append(job)
    return Truth(
        causes=["poison_job"],
        job=job,
        also=["lost_client"],
        shown=lambda minutes: minutes * MINUTE >= 1.8 * every,
    )


def periodic_stopped(world: World) -> Truth | None:
    """Insert a periodic kind no longer, as if a deploy forgot it."""
    found = [kind for kind in world.background.kinds if kind.every]
    if not found:
        return None
    kind = world.rng.choice(found)
    world.rates[kind.name] = ((0.0, inf), 0.0)
    return Truth(
        causes=["periodic_stopped"],
        names=[kind.name],
        shown=lambda minutes: minutes * MINUTE >= 3 * kind.every,
    )


CAUSES = {
    "failures": failures,
    "deploy": deploy,
    "poison_job": poison_job,
    "periodic_stopped": periodic_stopped,
}
