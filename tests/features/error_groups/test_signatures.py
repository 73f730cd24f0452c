"""Errors as riverui's engine stores them are grouped correctly."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from riverui.engine.work.outcome import attempt_error
from riverui.engine.work.worker import JobCancel
from riverui.errors import JobTimedOut, UnknownJobKind
from riverui.features.error_groups.domain.fingerprints import ErrorSignature, error_signature
from tests.factory import job_row

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def signature(call: Callable[[], None]) -> ErrorSignature:
    """Return the signature of what the call raises, as the engine writes it into the row."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        call()
    found = json.loads(attempt_error(job_row(), NOW, caught.value))
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
        "job kind is not registered in the client's Workers bundle: mail_send"
    )
    assert signature(late).type == "JobTimedOut"
