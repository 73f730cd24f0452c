"""What the helpers look into."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

    from riverui.storage.interface import Driver

Database: TypeAlias = "Client | Driver | AsyncConnectionPool[Any] | str | None"
"""What the helpers look into: a client's database, a Driver, a pool, a URL, or libpq's `PG*`
variables.
"""


def client_of(
    database: Database, config: ClientConfig | None = None
) -> AbstractAsyncContextManager[Client]:
    """Lend a client of that database: the one given, or one that is closed afterwards."""
    return nullcontext(database) if isinstance(database, Client) else Client(database, config)
