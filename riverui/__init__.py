"""River for Python: a Client that inserts and works jobs, and `create_app`, the dashboard as an
ASGI app.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool
    from sqlalchemy.ext.asyncio import AsyncEngine
    from starlette.applications import Starlette

    from riverui import errors as errors, testing as testing
    from riverui.actions.new_jobs import JobInserter
    from riverui.contrib.otel import OpenTelemetryPlugin as OpenTelemetryPlugin
    from riverui.contrib.prometheus import PrometheusPlugin
    from riverui.contrib.sentry import SentryPlugin as SentryPlugin
    from riverui.domain.jobs import AttemptError, JobRow, JobState
    from riverui.domain.partitions import PartitionConfig
    from riverui.domain.queues import QueueRow
    from riverui.domain.retries import Retry, exponential, fixed, fourth_power, linear
    from riverui.domain.schedules import CronSchedule, NeverSchedule, PeriodicInterval, Schedule
    from riverui.engine.args.job_args import JobArgs, JsonArgs, Unique
    from riverui.engine.client import AsyncClient, Client, client_from_context
    from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
    from riverui.engine.events import Event, EventKind, JobStats
    from riverui.engine.hooks import (
        DoInner,
        Hook,
        Metric,
        Middleware,
        Plugin,
        WorkingClient,
    )
    from riverui.engine.insert.insert_opts import (
        InsertKeywords,
        InsertManyParams,
        InsertOpts,
        InsertRequest,
        UniqueOpts,
    )
    from riverui.engine.job_lists import (
        JobDeleteManyParams,
        JobListCursor,
        JobListOrder,
        JobListParams,
        JobListResult,
    )
    from riverui.engine.lead.periodic import PeriodicJob
    from riverui.engine.retention import Retention
    from riverui.engine.sync_client import SyncClient
    from riverui.engine.work.context import (
        as_job,
        cancel_requested,
        current_job,
        job_complete_tx,
        metadata_set,
        raise_if_cancelled,
        record_output,
    )
    from riverui.engine.work.resumable import (
        resumable_set_cursor,
        resumable_set_step_cursor_tx,
        resumable_set_step_tx,
        resumable_step,
        resumable_step_cursor,
        resumable_step_cursor_sync,
        resumable_step_sync,
    )
    from riverui.engine.work.tasks import Task, TaskArgs, TaskInserter, TaskWithJob
    from riverui.engine.work.worker import (
        BatchError,
        BatchWorker,
        ErrorResult,
        Job,
        JobCancel,
        JobSnooze,
        StuckJob,
        StuckResult,
        Worker,
    )
    from riverui.engine.work.workers import Workers
    from riverui.features.concurrency.domain import ConcurrencyConfig
    from riverui.features.dead_letters.domain import DeadJob
    from riverui.features.dead_letters.engine.bundle import (
        DeadLetterBundle,
        DeadLetterListParams,
        DeadLetterListResult,
        SyncDeadLetterBundle,
    )
    from riverui.features.dead_letters.engine.config import DeadLetterConfig
    from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
    from riverui.features.encryption.domain import ArgsKeys
    from riverui.features.encryption.engine import Encryption
    from riverui.features.fair_shares.domain import FairShare
    from riverui.features.rate_limits.domain import RateLimit
    from riverui.features.retention.engine import QueueRetention
    from riverui.features.sequences.engine.opts import SequenceOpts
    from riverui.features.workflows.engine.builder import WorkflowMap, WorkflowTask
    from riverui.features.workflows.engine.bundle import SyncWorkflowBundle, WorkflowBundle
    from riverui.features.workflows.engine.loading import LoadedTask, LoadedTasks
    from riverui.features.workflows.engine.workflow import SyncWorkflow, Workflow
    from riverui.features.workflows.waits.domain import (
        SignalTerm,
        Term,
        TimerTerm,
        Wait,
        task_finalized_at,
    )
    from riverui.features.workflows.waits.engine.signals import Signal, SignalList
    from riverui.features.workflows.waits.verbs.diagnosis import WaitDiagnosis
    from riverui.storage.connect import connect
    from riverui.storage.interface import Driver
    from riverui.storage.interface.engine_params import InsertResult
    from riverui.storage.migrations import migrate
    from riverui.storage.where import Where
    from riverui.web.auth.rights import Access, Authenticate
    from riverui.web.config import DashboardConfig

__version__ = "0.1.0"
__all__ = [
    "NO_LIMIT",
    "Access",
    "ArgsKeys",
    "AsyncClient",
    "AttemptError",
    "BatchError",
    "BatchWorker",
    "Client",
    "ClientConfig",
    "ConcurrencyConfig",
    "CronSchedule",
    "DashboardConfig",
    "DeadJob",
    "DeadLetterBundle",
    "DeadLetterConfig",
    "DeadLetterListParams",
    "DeadLetterListResult",
    "DoInner",
    "DurablePeriodicJobsConfig",
    "Encryption",
    "ErrorResult",
    "Event",
    "EventKind",
    "FairShare",
    "Hook",
    "InsertKeywords",
    "InsertManyParams",
    "InsertOpts",
    "InsertRequest",
    "InsertResult",
    "Job",
    "JobArgs",
    "JobCancel",
    "JobDeleteManyParams",
    "JobListCursor",
    "JobListOrder",
    "JobListParams",
    "JobListResult",
    "JobRow",
    "JobSnooze",
    "JobState",
    "JobStats",
    "JsonArgs",
    "LoadedTask",
    "LoadedTasks",
    "Metric",
    "Middleware",
    "NeverSchedule",
    "PartitionConfig",
    "PeriodicInterval",
    "PeriodicJob",
    "Plugin",
    "PrometheusPlugin",
    "QueueConfig",
    "QueueRetention",
    "QueueRow",
    "RateLimit",
    "Retention",
    "Retry",
    "Schedule",
    "SequenceOpts",
    "Signal",
    "SignalList",
    "SignalTerm",
    "StuckJob",
    "StuckResult",
    "SyncClient",
    "SyncDeadLetterBundle",
    "SyncWorkflow",
    "SyncWorkflowBundle",
    "Task",
    "TaskArgs",
    "TaskInserter",
    "TaskWithJob",
    "Term",
    "TimerTerm",
    "Unique",
    "UniqueOpts",
    "Wait",
    "WaitDiagnosis",
    "Where",
    "Worker",
    "Workers",
    "Workflow",
    "WorkflowBundle",
    "WorkflowMap",
    "WorkflowTask",
    "WorkingClient",
    "__version__",
    "as_job",
    "cancel_requested",
    "client_from_context",
    "connect",
    "create_app",
    "current_job",
    "exponential",
    "fixed",
    "fourth_power",
    "job_complete_tx",
    "linear",
    "metadata_set",
    "migrate",
    "raise_if_cancelled",
    "record_output",
    "resumable_set_cursor",
    "resumable_set_step_cursor_tx",
    "resumable_set_step_tx",
    "resumable_step",
    "resumable_step_cursor",
    "resumable_step_cursor_sync",
    "resumable_step_sync",
    "task_finalized_at",
]

_PLACES = {
    "web.config": "DashboardConfig",
    "features.workflows.waits.verbs.diagnosis": "WaitDiagnosis",
    "features.concurrency.domain": "ConcurrencyConfig",
    "features.dead_letters.domain": "DeadJob",
    "features.fair_shares.domain": "FairShare",
    "domain.jobs": "AttemptError JobRow JobState",
    "domain.partitions": "PartitionConfig",
    "domain.queues": "QueueRow",
    "features.rate_limits.domain": "RateLimit",
    "domain.retries": "Retry exponential fixed fourth_power linear",
    "features.encryption.domain": "ArgsKeys",
    "domain.schedules": "CronSchedule NeverSchedule PeriodicInterval Schedule",
    "features.workflows.waits.domain": "SignalTerm Term TimerTerm Wait task_finalized_at",
    "engine.args.job_args": "JobArgs JsonArgs Unique",
    "engine.client": "AsyncClient Client client_from_context",
    "engine.config": "ClientConfig NO_LIMIT QueueConfig",
    "engine.work.context": (
        "as_job cancel_requested current_job job_complete_tx metadata_set raise_if_cancelled "
        "record_output"
    ),
    "features.dead_letters.engine.bundle": (
        "DeadLetterBundle DeadLetterListParams DeadLetterListResult SyncDeadLetterBundle"
    ),
    "engine.events": "Event EventKind JobStats",
    "features.encryption.engine": "Encryption",
    "features.retention.engine": "QueueRetention",
    "features.sequences.engine.opts": "SequenceOpts",
    "features.workflows.waits.engine.signals": "Signal SignalList",
    "features.workflows.engine.builder": "WorkflowMap WorkflowTask",
    "features.workflows.engine.bundle": "SyncWorkflowBundle WorkflowBundle",
    "features.workflows.engine.loading": "LoadedTask LoadedTasks",
    "features.workflows.engine.workflow": "SyncWorkflow Workflow",
    "contrib.prometheus": "PrometheusPlugin",
    "engine.hooks": "DoInner Hook Metric Middleware Plugin WorkingClient",
    "engine.insert.insert_opts": (
        "InsertKeywords InsertManyParams InsertOpts InsertRequest UniqueOpts"
    ),
    "engine.job_lists": (
        "JobDeleteManyParams JobListCursor JobListOrder JobListParams JobListResult"
    ),
    "features.dead_letters.engine.config": "DeadLetterConfig",
    "features.durable_periodic.engine.config": "DurablePeriodicJobsConfig",
    "engine.lead.periodic": "PeriodicJob",
    "engine.retention": "Retention",
    "engine.work.resumable": (
        "resumable_set_cursor resumable_set_step_cursor_tx resumable_set_step_tx resumable_step "
        "resumable_step_cursor resumable_step_cursor_sync resumable_step_sync"
    ),
    "engine.sync_client": "SyncClient",
    "engine.work.tasks": "Task TaskArgs TaskInserter TaskWithJob",
    "engine.work.worker": (
        "BatchError BatchWorker ErrorResult Job JobCancel JobSnooze StuckJob StuckResult Worker"
    ),
    "engine.work.workers": "Workers",
    "storage.connect": "connect",
    "storage.interface.engine_params": "InsertResult",
    "storage.migrations": "migrate",
    "storage.where": "Where",
    "web.auth.rights": "Access",
}
"""Where the public names live: loaded when asked for, so that who wants a part pays for that part
alone.
"""
_EXTRAS = {"OpenTelemetryPlugin": "contrib.otel", "SentryPlugin": "contrib.sentry"}
"""Those that need an extra of their own, so that `from riverui import *` leaves them out."""
_MODULES = ("errors", "testing")
"""Public modules, that `import riverui` alone makes known too."""


def create_app(
    database: str | AsyncConnectionPool[Any] | AsyncEngine | Client | Driver | None = None,
    *,
    read: str | AsyncConnectionPool[Any] | Driver | None = None,
    schema: str | None = None,
    config: DashboardConfig | None = None,
    authenticate: Authenticate | None = None,
    basic_auth: tuple[str, str] | None = None,
    htpasswd: Path | str | None = None,
    api_tokens: Path | str | None = None,
    no_auth: bool = False,
    hosts: frozenset[str] | None = None,
) -> Starlette:
    """Return the dashboard of a River database as an ASGI app, to be served alone or mounted under
    any prefix.

    `database` is a URL, the host app's psycopg AsyncConnectionPool or SQLAlchemy AsyncEngine (never
    closed from here), a Client or its Driver; None leaves it to libpq's `PG*` variables. It is
    reached at first use, so the app needs no lifespan; where one does reach it, its end closes
    connections that riverui opened. `read` is a standby of that database, given in the same ways:
    what pages show is read there, and everything else done on the primary.

    Who may use it has to be said: `authenticate` (a function from Starlette's HTTPConnection to an
    Access, to None for nobody, or to a Response to send instead), `basic_auth` (user and password),
    `htpasswd` (a file), or `no_auth` where the app around it already decides. `api_tokens` (lines
    as `riverui token` prints them, or the Path of a file of them) let in programs besides, or
    alone. Raise ConfigError for what cannot be used.
    """
    from riverui.actions.new_jobs import LateInserter
    from riverui.actions.pilot import JobPilot, LatePilot
    from riverui.errors import ConfigError
    from riverui.storage.connect import driver_of
    from riverui.storage.options import ConnectOptions
    from riverui.web.app import build_app
    from riverui.web.auth.sign_in import SignIn
    from riverui.web.config import DashboardConfig
    from riverui.web.http.context import AppOptions

    config = config or DashboardConfig()
    # A client brings the driver that it has; an engine of SQLAlchemy only the name of one.
    brought = getattr(database, "driver", None)
    if getattr(brought, "is_synchronous", False):
        raise ConfigError(
            f"create_app cannot use a {type(database).__name__}: give the URL that it has, or an"
            " asyncio Client."
        )
    options = ConnectOptions(action_timeout=config.action_timeout, page_timeout=config.page_timeout)
    driver, is_own = driver_of(
        database if brought is None or isinstance(brought, str) else brought,
        schema=schema,
        options=options,
    )
    standby, is_own_standby = (
        (None, False)
        if read is None
        else driver_of(read, schema=schema or driver.schema, options=options)
    )
    sign_in = SignIn(
        authenticate=authenticate,
        basic_auth=basic_auth,
        htpasswd=htpasswd,
        api_tokens=api_tokens,
        no_auth=no_auth,
    )

    def inserter() -> JobInserter:
        from riverui.engine.client import Client
        from riverui.engine.insert import job_inserter

        return job_inserter.JobInserter(
            database if isinstance(database, Client) else Client(driver)
        )

    def warn_of_unstarted() -> None:
        import logging

        queues = getattr(getattr(database, "config", None), "queues", None)
        if queues and getattr(database, "runtime", None) is None:
            logging.getLogger("riverui").warning(
                "the dashboard's client has queues but was not started, so this process works no"
                " jobs: start it in the lifespan of the app that the server runs, or give"
                " create_app the URL"
            )

    def plain() -> JobPilot:
        from riverui.engine.feature_list import plain_pilot

        return plain_pilot()

    return build_app(
        driver,
        sign_in,
        config,
        pilot=getattr(database, "pilot", None) or LatePilot(plain),
        options=AppOptions(
            close_driver=is_own,
            close_standby=is_own_standby,
            first_request=warn_of_unstarted,
            hosts=hosts,
            inserter=LateInserter(inserter),
            standby=standby,
        ),
    )


if not TYPE_CHECKING:
    # Type checkers would take any name from it.
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"riverui.{name}")
        if name in _EXTRAS:
            return getattr(import_module(f"riverui.{_EXTRAS[name]}"), name)
        for place, names in _PLACES.items():
            if name in names.split():
                found = globals()[name] = getattr(import_module(f"riverui.{place}"), name)
                return found
        raise AttributeError(f"module 'riverui' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_EXTRAS, *_MODULES])
