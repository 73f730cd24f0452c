"""Event loop and garbage collector of processes that riverui runs by itself."""

from __future__ import annotations

import gc
from asyncio import AbstractEventLoop
from collections.abc import Callable
from importlib.util import find_spec

_NEW_OBJECTS = 50_000
"""New objects between two garbage collections; Python's default of 700 is a few jobs' worth."""


def loop_factory() -> Callable[[], AbstractEventLoop] | None:
    """Return uvloop's factory if installed (not on Windows), or None for Python's own loop."""
    if not find_spec("uvloop"):
        return None
    import uvloop

    factory: Callable[[], AbstractEventLoop] = uvloop.new_event_loop
    return factory


def spare_collector() -> None:
    """Collect less often, and freeze the objects that exist now; call it when the program is
    loaded.

    With thousands of running jobs it would scan all their objects after every few hundred new ones,
    which takes a fifth of the processor; the engine creates no cycles to collect.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
