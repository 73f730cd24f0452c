"""What was usual before something began: the figures that a problem is compared with."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from riverui.domain.figures import Tally
from riverui.domain.findings import Finding

FEWEST_ENDS = 20
"""Fewest jobs or attempts for anything usual: with fewer, half of it is chance."""


class Subject(Struct, frozen=True):
    """What a problem or a baseline is about."""

    what: str = ""
    """queue, kind, client or job; empty for all jobs."""
    name: str = ""


class Baseline(Struct, frozen=True, kw_only=True):
    """The usual figures of a subject, which also can be kept as JSON for as long as a problem goes
    on. Counts are averages of a minute.
    """

    before: Annotated[datetime, Meta(tz=True)]
    """The end of that time: when the problem began, or the usual time ended."""
    minutes: float
    """How long that time was."""
    weekly: bool = False
    """Whether it is the same hour of the last days, else the time before."""
    queue: str = ""
    """The late queue that `wait` and `waiting` are of, if the subject is a kind."""
    ended: float = 0.0
    completed: float = 0.0
    failed: float = 0.0
    inserted: float = 0.0
    wait: timedelta | None = None
    """How long jobs wait (p95); None if unknown, as for all spans here."""
    run_median: timedelta | None = None
    run_p95: timedelta | None = None
    run_p99: timedelta | None = None
    waiting: float | None = None
    """The median of waiting jobs; None if they were not counted."""

    @classmethod
    def of(
        cls, tally: Tally, span: timedelta, *, before: datetime, weekly: bool = False
    ) -> Baseline | None:
        """Return the averages of a tally of this length; None if it has too few jobs."""
        minutes = span / timedelta(minutes=1)
        if not minutes or max(tally.ended, tally.attempts) < FEWEST_ENDS:
            return None
        return cls(
            before=before,
            minutes=minutes,
            weekly=weekly,
            ended=tally.ended / minutes,
            completed=tally.completed / minutes,
            failed=tally.failed / minutes,
            inserted=tally.inserted / minutes,
            wait=tally.wait.quantile(0.95),
            run_median=tally.run.quantile(0.5),
            run_p95=tally.run.quantile(0.95),
            run_p99=tally.run.quantile(0.99),
        )

    @property
    def failing(self) -> float | None:
        """Return the share of attempts that failed, from 0 to 1; None without any."""
        attempts = self.completed + self.failed
        return self.failed / attempts if attempts else None


def subject_of(finding: Finding) -> Subject:
    """Return what a finding is about: its culprit, else all jobs."""
    culprit = finding.culprit
    return Subject() if culprit is None else Subject(culprit.what, culprit.name)
