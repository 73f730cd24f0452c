"""What all parts of a client at work have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from riverui.engine.config import ClientConfig
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.events import Events
from riverui.engine.hooks import Extensions
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import Pilot
from riverui.engine.side_loop import SameLoop, SideLoop
from riverui.storage.interface import WORKING, Driver


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

    def connection(self) -> DedicatedConnection:
        """Return a connection for one part of the client, its own or of the pool as configured."""
        return DedicatedConnection(
            self.driver,
            timeout=self.limits.statement_timeout,
            keeps=self.config.dedicated_connections,
        )

    def beside(self, name: str) -> SideLoop | SameLoop:
        """Return where something runs beside the client's work: in a thread, with connections of
        its own, or with those of the pool in the client's own loop.
        """
        return SideLoop(name) if self.config.dedicated_connections else SameLoop()

    def driver_beside(self) -> Driver:
        """Return the driver for what runs there."""
        return WORKING.on(self.driver).apart() if self.config.dedicated_connections else self.driver
