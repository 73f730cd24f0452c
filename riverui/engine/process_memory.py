"""How much memory this process takes."""

from __future__ import annotations

import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
"""Linux's figures of this process, in pages: the second is what is resident."""


def resident_now() -> int | None:
    """Return how many bytes this process has resident; None where the system does not tell."""
    try:
        import resource

        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()


def resident_bytes() -> int:
    """Return how many bytes this process has resident: where the system tells no more, the most
    that it ever had, and 0 where it tells nothing.
    """
    if (found := resident_now()) is not None:
        return found
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
