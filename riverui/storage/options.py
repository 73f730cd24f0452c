"""How a driver is to reach its database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

Watch = Callable[[str, str, Sequence[Any]], None]
"""Is told of each statement before it runs: the block's name, the SQL as sent, its parameters."""

Password = Callable[[], str | Awaitable[str]]
"""Returns the password for a connection that is made now."""

DASHBOARD_PREFIX = "riverui serve "
"""What the `application_name` of a dashboard's connections begins with; then comes its own name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectOptions:
    """What `riverui.connect` takes besides the address. Every driver understands these."""

    schema: str | None = None
    """The schema that holds River's tables; None leaves it to the search path."""
    max_size: int = 4
    """Connections of a pool at most: a page needs one at a time, a client two besides its own."""
    connect_timeout: timedelta = timedelta(seconds=3)
    """For one connection. A page should tell soon that there is no database."""
    pool_timeout: timedelta = timedelta(seconds=3)
    """For a connection of the pool to become free."""
    page_timeout: timedelta = timedelta(seconds=3)
    """For each statement that only reads. A person does not wait longer for a page."""
    action_timeout: timedelta = timedelta(seconds=10)
    """For each statement that may write."""
    lock_timeout: timedelta = timedelta(seconds=2)
    """For a row that another transaction holds."""
    password: Password | None = None
    """Asked for each new connection; None where the address says all."""
    dashboard: str = ""
    """The name by which one dashboard process is known to others on the same database."""
    watch: Watch | None = None
    """Is told of each statement before it runs."""
