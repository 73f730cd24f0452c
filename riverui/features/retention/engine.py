"""Keeps the finished jobs of some queues for other periods than the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from riverui.domain.values import is_queue_name
from riverui.engine.lead.maintenance.job_cleaner import Cleaning, JobCleaner
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.pilot import Feature
from riverui.engine.retention import Retention
from riverui.errors import ConfigError


class QueueRetention(Feature):
    """Makes the leader clean some queues by their own periods, and its job cleaner skip them.

    Only the leader's settings apply, so every client that may lead should have the same. Raises
    ConfigError for an invalid queue name, or a value that is not a Retention.
    """

    def __init__(self, queues: Mapping[str, Retention]) -> None:
        for name, retention in queues.items():
            if not is_queue_name(name):
                raise ConfigError(f"QueueRetention: {name!r} is not a valid queue name.")
            if not isinstance(retention, Retention):
                raise ConfigError(f"QueueRetention: {name!r} needs a Retention.")
        self.queues = dict(queues)

    def __repr__(self) -> str:
        return f"QueueRetention({self.queues!r})"

    def queues_excluded_from_cleaning(self) -> Collection[str]:
        """Return the queues with their own periods."""
        return self.queues.keys()

    def services(self, context: ServiceContext) -> Sequence[QueueRetentionCleaner]:
        """Return the cleaner of these queues, if there are any."""
        return [QueueRetentionCleaner(context, self.queues)] if self.queues else []


class QueueRetentionCleaner:
    """Removes the finished jobs of queues with their own periods."""

    name = "queue retention"
    interval = timedelta(seconds=30)

    def __init__(self, context: ServiceContext, queues: Mapping[str, Retention]) -> None:
        names: defaultdict[Retention, list[str]] = defaultdict(list)
        for queue, retention in queues.items():
            names[retention].append(queue)
        # Queues with equal periods are cleaned by one statement.
        self._cleaners = [
            JobCleaner(
                context,
                Cleaning(
                    retention=retention,
                    name=f"job cleaner of {', '.join(alike)}",
                    queues_included=alike,
                ),
            )
            for retention, alike in names.items()
        ]

    async def run_once(self) -> int:
        """Remove all jobs of these queues that are past their retention; return how many."""
        removed = 0
        errors: list[Exception] = []
        for cleaner in self._cleaners:
            try:
                removed += await cleaner.run_once()
            except Exception as error:
                # Clean the other queues first.
                errors.append(error)
        if errors:
            raise errors[0]
        return removed
