"""One job ends every worker that takes it."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState

_ERROR = "Stuck job rescued by JobRescuer"
"""What River's rescuer writes, and riverui's too."""
_RESCUES = 3
"""How often it has been rescued: the last attempt that it has is the next one."""


def _past(past: Past) -> None:
    past.steady()
    for row in past.put("image_resize", 1, since=timedelta(hours=4)):
        started = [past.ago(minutes=70 * number + 65) for number in reversed(range(_RESCUES))]
        metadata = row["metadata"]
        assert isinstance(metadata, dict)
        row |= {
            "state": JobState.RETRYABLE,
            "attempt": _RESCUES,
            "attempted_at": started[-1],
            "attempted_by": [past.client("media", number % 2) for number in range(_RESCUES)],
            "errors": [
                {"at": at, "attempt": number, "error": _ERROR, "trace": ""}
                for number, at in enumerate(started, 1)
            ],
            "metadata": metadata | {"river:rescue_count": _RESCUES},
            "scheduled_at": past.now + timedelta(minutes=20),
        }


INCIDENT = Incident(
    name="poison-job",
    words="One image_resize job makes its worker run out of memory. It has been rescued three times"
    " since, and will be tried again in 20 minutes.",
    cause=Cause.POISON_JOB,
    past=_past,
)
