"""How many connections a process can hold open: each is a file to the system."""

from __future__ import annotations

import contextlib
import logging
import resource

log = logging.getLogger("riverui")

_OWN = 160
"""Files besides the connections that are served: those that are told that there are too many, the
database's, the listening socket, the log.
"""


def connections_possible(wanted: int) -> int:
    """Return how many connections there can be at most, up to `wanted`.

    Raises this process's own limit of open files as far as the system lets it. Logs a warning where
    that is not enough.
    """
    needed = wanted + _OWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        # Some systems allow less than they say.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    possible = max(1, soft - _OWN)
    log.warning(
        "connections at once are limited to %d, not %d: the limit of open files is %d",
        possible,
        wanted,
        soft,
    )
    return possible
