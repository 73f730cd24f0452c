"""Direct access to the database, for commands that need no dashboard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from riverui.cli.settings import Values, database_url
from riverui.storage.connect import connect
from riverui.storage.interface import Driver

T = TypeVar("T")

_CONNECTIONS = 2
"""Connections to the database at once: one that reads facts, and one that reads figures."""


def read(values: Values, environ: Mapping[str, str], ask: Callable[[Driver], Awaitable[T]]) -> T:
    """Return what `ask` reads from the database in the settings. Raises DatabaseError if it does
    not answer.
    """
    driver = connect(
        database_url(values, environ),
        schema=values.text("schema") or None,
        max_size=_CONNECTIONS,
    )

    async def asked() -> T:
        try:
            await driver.ping()
            return await ask(driver)
        finally:
            await driver.close()

    # The answer says what could not be read: log only riverui's own errors.
    log = logging.getLogger("riverui")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        return asyncio.run(asked())
    finally:
        log.setLevel(level)
