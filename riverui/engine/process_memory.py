"""Memory of the current process."""

from __future__ import annotations

import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
"""Linux's figures of this process, in pages; the second is the resident size."""


def resident_now() -> int | None:
    """Return the resident bytes of this process, or None if the system does not report them."""
    try:
        import resource

        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()


def resident_bytes() -> int:
    """Return the resident bytes of this process: their maximum so far if the system reports no
    more, 0 if it reports nothing.
    """
    if (found := resident_now()) is not None:
        return found
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
