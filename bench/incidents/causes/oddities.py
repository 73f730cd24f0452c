"""Odd and healthy: nobody needs to be woken for any of these."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from bench.incidents.background import MINUTE, Background, Client, Kind
from bench.incidents.world import Job, World


def healthy(world: World) -> None:
    """Let nothing happen."""


def quiet_night(world: World) -> None:
    """Let three jobs come in an hour, as every night; one of them fails at first."""
    kind = world.background.kinds[0]
    for at in (-2_500.0, -1_700.0, -400.0, 900.0):
        world.added.append(Job(kind, at, at))
    world.fails[kind.name] = ((-401.0, -398.0), 1.0, "Timeout: read timed out")


def _quiet(background: Background) -> None:
    for kind in background.kinds:
        kind.rate, kind.every, kind.failing = 0.02 / len(background.kinds), 0.0, 0.0


def weekly_batch(world: World) -> None:
    """Insert some hundred jobs of a weekly kind, which take a few minutes."""
    queue = "batches"
    kind = Kind(name="weekly_statement", queue=queue, rate=1e-9, run=1.5, spread=0.3)
    slots = world.rng.randint(2, 6)
    world.background.clients[0].slots[queue] = slots
    world.background.kinds.append(kind)
    count = int(slots * world.rng.uniform(60, 240) / kind.mean_run)
    world.added += [Job(kind, n * 0.01, n * 0.01) for n in range(count)]


def failing_kind(world: World) -> None:
    """Have a kind that always fails in 30 % of its attempts."""


def _failing(background: Background) -> None:
    kind = max(background.kinds, key=lambda kind: kind.rate)
    kind.failing = 0.3


def scheduled_backlog(world: World) -> None:
    """Schedule some thousand jobs for later."""
    kind = world.rng.choice(world.background.kinds)
    for n in range(3_000):
        world.added.append(Job(kind, n * 0.02, 4 * 3_600 + n * 7.0))


def mass_cancel(world: World) -> None:
    """Cancel some hundred scheduled jobs."""
    kind = world.rng.choice(world.background.kinds)
    for n in range(600):
        job = Job(kind, -1_500 + n * 0.1, 5_000.0 + n)
        job.cancelled = 20 + n * 0.05
        world.added.append(job)


def good_deploy(world: World) -> None:
    """Replace all clients by new ones, one after the other, without trouble."""
    background = world.background
    world.marks.append((0.0, "v2.0.1"))
    for n, old in enumerate(list(background.clients)):
        new = Client(id=f"{old.id[:-2]}77", slots=dict(old.slots))
        background.clients.append(new)
        world.ended[old.id] = 8.0 + 20 * n
        world.started[new.id] = 10.0 + 20 * n
    world.leader = background.clients[-1].id


def slow_hour(world: World) -> None:
    """Let everything take 1.6 times as long for a while, while nothing waits."""
    for kind in world.background.kinds:
        world.runs[kind.name] = lambda start, usual: usual * (1.0 if start < 0 else 1.6)
    for client in world.background.clients:
        client.slots = {queue: 2 * slots for queue, slots in client.slots.items()}


def burst(world: World) -> None:
    """Let a burst come, which is worked within two minutes."""
    kind = max(world.background.kinds, key=lambda kind: kind.rate)
    free = world.background.slots(kind.queue) - world.background.load(kind.queue)
    count = int(min(2_000, free / kind.mean_run * world.rng.uniform(30, 120)))
    world.added += [Job(kind, n * 0.005, n * 0.005) for n in range(count)]


def empty_paused_queue(world: World) -> None:
    """Pause a queue for which no job comes any more."""
    queue = "retired"
    world.background.kinds.append(Kind(name="old", queue=queue, rate=1e-9, run=1.0, spread=0.3))
    world.paused[queue] = -10 * MINUTE
    world.stops[queue] = (-10 * MINUTE, inf)


def new_kind(world: World) -> None:
    """Let a kind begin to come that never came before."""
    queue = world.rng.choice(world.background.queues)
    kind = Kind(name="brand_new_thing", queue=queue, rate=1e-9, run=0.4, spread=0.5, failing=0.02)
    world.background.kinds.append(kind)
    for n in range(200):
        at = n * 13.0
        world.added.append(Job(kind, at, at))


def busy_morning(world: World) -> None:
    """Let twice as much come, and be worked as it comes."""
    for kind in world.background.kinds:
        if not kind.every:
            world.rates[kind.name] = ((0.0, inf), 2.0)
    for client in world.background.clients:
        client.slots = {queue: 4 * slots for queue, slots in client.slots.items()}


def lunch_break(world: World) -> None:
    """Let nothing but periodic jobs come for a while."""
    for kind in world.background.kinds:
        if not kind.every:
            world.rates[kind.name] = ((0.0, inf), 0.0)


def scaled_down(world: World) -> None:
    """Stop one of several clients in an orderly way; the others have slots enough."""
    clients = world.background.clients
    if len(clients) > 1:
        world.ended[clients[-1].id] = 0.0
        for client in clients[:-1]:
            client.slots = {
                queue: 3 * max(client.slots.get(queue, 1), clients[-1].slots.get(queue, 1))
                for queue in {*client.slots, *clients[-1].slots}
            }
        world.leader = clients[0].id


def long_runs(world: World) -> None:
    """Have a kind whose jobs run for half an hour, as always."""


def _long(background: Background) -> None:
    background.kinds.append(
        Kind(name="video_render", queue="video", rate=0.1, run=1_500, spread=0.2, longest=2_400)
    )
    background.clients[0].slots["video"] = 6


def stray_failures(world: World) -> None:
    """Let jobs fail for some seconds with an error not seen before."""
    kind = max(world.background.kinds, key=lambda kind: kind.rate)
    world.fails[kind.name] = ((0.0, 8.0), 1.0, "OSError: disk is full")


ODDITIES: dict[str, Callable[[World], None]] = {
    play.__name__: play
    for play in (
        healthy,
        quiet_night,
        weekly_batch,
        failing_kind,
        scheduled_backlog,
        mass_cancel,
        good_deploy,
        slow_hour,
        burst,
        empty_paused_queue,
        new_kind,
        busy_morning,
        lunch_break,
        scaled_down,
        long_runs,
        stray_failures,
    )
}

BEFORE: dict[str, Callable[[Background], None]] = {
    "quiet_night": _quiet,
    "failing_kind": _failing,
    "long_runs": _long,
}
"""What of an oddity has always been so, by its name."""
