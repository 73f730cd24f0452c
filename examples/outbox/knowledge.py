"""The search index that changes are delivered to, which may be slow or unavailable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol


class KnowledgeStore(Protocol):
    """An index of texts, such as one of vectors."""

    def reindex(self, scope: str, documents: Sequence[str]) -> None:
        """Replace all documents of a scope. A repeated call changes nothing, so delivering
        more than once is harmless.
        """
        ...


class KnowledgeInMemory:
    """A stand-in that fails as often as configured."""

    def __init__(self, failures: dict[str, int] | None = None) -> None:
        self.documents: dict[str, list[str]] = {}
        self.calls: Counter[str] = Counter()
        self.failures = dict(failures or {})

    def reindex(self, scope: str, documents: Sequence[str]) -> None:
        """Replace the documents of a scope; raise ConnectionError as often as configured for it."""
        self.calls[scope] += 1
        if self.failures.get(scope, 0) > 0:
            self.failures[scope] -= 1
            raise ConnectionError(f"the index does not take {scope} now")
        self.documents[scope] = list(documents)
