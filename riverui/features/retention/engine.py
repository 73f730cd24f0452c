"""Keeps the finished jobs of some queues for other periods than those of all other queues."""

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
    """Has the leader clean some queues by periods of their own, and its job cleaner leave them
    alone.

    The leader's own settings count, so every client that may lead should have the same. Raises
    ConfigError for a name that is not valid for a queue, and for what is not a Retention.
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
        """Return the queues that have periods of their own."""
        return self.queues.keys()

    def services(self, context: ServiceContext) -> Sequence[QueueRetentionCleaner]:
        """Return the cleaner of these queues, where there are any."""
        return [QueueRetentionCleaner(context, self.queues)] if self.queues else []


class QueueRetentionCleaner:
    """Removes the finished jobs of queues that have periods of their own."""

    name = "queue retention"
    interval = timedelta(seconds=30)

    def __init__(self, context: ServiceContext, queues: Mapping[str, Retention]) -> None:
        names: defaultdict[Retention, list[str]] = defaultdict(list)
        for queue, retention in queues.items():
            names[retention].append(queue)
        # Queues that are kept alike are cleaned by one statement.
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
                # The other queues are cleaned all the same.
                errors.append(error)
        if errors:
            raise errors[0]
        return removed
