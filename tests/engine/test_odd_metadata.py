"""Metadata that Python cannot hold ends no attempt: what is not readable counts as not there."""

from __future__ import annotations

import pytest

from riverui.domain.jobs import JobRow
from riverui.engine.work.outcome import next_snoozes
from riverui.engine.work.progress import Progress
from tests.factory import job_row

DEEP = "[" * 5_000 + "]" * 5_000
DIGITS = "9" * 5_000


def row(metadata: str) -> JobRow:
    return job_row(metadata=metadata)


@pytest.mark.parametrize(
    ("metadata", "snoozes"),
    [
        ('{"snoozes": 3}', 4),
        (f'{{"snoozes": {DIGITS}}}', 1),
        (f'{{"snoozes": 3, "deep": {DEEP}}}', 1),
        (f'{{"snoozes": 3, "digits": {DIGITS}}}', 4),
        ('["snoozes"]', 1),
        ('"snoozes"', 1),
        ('{"snoozes": null}', 1),
        ('{"snoozes": "3"}', 1),
        ('{"snoozes": 1e30}', int(1e30) + 1),
    ],
    ids=["number", "digits", "deep", "readable", "array", "text", "null", "in quotes", "huge"],
)
def test_snoozes_are_counted_on(metadata: str, snoozes: int) -> None:
    assert next_snoozes(row(metadata)) == snoozes


@pytest.mark.parametrize(
    "value", [DEEP, DIGITS, "7", "[]"], ids=["deep", "digits", "number", "array"]
)
def test_a_resumable_job_without_a_readable_step_begins_anew(value: str) -> None:
    progress = Progress(f'{{"river:resumable_step": {value}, "river:resumable_cursor": {value}}}')
    assert progress.resume_step == ""
    assert progress.cursors == {}
