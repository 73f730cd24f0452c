"""What our engine leaves of an error comes together with others of its kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.work.outcome import attempt_error
from riverui.engine.work.worker import JobCancel
from riverui.errors import JobTimedOut, UnknownJobKind
from riverui.features.error_groups.domain.fingerprints import ErrorSignature, error_signature

NOW = datetime(2026, 11, 21, tzinfo=UTC)
ROW = JobRow(
    id=1,
    state=JobState.RUNNING,
    attempt=1,
    max_attempts=25,
    attempted_at=NOW,
    created_at=NOW,
    finalized_at=None,
    scheduled_at=NOW,
    priority=1,
    args="{}",
    attempted_by=("a",),
    errors=(),
    kind="mail_send",
    metadata="{}",
    queue="default",
    tags=(),
    unique_key=None,
    unique_states=None,
)


def signature(call: Callable[[], None]) -> ErrorSignature:
    """Return the signature of what the call raises, as the engine writes it into the row."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        call()
    found = json.loads(attempt_error(ROW, NOW, caught.value))
    return error_signature(found["error"], found["trace"])


def _take(order: int) -> None:
    raise LookupError(f"order {order} is gone")


def _first() -> None:
    _take(7)


def _second() -> None:
    _take(8)


def test_an_error_of_a_worker() -> None:
    found = signature(_first)
    assert (found.type, found.message) == ("LookupError", "order <number> is gone")
    assert found.frames[-2:] == (
        "test_signatures.py in _first",
        "test_signatures.py in _take",
    )
    other = signature(_second)
    assert other.message == found.message
    assert other.fingerprint != found.fingerprint


def test_errors_of_the_engine_itself() -> None:
    def cancel() -> None:
        raise JobCancel("customer 7 has left")

    def unknown() -> None:
        raise UnknownJobKind("mail_send")

    def late() -> None:
        raise JobTimedOut

    assert signature(cancel).title == "JobCancelError: customer <number> has left"
    assert signature(unknown).title == (
        "UnknownJobKind: the client has no worker for jobs of kind <str>"
    )
    assert signature(late).type == "JobTimedOut"
