"""Groups of failed jobs: what they have in common, and how long a decision about one holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.domain.jobs import JobState
from riverui.features.error_groups.domain.fingerprints import error_signature
from riverui.features.error_groups.domain.groups import (
    ErrorDecision,
    ErrorGroup,
    ErrorGroupRow,
    ErrorState,
    FailedJob,
    grouped,
    is_news,
    remembered_group,
    sighting,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SIGNATURE = error_signature("connection refused")
OTHER = error_signature("no such host")


def job(id: int, *, minutes: float = 0, **given: Any) -> FailedJob:
    """Return a job that failed so many minutes ago."""
    fields: dict[str, Any] = {
        "state": JobState.RETRYABLE,
        "attempt": 1,
        "kind": "mail_send",
        "queue": "mail",
        "worker": "a",
        "release": "",
        "fingerprint": SIGNATURE.fingerprint,
    }
    return FailedJob(id=id, at=NOW - timedelta(minutes=minutes), **(fields | given))


def row(state: ErrorState, *, minutes: float = 60, **given: Any) -> ErrorGroupRow:
    """Return the row of a group decided about so many minutes ago."""
    return ErrorGroupRow(
        fingerprint=SIGNATURE.fingerprint,
        title=SIGNATURE.title,
        first_at=NOW - timedelta(days=3),
        last_at=NOW - timedelta(days=2),
        number=7,
        sample_job_id=1,
        decision=ErrorDecision(state=state, **given),
        decided_at=NOW - timedelta(minutes=minutes),
        decided_by="ops",
    )


def group(*jobs: FailedJob, row: ErrorGroupRow | None = None) -> ErrorGroup:
    rows = {row.fingerprint: row} if row else {}
    return grouped(jobs, {SIGNATURE.fingerprint: SIGNATURE}, rows)[SIGNATURE.fingerprint]


def test_jobs_are_grouped_those_that_failed_last_first() -> None:
    jobs = [
        job(1, minutes=30, worker="b"),
        job(2, minutes=90, kind="hook", release="v1"),
        job(3, minutes=10),
        job(4, minutes=5, fingerprint=OTHER.fingerprint, worker=""),
    ]
    found = grouped(jobs, {SIGNATURE.fingerprint: SIGNATURE, OTHER.fingerprint: OTHER})
    assert list(found) == [OTHER.fingerprint, SIGNATURE.fingerprint]
    of = found[SIGNATURE.fingerprint]
    assert [each.id for each in of.jobs] == [3, 1, 2]
    assert of.kinds == {"mail_send": 2, "hook": 1}
    assert list(of.kinds) == ["mail_send", "hook"]
    assert (of.queues, of.workers, of.releases) == ({"mail": 3}, {"a": 2, "b": 1}, {"v1": 1})
    assert of.since(NOW - timedelta(hours=1)) == 2
    assert (of.first_at, of.last_at) == (jobs[1].at, jobs[2].at)
    assert of.new_since(NOW - timedelta(hours=2))
    assert not of.new_since(NOW - timedelta(hours=1))
    assert found[OTHER.fingerprint].workers == {}
    assert of.state(NOW) is ErrorState.UNRESOLVED
    assert of.regressed_at(NOW) is None


def test_what_is_remembered_counts() -> None:
    of = group(job(1), row=row(ErrorState.UNRESOLVED))
    assert of.first_at == NOW - timedelta(days=3)
    assert not of.new_since(NOW - timedelta(days=1))


RESOLVED, IGNORED = ErrorState.RESOLVED, ErrorState.IGNORED


def test_a_resolved_group_comes_back_with_an_attempt_that_began_later() -> None:
    before, later, last = job(1, minutes=61), job(2, minutes=30), job(3, minutes=10)
    assert group(before, row=row(RESOLVED)).state(NOW) is RESOLVED
    found = group(before, later, last, row=row(RESOLVED))
    assert found.state(NOW) is ErrorState.UNRESOLVED
    assert found.regressed_at(NOW) == later.at


def test_releases_that_failed_before_are_no_news() -> None:
    old = row(RESOLVED, release="v3", old_releases=("v1", "v2", "v3"))
    for release, state in (
        ("v1", RESOLVED),
        ("v2", RESOLVED),
        ("v3", ErrorState.UNRESOLVED),
        ("v4", ErrorState.UNRESOLVED),
        ("", ErrorState.UNRESOLVED),
    ):
        assert group(job(1, release=release), row=old).state(NOW) is state


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, IGNORED),
        ({"until_at": NOW + timedelta(minutes=1)}, IGNORED),
        ({"until_at": NOW}, ErrorState.UNRESOLVED),
        ({"until_rate": 3}, IGNORED),
        ({"until_rate": 2}, ErrorState.UNRESOLVED),
        ({"until_total": 4}, IGNORED),
        ({"until_total": 3}, ErrorState.UNRESOLVED),
        ({"until_total": 9, "until_rate": 2}, ErrorState.UNRESOLVED),
    ],
)
def test_an_ignored_group_is_ignored_until_its_end(
    given: dict[str, Any], state: ErrorState
) -> None:
    """Three have failed since it was ignored, two of them within an hour, and one before."""
    jobs = (job(1, minutes=10), job(2, minutes=20), job(3, minutes=90), job(4, minutes=130))
    found = group(*jobs, row=row(IGNORED, minutes=120, **given))
    assert found.state(NOW) is state
    assert found.regressed_at(NOW) is None


def test_what_a_look_adds_to_what_is_remembered() -> None:
    jobs = (job(5, minutes=10), job(6, minutes=20))
    new = sighting(group(*jobs))
    assert is_news(group(*jobs))
    assert (new.number, new.sample_job_id) == (2, 5)
    assert (new.first_at, new.last_at) == (jobs[1].at, jobs[0].at)
    known = row(ErrorState.UNRESOLVED)
    again = sighting(group(*jobs, row=known))
    assert is_news(group(*jobs, row=known))
    assert again.number == 2
    assert again.first_at == NOW - timedelta(days=3)
    assert not is_news(group(job(1, minutes=60 * 24 * 2), row=known))
    left = remembered_group(known)
    assert not is_news(left)
    assert sighting(left).sample_job_id == known.sample_job_id
    assert (left.first_at, left.last_at) == (known.first_at, known.last_at)
    assert left.signature.title == known.title
