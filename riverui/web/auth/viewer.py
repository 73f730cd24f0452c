"""The current user, as known behind the gate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """A user's name (empty if unnamed) and rights."""

    user: str = ""
    rights: frozenset[str] = frozenset()
    sign_out: str = ""
    """Where the sign-out form is posted to; empty if pages show none."""
    token: bool = False
    """Whether the request carries a token, which no browser sends by itself."""

    def may(self, right: str) -> bool:
        """Return whether this user holds the right."""
        return right in self.rights


NOBODY = Viewer()


def reading(rights: Iterable[str]) -> frozenset[str]:
    """Return the rights that change nothing: their names end with `.read`."""
    return frozenset(right for right in rights if right.endswith(".read"))
