"""The interface between riverui and a database that holds River's tables.

A `Driver` knows the database and an `Executor` its operations, named as River names them. A
`Transaction` is an `Executor`: code written for an Executor runs inside a transaction or out of it,
and no method commits.

Every driver has what `Driver` and `Executor` name: `engine`, `browse` and `admin`, by who asks.
The other modules are optional parts, each with its Protocol and a `Capability`. A driver names in
`capabilities` those that it has; the program does without the others and says what is missing.

Every method may raise `DatabaseError` and its kinds (`QueryTimeout`, `SchemaMissing`, …).
"""

from __future__ import annotations

from typing import Any

from riverui.storage.interface.admin import AdminExecutor
from riverui.storage.interface.benchmarks import BENCHMARKS, BenchmarkExecutor
from riverui.storage.interface.browse import ESTIMATES, BrowseExecutor
from riverui.storage.interface.candidates import CANDIDATES, CandidateExecutor
from riverui.storage.interface.capabilities import Capability, Offering
from riverui.storage.interface.driver import Driver, Executor, Transaction
from riverui.storage.interface.engine import EngineExecutor
from riverui.storage.interface.explanations import EXPLANATIONS, ExplanationExecutor
from riverui.storage.interface.failed_jobs import ERRORS, ErrorExecutor
from riverui.storage.interface.figures import FIGURES, FigureExecutor
from riverui.storage.interface.health import HEALTH, HealthExecutor
from riverui.storage.interface.indexes import REINDEXING, IndexExecutor
from riverui.storage.interface.migrations import (
    MIGRATIONS,
    MigrationDriver,
    MigrationSource,
    MigrationSteps,
)
from riverui.storage.interface.notifications import (
    LISTENING,
    NOTIFYING,
    Listener,
    ListeningDriver,
    NotifyExecutor,
)
from riverui.storage.interface.own_tables import OWN_TABLES, OwnTablesExecutor
from riverui.storage.interface.periodic_runs import PERIODIC_RUNS, PeriodicRunExecutor
from riverui.storage.interface.replication import REPLICATION, ReplicationExecutor
from riverui.storage.interface.rollups import ROLLUPS, RollupExecutor
from riverui.storage.interface.server import SERVER, ServerExecutor
from riverui.storage.interface.suggestions import SUGGESTIONS, SuggestionExecutor
from riverui.storage.interface.sync_driver import (
    SyncDriver,
    SyncListener,
    SyncListeningDriver,
    TwoSidedDriver,
    WouldWait,
    at_once,
    entered,
)
from riverui.storage.interface.transactions import TRANSACTION_STATUS, TransactionStatusExecutor
from riverui.storage.interface.workflow_pages import WORKFLOW_PAGES, WorkflowPageExecutor
from riverui.storage.interface.workflows import WORKFLOWS, WorkflowExecutor
from riverui.storage.interface.working import WORKING, WorkingDriver

__all__ = [
    "BENCHMARKS",
    "CANDIDATES",
    "CAPABILITIES",
    "ERRORS",
    "ESTIMATES",
    "EXPLANATIONS",
    "FIGURES",
    "HEALTH",
    "LISTENING",
    "MIGRATIONS",
    "NOTIFYING",
    "OWN_TABLES",
    "PERIODIC_RUNS",
    "REINDEXING",
    "REPLICATION",
    "ROLLUPS",
    "SERVER",
    "SUGGESTIONS",
    "TRANSACTION_STATUS",
    "WORKFLOWS",
    "WORKFLOW_PAGES",
    "WORKING",
    "AdminExecutor",
    "BenchmarkExecutor",
    "BrowseExecutor",
    "CandidateExecutor",
    "Capability",
    "Driver",
    "EngineExecutor",
    "ErrorExecutor",
    "Executor",
    "ExplanationExecutor",
    "FigureExecutor",
    "HealthExecutor",
    "IndexExecutor",
    "Listener",
    "ListeningDriver",
    "MigrationDriver",
    "MigrationSource",
    "MigrationSteps",
    "NotifyExecutor",
    "Offering",
    "OwnTablesExecutor",
    "PeriodicRunExecutor",
    "ReplicationExecutor",
    "RollupExecutor",
    "ServerExecutor",
    "SuggestionExecutor",
    "SyncDriver",
    "SyncListener",
    "SyncListeningDriver",
    "Transaction",
    "TransactionStatusExecutor",
    "TwoSidedDriver",
    "WorkflowExecutor",
    "WorkflowPageExecutor",
    "WorkingDriver",
    "WouldWait",
    "at_once",
    "entered",
    "missing",
]

CAPABILITIES: tuple[Capability[Any], ...] = (
    WORKING,
    LISTENING,
    NOTIFYING,
    REINDEXING,
    TRANSACTION_STATUS,
    CANDIDATES,
    WORKFLOWS,
    WORKFLOW_PAGES,
    SUGGESTIONS,
    ESTIMATES,
    EXPLANATIONS,
    PERIODIC_RUNS,
    FIGURES,
    HEALTH,
    SERVER,
    REPLICATION,
    OWN_TABLES,
    ROLLUPS,
    ERRORS,
    MIGRATIONS,
    BENCHMARKS,
)
"""Every optional part of the interface; those that matter most to the work of jobs come first."""


def missing(offering: Offering) -> tuple[Capability[Any], ...]:
    """Return the optional parts that a driver does not offer, in the order of CAPABILITIES."""
    return tuple(part for part in CAPABILITIES if part not in offering.capabilities)
