"""What the services of the maintenance work with in tests: a real database, a clock that is told to
go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from riverui.engine.config import ClientConfig
from riverui.engine.lead.elector import Term
from riverui.engine.lead.maintenance.service import Means, Pace
from riverui.storage.interface import Driver
from tests.engine.ticking import Ticking

NewMeans = Callable[..., Means]


@pytest.fixture
def clock() -> Ticking:
    """Begins now."""
    return Ticking()


@pytest.fixture
def means(driver: Driver, clock: Ticking) -> NewMeans:
    """Makes the means of a client with these settings."""

    def make(**settings: Any) -> Means:
        return Means(
            driver=driver,
            config=ClientConfig(**settings),
            clock=clock.now,
            logger=logging.getLogger("riverui.engine"),
            now=clock.steady,
            pace=Pace(
                stagger=timedelta(0),
                pause_least=timedelta(0),
                pause_most=timedelta(0),
                sleep=clock.sleep,
            ),
        )

    return make


@pytest.fixture
def term(clock: Ticking) -> Term:
    """A term of fourteen seconds from now."""
    return Term(
        leader_id="test",
        elected_at=clock.now(),
        trusted_until=clock.steady() + 14,
        now=clock.steady,
    )
