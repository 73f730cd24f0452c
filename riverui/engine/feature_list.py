"""The features that a client's config asks for, and the client's methods for features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riverui.engine.config import ClientConfig
from riverui.engine.pilot import Feature, Pilot
from riverui.engine.retention import Retention
from riverui.errors import ConfigError
from riverui.features.concurrency.engine.feature import ConcurrencyLimits
from riverui.features.dead_letters.engine.bundle import DeadLetterBundle, SyncDeadLetterBundle
from riverui.features.dead_letters.engine.feature import DeadLetters
from riverui.features.durable_periodic.engine.feature import DurablePeriodicJobs
from riverui.features.fair_shares.engine import FairShares
from riverui.features.known_kinds.engine import FetchOnlyKnownKinds
from riverui.features.marks.engine import ReleaseMarks
from riverui.features.rate_limits.engine import RateLimits
from riverui.features.retention.engine import QueueRetention
from riverui.features.sequences.engine.feature import ProSequences, Sequences
from riverui.features.workflows.engine.bundle import SyncWorkflowBundle, WorkflowBundle
from riverui.features.workflows.engine.feature import Workflows
from riverui.features.workflows.waits.engine.feature import WorkflowWaits

__all__ = [
    "DeadLetterBundle",
    "SyncDeadLetterBundle",
    "SyncWorkflowBundle",
    "WorkflowBundle",
    "features_of",
]


def features_of(config: ClientConfig) -> tuple[Feature, ...]:
    """Return the features of a client, outermost first: those of the config, then riverui's own."""
    return (*config.features, *_own(config))


def plain_pilot() -> Pilot:
    """Return a pilot for a program without a client, with riverui's own features."""
    return Pilot(features_of(ClientConfig()))


def _own(config: ClientConfig) -> Iterator[Feature]:
    if config.fetch_only_known_kinds and config.workers is not None:
        yield FetchOnlyKnownKinds(config.workers)
    # Fair shares choose first, then concurrency limits; a token is taken only for jobs that start.
    yield FairShares()
    if config.queues:
        yield ConcurrencyLimits()
    yield RateLimits(config)
    retentions = {name: queue.retention for name, queue in config.queues.items()}
    if own := {name: kept for name, kept in retentions.items() if kept != Retention()}:
        yield _retention(config, own)
    yield ReleaseMarks()
    yield Workflows(
        beside_pro=config.workflows_beside_pro,
        retention=config.workflow_retention_period,
    )
    yield WorkflowWaits(interval=config.workflow_timer_poller_interval)
    yield Sequences(
        interval=config.sequence_scheduler_interval,
        beside_pro=config.sequences_beside_pro,
    )
    yield ProSequences()
    if (durable := config.durable_periodic_jobs) is not None and durable.enabled:
        yield DurablePeriodicJobs(durable)
    if (dead_letter := config.dead_letter) is not None and dead_letter.enabled:
        # Innermost, as its statement removes finished jobs.
        yield DeadLetters(dead_letter)


def _retention(config: ClientConfig, queues: Mapping[str, Retention]) -> QueueRetention:
    """Return the retention of queues with their own periods; ConfigError for a queue that the
    config's QueueRetention contains too.
    """
    for feature in config.features:
        if isinstance(feature, QueueRetention) and (twice := feature.queues.keys() & queues):
            raise ConfigError(
                f"queues: {min(twice)!r} has retention periods here, and in QueueRetention too."
            )
    return QueueRetention(queues)
