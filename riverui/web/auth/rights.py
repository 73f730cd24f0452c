"""All rights, and the function by which a host app authenticates."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from starlette.requests import HTTPConnection
from starlette.responses import Response

from riverui.errors import ConfigError, Forbidden
from riverui.web.http.request_context import Viewer, reading
from riverui.web.sections import SECTIONS

RIGHTS = SECTIONS.rights
"""Every right, and what it permits. A route needs exactly one of them, or SIGNED_IN, or is PUBLIC.
"""

READ_ONLY = reading(RIGHTS)
EVERYTHING = frozenset(RIGHTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Access(Viewer):
    """A user's name (empty if unnamed) and rights: every right by default."""

    rights: frozenset[str] = EVERYTHING

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown right, which no route accepts."""
        for right in sorted(set(self.rights) - EVERYTHING):
            close = get_close_matches(right, RIGHTS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"use any of {', '.join(RIGHTS)}"
            raise ConfigError(f"There is no right {right!r}: {hint}")


_ANYBODY = Access()

Decision = Access | Response | None
Authenticate = Callable[[HTTPConnection], Decision | Awaitable[Decision]]
"""A host app's authentication: it returns the user and rights, None to refuse, or a Response (such
as a redirect to the host's sign-in page), which is sent instead of ours. It runs in the event loop,
so a slow one should be async.
"""


def anyone(connection: HTTPConnection) -> Access:
    """Give everyone every right: the host app, the network or the loopback interface controls
    access.
    """
    return _ANYBODY


async def decide(
    authenticate: Authenticate, connection: HTTPConnection, *, read_only: bool
) -> Access | Response:
    """Return the result of `authenticate`, with rights reduced to reading if the dashboard is
    read-only. Raise Forbidden for None, TypeError for an invalid result.
    """
    answer = authenticate(connection)
    decision = await answer if inspect.isawaitable(answer) else answer
    if decision is None:
        raise Forbidden("You may not use this dashboard.")
    if isinstance(decision, Response):
        return decision
    if not isinstance(decision, Access):
        raise TypeError(
            f"authenticate returned {type(decision).__name__}; expected Access, Response or None"
        )
    return replace(decision, rights=reading(decision.rights)) if read_only else decision
