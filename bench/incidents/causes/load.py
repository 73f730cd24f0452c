"""Queues that fall behind: floods, retries, slow kinds, hangs, overload."""

from __future__ import annotations

from math import inf

from bench.incidents.background import MINUTE, Kind
from bench.incidents.case import Truth
from bench.incidents.world import Job, World

_MOST_JOBS = 12_000
"""Jobs that an incident adds at most, so that a case stays small."""


def _kind(world: World) -> Kind:
    """Return a kind that comes often, if there is one."""
    kinds = [kind for kind in world.background.kinds if not kind.every]
    found = [kind for kind in kinds if kind.rate >= 1]
    return world.rng.choice(found or [max(kinds, key=lambda kind: kind.rate)])


def _resize(world: World, queue: str, slots: int) -> int:
    """Give a queue so many slots, on as few clients as that needs; return how many it has."""
    serving = [client for client in world.background.clients if queue in client.slots]
    each, more = divmod(slots, len(serving))
    for number, client in enumerate(serving):
        client.slots[queue] = each + (number < more)
        if not client.slots[queue]:
            del client.slots[queue]
    return slots


def _capacity(world: World, queue: str, kind: Kind) -> float:
    """Return how many further jobs of a kind a queue can work in a minute."""
    free = world.background.slots(queue) - world.background.load(queue)
    return max(free, 0.3) / kind.mean_run * MINUTE


def _tight(world: World, queue: str, kind: Kind, minutes: float) -> float:
    """Reduce the slots of a queue until working some thousand jobs takes so many minutes."""
    needed = world.background.load(queue)
    while (
        _capacity(world, queue, kind) * minutes > _MOST_JOBS / 2
        and world.background.slots(queue) > needed * 1.6 + 1
    ):
        _resize(world, queue, max(1, int(world.background.slots(queue) * 0.7)))
    return _capacity(world, queue, kind)


def retry_storm(world: World) -> Truth | None:
    """Let all jobs come back at once that failed while a partner was down."""
    kind = _kind(world)
    queue, rng, background = kind.queue, world.rng, world.background
    down, minutes = rng.uniform(30, 85), rng.uniform(20, 70)
    count = kind.rate * background.share_of_day(0) * down
    slots = max(1, round(background.load(queue) + count * kind.mean_run / MINUTE / minutes))
    if count < 30 or slots <= background.load(queue) * 1.1:
        return None
    _resize(world, queue, slots)
    error = rng.choice(("503 Service Unavailable", "ConnectionRefusedError: connect", "EOF"))
    world.fails[kind.name] = ((-down * MINUTE, 0.0), 0.97, error)
    # A partner that is down refuses at once.
    world.runs[kind.name] = lambda start, usual: (
        min(usual, 0.3) if -down * MINUTE <= start < 0 else usual
    )
    world.back = lambda job, end: rng.random() * 20 if end < 0 and job.kind is kind else 0.0
    drained = count / _capacity(world, queue, kind)
    return Truth(
        causes=["retry_storm"],
        names=[kind.name, queue],
        also=["failures", "deploy", "limits", "flood", "falling_behind"],
        shown=lambda at: at > 1,
        ends=drained * 0.7,
    )


def flood(world: World) -> Truth | None:
    """Insert very many jobs of one kind, at once or over a quarter of an hour."""
    kind = _kind(world)
    queue, rng = kind.queue, world.rng
    minutes = rng.uniform(20, 70)
    pace = _tight(world, queue, kind, minutes)
    count = int(min(max(pace * minutes, 60), _MOST_JOBS))
    # Within a quarter of an hour, if that is faster than they are worked.
    over = rng.choice((5.0, 60.0, 900.0 if count > 2 * pace * 15 else 5.0))
    for n in range(count):
        at = over * n / count
        world.added.append(Job(kind, at, at))
    return Truth(
        causes=["flood"],
        names=[kind.name],
        also=["limits", "falling_behind"],
        shown=lambda at: at > 1,
        ends=0.7 * count / max(pace, 0.1),
    )


