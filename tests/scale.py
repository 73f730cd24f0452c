"""How much is enough: a quick measure for every change, the full one where there is time.

`RIVERUI_FULL=1` asks for the full one.
"""

from __future__ import annotations

import os

FULL = os.environ.get("RIVERUI_FULL", "") not in ("", "0")
"""Whether to take the full measure. Read here, since tests do not see the environment's settings.
"""


def scaled(quick: int, full: int) -> int:
    """Return the number for this run."""
    return full if FULL else quick
