"""Objectives of queues: how they are written, and when they fail fast enough to act."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from riverui.domain.figures import Tally
from riverui.domain.findings import Level, Result
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject, subject_of
from riverui.domain.health.slo import Objective, ObjectiveFigures, objectives, slo
from riverui.errors import ConfigError
from tests.health_facts import MINUTE, NOW, SECOND, figures, tally

MAIL = Objective(queue="mail", target=0.99, within=30 * SECOND)


def known(
    minute: Callable[[int], Tally | None], ten: Callable[[int], Tally | None]
) -> ObjectiveFigures:
    """Return figures by minute and by ten minutes, each by how long ago."""
    return ObjectiveFigures(objective=MAIL, hour=figures(minute), hours=figures(ten, window="6h"))


def late(share: float, jobs: int = 100) -> Tally:
    """Return a tally of which this share waited for long."""
    bad = round(share * jobs)
    made = tally(jobs - bad)
    made.merge(tally(bad, wait=5 * MINUTE))
    return made


def test_they_are_written_in_one_line() -> None:
    assert objectives("mail = 99% < 30s, a-b.c=99.95%<1m30s,") == [
        MAIL,
        Objective(queue="a-b.c", target=0.9995, within=90 * SECOND),
    ]
    assert objectives(" ") == []
    assert MAIL.words == "99 % of jobs start within 30 s"
    many = ", ".join(f"q{n}=99% < 1s" for n in range(11))
    for wrong in ("mail", "mail=99 < 1s", "mail=100% < 1s", "mail=89% < 1s", "mail=99% < 0", many):
        with pytest.raises(ConfigError):
            objectives(wrong)
    with pytest.raises(ConfigError):
        objectives("mail=99% < 1s, mail=98% < 2s")


def test_a_fast_burn_is_critical_and_says_since_when() -> None:
    found = slo(known(lambda ago: late(0.5 if ago < 20 else 0), lambda ago: late(0)))
    assert (found.level, found.cause) == (Level.CRITICAL, Cause.SLO_BURN)
    assert subject_of(found) == Subject("queue", "mail")
    assert found.name == "slo mail"
    assert "16.67 % of its jobs started later in the last 1 h, 16.7 times" in found.headline
    assert found.began is not None
    assert abs(found.began - NOW + 20 * MINUTE) < 2 * MINUTE


def test_a_slow_burn_is_a_warning() -> None:
    found = slo(known(lambda ago: late(0.08), lambda ago: late(0.08)))
    assert (found.level, found.cause) == (Level.WARN, Cause.SLO_BURN)
    assert "in the last 6 h" in found.headline


def test_what_is_over_or_too_little_is_no_problem() -> None:
    calm = known(lambda ago: late(0), lambda ago: late(0.08))
    over = known(lambda ago: late(0.5 if ago > 40 else 0), lambda ago: late(0.01))
    few = known(lambda ago: late(1, 2) if ago in (1, 2, 3) else tally(0), lambda ago: tally(0))
    for each in (calm, over, few):
        assert slo(each).result is Result.PASSED


def test_what_was_not_measured_is_unknown() -> None:
    for minute in (
        lambda ago: None,
        lambda ago: tally(0),
        lambda ago: late(1) if ago < 9 else None,
    ):
        assert slo(known(minute, lambda ago: None)).result is Result.UNKNOWN
    # A few unknown minutes do not matter.
    found = known(lambda ago: late(0.02) if ago % 3 else None, lambda ago: None)
    assert MAIL.good(found.newest(timedelta(hours=1))) == pytest.approx(0.98)
    assert MAIL.good(found.newest(timedelta(hours=6))) is None
