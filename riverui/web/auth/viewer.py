"""Who looks at the dashboard, as everything behind the gate knows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """A user's name (empty when nobody is named) and rights."""

    user: str = ""
    rights: frozenset[str] = frozenset()
    sign_out: str = ""
    """Where a form is posted to that signs the user out; empty where pages show none."""
    token: bool = False
    """Whether a program showed a token for it, which no browser sends by itself."""

    def may(self, right: str) -> bool:
        """Return whether this user holds the right."""
        return right in self.rights


NOBODY = Viewer()


def reading(rights: Iterable[str]) -> frozenset[str]:
    """Return those of the rights that change nothing: their names end with `.read`."""
    return frozenset(right for right in rights if right.endswith(".read"))
