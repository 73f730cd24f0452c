"""All operations together."""

from __future__ import annotations

from riverui.storage.postgres.admin.job_actions import JobActions
from riverui.storage.postgres.browse.jobs import Jobs
from riverui.storage.postgres.browse.pro import Pro
from riverui.storage.postgres.browse.progress import Progress
from riverui.storage.postgres.browse.queues import Queues
from riverui.storage.postgres.browse.river_ui import RiverUI
from riverui.storage.postgres.browse.server import Server
from riverui.storage.postgres.browse.suggestions import JobSuggestions
from riverui.storage.postgres.engine.indexes import Indexes
from riverui.storage.postgres.engine.job_upkeep import JobUpkeep
from riverui.storage.postgres.engine.job_work import JobWork
from riverui.storage.postgres.engine.leader import Leader
from riverui.storage.postgres.job_list.select import JobSelect


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
