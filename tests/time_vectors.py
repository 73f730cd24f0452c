"""Times and the words for them, which the server and the browser are both held to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeVector:
    """One case of tests/times.json."""

    mode: str
    """relative, fine (relative in two units), since (ticking on), utc or local."""
    at: datetime
    now: datetime
    text: str
    zone: str = "UTC"
    """Where the browser is."""


def time_vectors() -> list[TimeVector]:
    """Return every case of tests/times.json."""
    cases = json.loads(Path(__file__).with_name("times.json").read_text())
    return [
        TimeVector(
            **case
            | {"at": datetime.fromisoformat(case["at"]), "now": datetime.fromisoformat(case["now"])}
        )
        for case in cases
    ]
