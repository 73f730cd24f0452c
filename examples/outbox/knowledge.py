"""Where changes have to arrive: a store for search, which may be slow or away for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol


class KnowledgeStore(Protocol):
    """An index of texts, such as one of vectors."""

    def reindex(self, scope: str, documents: Sequence[str]) -> None:
        """Replace all that is known of a scope. The same call twice leaves what one leaves: that is
        what makes delivering more than once harmless.
        """
        ...


class KnowledgeInMemory:
    """A stand-in that fails as often as it is told."""

    def __init__(self, failures: dict[str, int] | None = None) -> None:
        self.documents: dict[str, list[str]] = {}
        self.calls: Counter[str] = Counter()
        self.failures = dict(failures or {})

    def reindex(self, scope: str, documents: Sequence[str]) -> None:
        """Replace what is known of a scope; ConnectionError as often as was told for it."""
        self.calls[scope] += 1
        if self.failures.get(scope, 0) > 0:
            self.failures[scope] -= 1
            raise ConnectionError(f"the index does not take {scope} now")
        self.documents[scope] = list(documents)
