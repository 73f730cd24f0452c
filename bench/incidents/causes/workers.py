"""Clients that work too little: none, killed ones, paused queues, no leader, unknown kinds."""

from __future__ import annotations

from math import inf

from bench.incidents.background import Kind
from bench.incidents.case import Truth
from bench.incidents.world import Attempt, Job, World

UNKNOWN = "job kind is not registered in the client's Workers bundle: "


def busy_queue(world: World) -> str:
    """Return a queue that gets some jobs, if there is one."""
    pace = world.background.pace
    found = [queue for queue in world.background.queues if pace(queue) >= 0.5]
    return world.rng.choice(found or [max(world.background.queues, key=pace)])


def nobody_works(world: World) -> Truth | None:
    """Stop all clients of one queue in an orderly way; others go on."""
    queue = busy_queue(world)
    world.stops[queue] = (0.0, inf)
    if world.rng.random() < 0.5 and len(world.background.queues) > 1:
        # A program without this queue was deployed: heartbeats no longer report it.
        world.unserved.add(queue)
    background = world.background
    return Truth(
        causes=["nobody_works"],
        names=[queue],
        shown=lambda minutes: background.pace(queue) * minutes >= 3,
    )


def lost_client(world: World) -> Truth | None:
    """Kill one of several clients while it holds jobs."""
    background = world.background
    if len(background.clients) < 2:
        return None
    client = world.rng.choice(background.clients)
    queue = max(client.slots, key=background.pace, default=None)
    if queue is None:
        return None
    kind = max(background.of(queue), key=lambda kind: kind.rate)
    _killed(world, client.id, kind)
    if world.leader == client.id:
        world.leader = next(c.id for c in background.clients if c.id != client.id)
    # With heartbeats it would be found, and its jobs rescued, by the other clients of riverui:
    # the others are Go's.
    world.reports = {client.id} if background.reporting else set()
    slow = kind.run * 8
    left = {
        name: sum(c.slots.get(name, 0) for c in background.clients if c is not client)
        for name in client.slots
    }
    # It may be the only client of some queues.
    also = [] if all(left.values()) else ["nobody_works"]
    if any(background.load(name) > 0.8 * slots for name, slots in left.items()):
        # The others have too few slots without it.
        also += ["limits", "falling_behind"]
    return Truth(
        causes=["lost_client"],
        names=[client.id, client.id.split("_")[0]],
        also=also,
        shown=lambda minutes: minutes * 60 > slow and background.pace(queue) * minutes >= 5,
    )


def all_gone(world: World) -> Truth | None:
    """Kill all clients while they hold jobs."""
    queue = busy_queue(world)
    for client in world.background.clients:
        own = [name for name in client.slots if world.background.pace(name) >= 0.2]
        kinds = [kind for name in own for kind in world.background.of(name)]
        world.gone[client.id] = 0.0
        if kinds:
            _killed(world, client.id, max(kinds, key=lambda kind: kind.rate))
    background = world.background
    return Truth(
        causes=["nobody_works"],
        also=["lost_client", "leaderless"],
        shown=lambda minutes: background.pace(queue) * minutes >= 3,
    )


def _killed(world: World, client: str, kind: Kind) -> None:
    """Kill a client, which holds some jobs."""
    world.gone[client] = 0.0
    for _ in range(world.rng.randint(1, 6)):
        at = -world.rng.random() * min(kind.run, 5.0)
        job = Job(kind, at - 0.3, at - 0.3)
        job.attempts.append(Attempt(job.due, at, client))
        world.made.append(job)


def paused(world: World) -> Truth | None:
    """Pause one queue, or all of them, and forget it."""
    background, every = world.background, world.rng.random() < 0.3
    queue = busy_queue(world)
    for name in background.queues if every else [queue]:
        world.paused[name] = 0.0
        world.stops[name] = (0.0, inf)
    return Truth(
        causes=["paused"],
        names=[] if every else [queue],
        shown=lambda minutes: background.pace(queue) * minutes >= 2,
    )


def leaderless(world: World) -> Truth | None:
    """End the leader, and elect no client in its place: due jobs stay scheduled."""
    queue = busy_queue(world)
    world.leaderless = 0.0
    if world.rng.random() < 0.5:
        world.leader = None
    kind, rng = world.rng.choice(world.background.of(queue)), world.rng
    every = rng.uniform(3, 40)
    for n in range(int(3_000 / every)):
        due = -300 + n * every
        world.added.append(Job(kind, due - 300 - rng.random() * 600, due))
    for other in world.background.kinds:
        if other.every:
            # The leader inserts periodic jobs.
            world.rates[other.name] = ((0.0, inf), 0.0)
    return Truth(causes=["leaderless"], also=["periodic_stopped"])


def unknown_kind(world: World) -> Truth | None:
    """Work a kind no longer, since a deploy: its jobs wait, or fail with Go's clients."""
    background, rng = world.background, world.rng
    found = [kind for kind in background.kinds if kind.rate >= 0.5 and not kind.every]
    if not found:
        return None
    kind = rng.choice(found)
    if rng.random() < 0.35:
        error = f"{UNKNOWN}{kind.name}"
        world.fails[kind.name] = ((0.0, inf), 1.0, error)
        return Truth(
            causes=["unknown_kind", "failures", "deploy"],
            names=[kind.name],
            shown=lambda minutes: kind.rate * minutes >= 8,
        )
    world.untaken[kind.name] = 0.0
    alone = sum(other.rate for other in background.of(kind.queue) if other is not kind)
    also = ["nobody_works"] if alone < 1 else []
    return Truth(
        causes=["unknown_kind", *also],
        names=[kind.name, *([kind.queue] if also else [])],
        shown=lambda minutes: (
            kind.rate * minutes >= 3 and minutes > 1 and (alone * minutes >= 8 or bool(also))
        ),
    )


CAUSES = {
    "nobody_works": nobody_works,
    "lost_client": lost_client,
    "all_gone": all_gone,
    "paused": paused,
    "leaderless": leaderless,
    "unknown_kind": unknown_kind,
}
