"""The interpreter of processes that riverui runs by itself: its event loop and its garbage
collector.
"""

from __future__ import annotations

import gc
from asyncio import AbstractEventLoop
from collections.abc import Callable
from importlib.util import find_spec

_NEW_OBJECTS = 50_000
"""New objects between two looks of the garbage collector; Python's own 700 are a few jobs'."""


def loop_factory() -> Callable[[], AbstractEventLoop] | None:
    """Return uvloop's where it is installed, which it is but on Windows; None for Python's own."""
    if not find_spec("uvloop"):
        return None
    import uvloop

    factory: Callable[[], AbstractEventLoop] = uvloop.new_event_loop
    return factory


def spare_collector() -> None:
    """Let the collector look less often, and no more at what is there by now; for a program that is
    loaded.

    With thousands of jobs at work it would go through all of theirs every few hundred new objects,
    and take a fifth of the processor for it; the engine leaves it nothing to collect.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
