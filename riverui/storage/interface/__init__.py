"""The interface between riverui and a database that holds River's tables.

A `Driver` is a database, and an `Executor` has its operations in four parts, under River's names:
`jobs`, `work`, `queues` and `leader`. A `Transaction` is an `Executor`: code that takes an Executor
runs inside a transaction or out of it, and no method commits.

Every driver has what `Driver` and `Executor` name.
The other modules are optional parts, each with its Protocol and a `Capability`. A driver names in
`capabilities` those that it has; the program does without the others and says what is missing.

Every method may raise `DatabaseError` and its subclasses (`QueryTimeout`, `SchemaMissing`, …).
"""

from __future__ import annotations

from typing import Any

from riverui.storage.interface.capabilities import SQL, Capability, Offering
from riverui.storage.interface.driver import Driver, Executor, Transaction
from riverui.storage.interface.jobs import Jobs
from riverui.storage.interface.leader import Leader
from riverui.storage.interface.migrations import (
    MIGRATIONS,
    MigrationDriver,
    MigrationSource,
    MigrationSteps,
)
from riverui.storage.interface.notifications import (
    LISTENING,
    Listener,
    ListeningDriver,
)
from riverui.storage.interface.queues import Queues
from riverui.storage.interface.sync_driver import (
    SyncDriver,
    SyncListener,
    SyncListeningDriver,
    TwoSidedDriver,
    WouldWait,
    at_once,
    entered,
)
from riverui.storage.interface.work import Work
from riverui.storage.interface.working import WORKING, WorkingDriver

__all__ = [
    "CAPABILITIES",
    "LISTENING",
    "MIGRATIONS",
    "SQL",
    "WORKING",
    "Capability",
    "Driver",
    "Executor",
    "Jobs",
    "Leader",
    "Listener",
    "ListeningDriver",
    "MigrationDriver",
    "MigrationSource",
    "MigrationSteps",
    "Offering",
    "Queues",
    "SyncDriver",
    "SyncListener",
    "SyncListeningDriver",
    "Transaction",
    "TwoSidedDriver",
    "Work",
    "WorkingDriver",
    "WouldWait",
    "at_once",
    "entered",
]

CAPABILITIES: tuple[Capability[Any], ...] = (
    WORKING,
    LISTENING,
    SQL,
    MIGRATIONS,
)
"""Every optional part of the interface; those that matter most to the work of jobs come first."""
