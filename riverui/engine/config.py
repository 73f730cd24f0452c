"""How a client works: River's Config, with River's names, defaults and limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from riverui.domain.retries import Retry
from riverui.domain.values import is_kind, is_queue_name
from riverui.engine.hooks import Extensions, Hook, Middleware, Plugin
from riverui.engine.lead.periodic import PeriodicJob, Schedule
from riverui.engine.pilot import Feature
from riverui.engine.queue_config import QueueConfig as QueueConfig
from riverui.engine.retention import Retention
from riverui.engine.setting_checks import check_number, check_retry, check_span, check_type
from riverui.engine.spans import NO_LIMIT as NO_LIMIT
from riverui.engine.work.worker import ErrorHandler, RetryPolicy, StuckHandler
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.storage.options import check_schema

if TYPE_CHECKING:
    from riverui.features.dead_letters.engine.config import DeadLetterConfig
    from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig

FETCH_COOLDOWN = timedelta(milliseconds=100)
"""Time between two fetches that find nothing, and between two notifications of a queue, unless
`fetch_cooldown` is set: River's default.
"""
_HOUR = timedelta(hours=1)
_MILLISECOND = timedelta(milliseconds=1)
_MINUTE = timedelta(minutes=1)
_NOTHING = timedelta(0)
_MAX_ID_CHARACTERS = 100
"""River's limit for a client's id."""
_MAX_LOG_BYTES = 64 * 1024 * 1024
"""River's limit for the logs of all attempts at a job."""
_SHORTEST_HEARTBEAT = timedelta(milliseconds=100)
"""For tests: in production a busy machine would be considered dead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientConfig:
    """All settings of a Client. On creation, ConfigError names the invalid setting.

    Without `queues` the client only inserts. Names, defaults and limits are those of River's
    Config; where a default differs, its line says why.
    """

    queues: Mapping[str, QueueConfig] = field(default_factory=dict)
    workers: Workers | None = None
    periodic_jobs: Sequence[PeriodicJob] = ()
    durable_periodic_jobs: DurablePeriodicJobsConfig | None = None
    """Stores the next run of periodic jobs with an id. Default: off."""
    schema: str | None = None
    id: str | None = None
    """Up to 100 characters, unique in the schema. Default: made of host name and time."""
    logger: logging.Logger | None = None
    """Default: `riverui.engine`."""
    features: Sequence[Feature] = ()
    """Features that take part in inserting, fetching, finishing and so on, outermost first; one of
    each type.
    """

    release: str = ""
    """Version or commit that this process runs. The first client that starts with it adds a mark to
    the charts, if the table of marks exists.
    """

    charts: bool = True
    """Records how attempts ended, including snoozes, for charts, if riverui's table of figures
    exists.
    """

    # Fetching
    fetch_cooldown: timedelta | None = None
    """Time between two fetches of a queue: River's figure is 100 ms. By default that holds for
    fetches that find nothing, and free slots are filled sooner if jobs are known to wait.
    """
    fetch_poll_interval: timedelta = timedelta(seconds=1)
    fetch_only_known_kinds: bool = True
    """Fetches only jobs of kinds with a worker, so that Go and Python can share a queue."""
    poll_only: bool = False
    """No LISTEN: for poolers in transaction mode."""
    dedicated_connections: bool = True
    """Whether the client has its own connections to fetch, complete, listen and stand for election.
    Without them it uses its pool, and one listening connection for all clients of that pool: for
    many clients in one process.
    """
    sequences_beside_pro: bool = False
    """Allows sequences in a database with River Pro's table of sequences. No Pro client may work
    there.
    """
    workflow_retention_period: timedelta | None = timedelta(days=7)
    """How long a workflow is kept at most after its last task has ended; None keeps it as long as a
    job of it exists. It is removed with its last job. While it is open, its jobs are kept; after
    that, like all other jobs.
    """
    workflows_beside_pro: bool = False
    """Allows workflows in a database with River Pro's tables. No Pro client may work there."""
    workflow_timer_poller_interval: timedelta = timedelta(seconds=1)
    """How often the leader checks workflow waits for signals that arrived and timers that fired."""

    # Working
    job_timeout: timedelta = _MINUTE
    """A worker's own timeout takes precedence. NO_LIMIT disables it."""
    job_stuck_threshold: timedelta = timedelta(seconds=10)
    """How long past its timeout a job may run before it counts as stuck."""
    stuck_handler: StuckHandler | None = None
    max_attempts: int = 25
    retry: Retry | None = None
    """The Retry of jobs whose worker and args have none."""
    retry_policy: RetryPolicy | None = None
    """When failed jobs are retried, if neither their worker nor a Retry says. Default: River's
    policy.
    """
    error_handler: ErrorHandler | None = None
    soft_stop_timeout: timedelta | None = None
    """How long `stop` waits for running jobs before it cancels them; None waits for ever."""
    hooks: Sequence[Hook] = ()
    middleware: Sequence[Middleware] = ()
    plugins: Sequence[Plugin] = ()
    log_jobs: bool = True
    """Collects what a job logs into metadata `river:log` (River's riverlog)."""
    job_log_formatter: logging.Formatter | None = None
    """Formats a record as a line of a job's log. Default: time, level, logger and message."""
    job_log_bytes: int = 2 * 1024 * 1024
    """Size limit of one attempt's log."""
    job_log_total_bytes: int = 8 * 1024 * 1024
    """Size limit of all attempts' logs together, at most 64 MiB; the oldest are dropped first."""
    threads: int | None = None
    """Threads for synchronous workers. Default: as many as the queues have workers, up to 64."""
    isolation_processes: int | None = None
    """Processes for workers with `isolation="process"`. Default: one per processor. They are
    started on demand and reused.
    """
    isolation_max_jobs: int | None = None
    """Jobs after which such a process is replaced. Default: never."""
    isolation_max_memory: int | None = None
    """Bytes of memory above which such a process is replaced once its job has ended. Default:
    never.
    """
    isolation_kill_after: timedelta = timedelta(seconds=5)
    """How long an isolated job may keep running after it was asked to end, before its process is
    killed.
    """
    skip_kind_validation: bool = False
    skip_unknown_job_check: bool = False
    """Allows inserting jobs whose kind has no worker in this client."""

    # Maintenance
    heartbeat_interval: timedelta = timedelta(seconds=20)
    """Time between two heartbeats, if riverui's table of clients exists. Jobs of a client that
    sends none for 3.5 times as long are rescued. NO_LIMIT disables heartbeats.
    """
    leader_election_disabled: bool = False
    discard_unknown_stuck_jobs: bool = False
    """Discards stuck jobs of kinds that the leader does not know, as River's leader does."""
    rescue_stuck_jobs_after: timedelta | None = None
    """Default: an hour, or an hour more than a `job_timeout` that is not the default."""
    cancelled_job_retention_period: timedelta = timedelta(hours=24)
    completed_job_retention_period: timedelta = timedelta(hours=24)
    discarded_job_retention_period: timedelta = timedelta(days=7)
    dead_letter: DeadLetterConfig | None = None
    """Keeps discarded jobs after their retention. Default: off."""
    job_cleaner_timeout: timedelta = timedelta(seconds=30)
    sequence_scheduler_interval: timedelta = timedelta(seconds=1)
    """How often the leader looks for sequences that were not advanced."""
    reindexer_schedule: Schedule | None = None
    """Default: daily at midnight UTC."""
    reindexer_index_names: Sequence[str] | None = None
    """Default: River's list. An empty list rebuilds nothing."""
    reindexer_timeout: timedelta = _MINUTE

    def __post_init__(self) -> None:
        check_schema(self.schema)
        # Outside the type, but programs without type checks write it for "no queues".
        queues: object = self.queues
        if queues is None:
            object.__setattr__(self, "queues", {})
        elif not isinstance(queues, Mapping):
            kind = type(queues).__name__
            raise ConfigError(f"queues must map names to QueueConfigs, not a {kind}.")
        if self.id is not None and not 0 < len(self.id) <= _MAX_ID_CHARACTERS:
            raise ConfigError(f"id must have 1 to {_MAX_ID_CHARACTERS} characters.")
        if self.fetch_cooldown is not None:
            check_span("fetch_cooldown", self.fetch_cooldown, least=_MILLISECOND)
        check_span("fetch_poll_interval", self.fetch_poll_interval, least=_MILLISECOND)
        check_span(
            "workflow_timer_poller_interval",
            self.workflow_timer_poller_interval,
            least=_MILLISECOND,
        )
        check_span(
            "heartbeat_interval",
            self.heartbeat_interval,
            least=_SHORTEST_HEARTBEAT,
            or_no_limit=True,
        )
        check_span("job_stuck_threshold", self.job_stuck_threshold)
        check_span(
            "sequence_scheduler_interval", self.sequence_scheduler_interval, least=_MILLISECOND
        )
        if self.workflow_retention_period is not None:
            check_span("workflow_retention_period", self.workflow_retention_period)
        check_span("job_cleaner_timeout", self.job_cleaner_timeout, least=_MILLISECOND)
        if self.soft_stop_timeout is not None:
            check_span("soft_stop_timeout", self.soft_stop_timeout)
        for name in ("job_timeout", "reindexer_timeout"):
            check_span(name, getattr(self, name), least=_MILLISECOND, or_no_limit=True)
        for state in ("cancelled", "completed", "discarded"):
            name = f"{state}_job_retention_period"
            check_span(name, getattr(self, name), or_no_limit=True)
        check_span("rescue_stuck_jobs_after", self.rescue_after)
        if self.rescue_after < self.job_timeout:
            raise ConfigError("rescue_stuck_jobs_after must not be shorter than job_timeout.")
        if self.fetch_cooldown and self.fetch_poll_interval < self.fetch_cooldown:
            raise ConfigError("fetch_poll_interval must not be shorter than fetch_cooldown.")
        check_number("max_attempts", self.max_attempts, least=1)
        check_retry("retry", self.retry)
        if self.retry_policy is not None and self.retry is not None and self.retry.wait is not None:
            raise ConfigError("retry_policy and the wait of retry both say when: give one of them.")
        check_number("job_log_bytes", self.job_log_bytes, least=1)
        check_number("job_log_total_bytes", self.job_log_total_bytes, least=1, most=_MAX_LOG_BYTES)
        isolation = ("isolation_processes", "isolation_max_jobs", "isolation_max_memory")
        for name in ("threads", *isolation):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=1)
        check_span("isolation_kill_after", self.isolation_kill_after)
        for at, feature in enumerate(self.features):
            if not isinstance(feature, Feature):
                raise ConfigError(f"features must hold instances of features, not {feature!r}.")
            if type(feature) in map(type, self.features[:at]):
                raise ConfigError(f"features: {type(feature).__name__} is given twice.")
        check_type("durable_periodic_jobs", self.durable_periodic_jobs, "DurablePeriodicJobsConfig")
        check_type("dead_letter", self.dead_letter, "DeadLetterConfig")
        if self.leader_election_disabled and self.periodic_jobs:
            raise ConfigError("periodic_jobs must be empty with leader_election_disabled.")
        if self.queues and self.workers is None:
            raise ConfigError("workers must be given with queues.")
        for name, queue in self.queues.items():
            self.check_queue(name, queue)
        self.check_kinds()

    @property
    def rescue_after(self) -> timedelta:
        """How long after its start a running job counts as lost."""
        if self.rescue_stuck_jobs_after is not None:
            return self.rescue_stuck_jobs_after
        explicit = self.job_timeout > _NOTHING and self.job_timeout != _MINUTE
        return self.job_timeout + _HOUR if explicit else _HOUR

    @property
    def extensions(self) -> Extensions:
        """Hooks and middleware, by the methods that they override."""
        return Extensions.collect(self.hooks, self.middleware, self.plugins)

    @property
    def retention(self) -> Retention:
        """How long finished jobs are kept in queues without their own periods."""
        return Retention(
            cancelled=self.cancelled_job_retention_period,
            completed=self.completed_job_retention_period,
            discarded=self.discarded_job_retention_period,
        )

    def check_queue(self, name: str, queue: QueueConfig) -> None:
        """Raise ConfigError if a queue cannot have this name or these settings."""
        if not is_queue_name(name):
            raise ConfigError(
                f"queues: {name!r} is not a valid queue name: use up to 64 lower-case letters and"
                " digits, with single underscores or hyphens between them."
            )
        if not isinstance(queue, QueueConfig):
            raise ConfigError(f"queues: {name!r} needs a QueueConfig.")
        concurrency = queue.concurrency
        if concurrency and concurrency.global_limit and self.heartbeat_interval == NO_LIMIT:
            raise ConfigError(
                f"queues: {name!r}: a global_limit needs heartbeats (heartbeat_interval),"
                " which free the slots of a process that died."
            )
        cooldown = queue.fetch_cooldown or self.fetch_cooldown
        if cooldown and (queue.fetch_poll_interval or self.fetch_poll_interval) < cooldown:
            raise ConfigError(
                f"queues: {name!r}: fetch_poll_interval must not be shorter than fetch_cooldown."
            )

    def check_kinds(self) -> None:
        """Raise ConfigError if River would reject a worker's kind, unless kinds are not
        validated.
        """
        if self.workers is None or self.skip_kind_validation:
            return
        for kind in self.workers.kinds:
            if not is_kind(kind):
                raise ConfigError(
                    f"workers: {kind!r} is not a job kind: two or more letters, digits and"
                    " underscores, after the first also -[]<>/.·:+ (skip_kind_validation lets"
                    " others pass)."
                )
