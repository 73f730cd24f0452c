"""Fixtures for services of the maintenance: a real database, and a clock that tests advance."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from riverui.engine.config import ClientConfig
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.service import ServiceContext, Timing
from riverui.storage.interface import Driver
from tests.engine.ticking import Ticking


class ServiceParts(NamedTuple):
    """What services are made of."""

    context: ServiceContext
    config: ClientConfig


NewServiceParts = Callable[..., ServiceParts]


@pytest.fixture
def clock() -> Ticking:
    """Begins now."""
    return Ticking()


@pytest.fixture
def service_parts(driver: Driver, clock: Ticking) -> NewServiceParts:
    """Make the context and config of a client with these settings."""

    def make(**settings: Any) -> ServiceParts:
        config = ClientConfig(**settings)
        context = ServiceContext(
            driver=driver,
            retention=config.retention,
            clock=clock.now,
            logger=logging.getLogger("riverui.engine"),
            now=clock.steady,
            timing=Timing(
                stagger=timedelta(0),
                pause_least=timedelta(0),
                pause_most=timedelta(0),
                sleep=clock.sleep,
            ),
        )
        return ServiceParts(context, config)

    return make


@pytest.fixture
def term(clock: Ticking) -> LeaderTerm:
    """Return a term of fourteen seconds from now."""
    return LeaderTerm(
        leader_id="test",
        elected_at=clock.now(),
        trusted_until=clock.steady() + 14,
        now=clock.steady,
    )
