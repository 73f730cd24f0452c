"""What the parts of a working client share."""

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
    """The config at the start."""
    driver: Driver
    events: Events
    extensions: Extensions
    limits: EngineLimits
    logger: logging.Logger
    pilot: Pilot

    def connection(self) -> DedicatedConnection:
        """Return a connection for one part of the client: a dedicated one, or the pool's, as
        configured.
        """
        return DedicatedConnection(
            self.driver,
            timeout=self.limits.statement_timeout,
            keeps=self.config.dedicated_connections,
        )

    def beside(self, name: str) -> SideLoop | SameLoop:
        """Return a runner for background work: a thread with its own connections, or the client's
        own loop with the pool's.
        """
        return SideLoop(name) if self.config.dedicated_connections else SameLoop()

    def driver_beside(self) -> Driver:
        """Return the driver for work in that runner."""
        return WORKING.on(self.driver).apart() if self.config.dedicated_connections else self.driver
