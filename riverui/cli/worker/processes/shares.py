"""How processes share the jobs that may run at once."""

from __future__ import annotations

from collections.abc import Mapping


def share(slots: Mapping[str, int], processes: int, number: int) -> dict[str, int]:
    """Return how many of each queue's slots the process with this number has, from 1 on; queues of
    which it has none are left out.

    All shares together are the slots. They are dealt in turn, queue after queue, so that several
    queues with few slots are worked by different processes.
    """
    dealt, first = {}, 0
    for name, count in sorted(slots.items()):
        each, rest = divmod(count, processes)
        mine = each + ((number - 1 - first) % processes < rest)
        if mine:
            dealt[name] = mine
        first += rest
    return dealt
