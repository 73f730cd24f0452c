"""Facts about jobs that follow from their rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from riverui.domain.jobs import FINALIZED, WAITING, JobState, JsonText, matters_at

DUE = datetime(2026, 11, 21, 9, tzinfo=UTC)
STARTED = DUE + timedelta(minutes=1)
ENDED = DUE + timedelta(minutes=2)


@pytest.mark.parametrize("state", list(JobState))
def test_the_time_that_matters(state: JobState) -> None:
    expected = ENDED if state in FINALIZED else STARTED if state is JobState.RUNNING else DUE
    assert matters_at(state, DUE, STARTED, ENDED) == expected
    assert matters_at(state, DUE, None, None) == DUE


def test_every_state_is_waiting_running_or_finalized() -> None:
    assert not FINALIZED & WAITING
    assert FINALIZED | WAITING | {JobState.RUNNING} == set(JobState)


def test_a_cut_text_says_so() -> None:
    assert JsonText(text="{}", size=2).complete
    assert not JsonText(text='{"a', size=9).complete
