"""All operations together."""

from __future__ import annotations

from riverui.storage.postgres.indexes import Indexes
from riverui.storage.postgres.job_actions import JobActions
from riverui.storage.postgres.job_select import JobSelect
from riverui.storage.postgres.job_suggestions import JobSuggestions
from riverui.storage.postgres.job_upkeep import JobUpkeep
from riverui.storage.postgres.job_work import JobWork
from riverui.storage.postgres.jobs import Jobs
from riverui.storage.postgres.leader import Leader
from riverui.storage.postgres.pro import Pro
from riverui.storage.postgres.progress import Progress
from riverui.storage.postgres.queues import Queues
from riverui.storage.postgres.river_ui import RiverUI
from riverui.storage.postgres.server import Server


class PostgresExecutor(
    Jobs,
    JobActions,
    JobSelect,
    JobSuggestions,
    JobWork,
    JobUpkeep,
    Queues,
    RiverUI,
    Progress,
    Pro,
    Leader,
    Indexes,
    Server,
):
    """All operations, on one connection, in whatever transaction it is in."""
