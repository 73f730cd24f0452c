"""Names for the search box that only a look into many jobs finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from riverui.storage.interface.capabilities import Capability


class SuggestionExecutor(Protocol):
    """Finds paths, tags and workers of the newest jobs."""

    async def job_path_list(
        self, field: str, *, match: str = "", limit: int = 100
    ) -> Sequence[str]:
        """Return dotted paths seen in `args` or `metadata` of the newest jobs, that contain
        `match`.
        """
        ...

    async def job_tag_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return tags of the newest jobs that contain `match`, by name."""
        ...

    async def job_worker_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return client ids that work or lately worked jobs and contain `match`, by name."""
        ...


SUGGESTIONS: Capability[SuggestionExecutor] = Capability(
    "suggestions",
    "The search box suggests no tags, no workers and no keys of args and metadata.",
)