def slow_kind(world: World) -> Truth | None:
    """Let the service that a kind calls answer late: its jobs hold every slot of the queue."""
    rng, background = world.rng, world.background
    seconds, excess = rng.uniform(25, 55), rng.uniform(1.3, 3)
    found = []
    for kind in background.kinds:
        wanted = kind.rate * background.share_of_day(0) * seconds / MINUTE
        slots = max(1, int(wanted / excess))
        if wanted > 1.2 and seconds > 6 * kind.run and background.load(kind.queue) < slots * 0.7:
            found.append((kind, slots))
    if not found:
        return None
    kind, slots = rng.choice(found)
    _resize(world, kind.queue, slots)
    world.runs[kind.name] = lambda start, usual: (
        usual if start < 0 else seconds * rng.uniform(0.8, 1.2)
    )
    return Truth(
        causes=["slow_kind"],
        names=[kind.name],
        also=["limits", "falling_behind"],
        shown=lambda minutes: kind.rate * minutes >= 3,
    )


def hang(world: World) -> Truth | None:
    """Let jobs of a kind never end: one slot after the other is lost."""
    kind = _kind(world)
    queue, rng = kind.queue, world.rng
    share = rng.choice((0.3, 1.0, 1.0))
    world.runs[kind.name] = lambda start, usual: (
        inf if start >= 0 and rng.random() < share else usual
    )
    slots = world.background.slots(queue)
    pace = kind.rate * world.background.share_of_day(0) * share
    if slots / pace > 10:
        slots = _resize(world, queue, max(1, int(pace * 4), int(world.background.load(queue) * 2)))
    return Truth(
        causes=["slow_kind", "hang"],
        names=[kind.name],
        also=["limits", "nobody_works", "falling_behind"],
        shown=lambda minutes: (
            world.hung(kind, minutes, longer=max(20 * kind.run, 90)) >= min(2, slots)
        ),
    )


def limits(world: World) -> Truth | None:
    """Let much more of everything come than a queue's clients can work."""
    return _overload(world, (1.3, 2.0), most=6.0)


def slow_drain(world: World) -> Truth | None:
    """Let a queue fall slowly behind: a little more comes than its clients can work, or they are a
    little slower than before.
    """
    return _overload(world, (1.1, 1.25), most=3.0, slower=world.rng.random() < 0.5)


def _overload(
    world: World, loads: tuple[float, float], *, most: float, slower: bool = False
) -> Truth | None:
    """Let up to `most` times as much come, or take so long, so that clients lack slots."""
    background, load = world.background, world.rng.uniform(*loads)
    usual = {queue: background.load(queue) for queue in background.queues}
    slots = {queue: max(1, int(1 + used * 1.1)) for queue, used in usual.items()}
    found = [queue for queue, used in usual.items() if load * slots[queue] <= most * used]
    if not found:
        return None
    queue = world.rng.choice(found)
    times = load * _resize(world, queue, slots[queue]) / usual[queue]
    for kind in background.of(queue):
        if slower:
            world.runs[kind.name] = lambda start, run: run if start < 0 else run * times
        elif not kind.every:
            world.rates[kind.name] = ((0.0, inf), times)
    return _behind(world, queue)


def _behind(world: World, queue: str) -> Truth:
    """Return the truth of a queue that gets more than its clients can work."""
    kinds = world.background.of(queue)
    most = max(kinds, key=lambda kind: kind.rate * kind.mean_run)
    pace = world.background.pace(queue)
    one = most.rate >= 0.5 * pace
    causes = ["limits", "falling_behind"]
    return Truth(
        causes=[*causes, *(["flood", "slow_kind"] if one else [])],
        names=[queue, *([most.name] if one else [])],
        also=["flood", "slow_kind"],
        shown=lambda minutes: world.waits(queue, minutes) >= 1.5 and pace * minutes >= 10,
    )


CAUSES = {
    "retry_storm": retry_storm,
    "flood": flood,
    "slow_kind": slow_kind,
    "hang": hang,
    "limits": limits,
    "slow_drain": slow_drain,
}
