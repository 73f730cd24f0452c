"""Helpers for features that change verbs on jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from riverui.storage.interface.job_actions import JobChanges

Inner = Callable[[Sequence[int]], Awaitable[JobChanges]]
"""Continues with the verb, on the same executor."""


def merge(*changes: JobChanges) -> JobChanges:
    """Return several results as one."""
    return JobChanges(
        changed=tuple(chain.from_iterable(change.changed for change in changes)),
        requested=tuple(chain.from_iterable(change.requested for change in changes)),
        skipped=tuple(chain.from_iterable(change.skipped for change in changes)),
    )
