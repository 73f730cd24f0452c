"""What all parts of a client at work have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from riverui.engine.config import ClientConfig
from riverui.engine.events import Events
from riverui.engine.hooks import Extensions
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import Pilot
from riverui.storage.interface import Driver


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientContext:
    """One client, from its start to its stop."""

    id: str
    clock: Callable[[], datetime]
    config: ClientConfig
    """As it was at the start."""
    driver: Driver
    events: Events
    extensions: Extensions
    limits: EngineLimits
    logger: logging.Logger
    pilot: Pilot
