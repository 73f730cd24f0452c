"""What one dashboard app holds while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from itsdangerous import URLSafeTimedSerializer
from jinja2 import Environment
from starlette.requests import HTTPConnection

from riverui.actions.new_jobs import JobInserter
from riverui.actions.pilot import JobPilot
from riverui.domain.health import HealthReport
from riverui.domain.periodic import PeriodicHistories
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.operations.runner import Operations
from riverui.features.workflows.waits.expressions import Expressions
from riverui.storage.interface import Driver
from riverui.web.api.time_limits import ApiTimeLimits
from riverui.web.config import DashboardConfig
from riverui.web.http.admission import Admission
from riverui.web.http.paths import Urls
from riverui.web.http.static import StaticFiles
from riverui.web.limits import DashboardLimits
from riverui.web.live.counts import Counts
from riverui.web.live.kept_reading import KeptReading
from riverui.web.live.metrics import Metrics
from riverui.web.live.own_table import OwnTableWatch
from riverui.web.live.read_replica import ReadReplica
from riverui.web.live.refreshes import Refreshes
from riverui.web.search.long_searches import Searches
from riverui.web.search.suggestions import Suggestions
from riverui.web.view.kept_parts import KeptParts
from riverui.web.view.navigation import NavEntry, Shortcut
from riverui.web.view.preferences import Preferences

if TYPE_CHECKING:
    from riverui.features.error_groups.reader import ErrorGroups
    from riverui.features.marks.reader import Marks
    from riverui.web.view.job_cards import JobCard


@dataclass(kw_only=True, slots=True)
class Dashboard:
    """One dashboard: its database, settings and what its requests share."""

    admission: Admission
    api_time_limits: ApiTimeLimits
    config: DashboardConfig
    counts: Counts
    driver: Driver
    environment: Environment
    error_groups: ErrorGroups
    """Tells which failed jobs have the same error."""
    expressions: Expressions
    """Evaluates conditions of waits."""
    figures: FigureReader
    """What was done over time."""
    health: KeptReading[HealthReport]
    """Tells whether the jobs are well, as of some seconds ago at most."""
    inserter: JobInserter | None
    """Inserts jobs; None where this dashboard cannot."""
    job_cards: Sequence[JobCard]
    """What sections add to the page of a job."""
    limits: DashboardLimits
    marks: Marks
    metrics: Metrics
    name: str
    """This process's, by which other dashboards of the database know it."""
    navigation: Mapping[str, NavEntry]
    """Entries of the navigation in their order, by section."""
    operations: Operations
    own_tables: OwnTableWatch
    """Tables of riverui's own without which a section has nothing to show, by name."""
    parts: KeptParts
    """Parts of pages that were drawn lately."""
    periodic: KeptReading[PeriodicHistories]
    """Periodic jobs, as far as rows tell."""
    pilot: JobPilot
    """Carries out the verbs on jobs: a client's features may take part."""
    read_preferences: Callable[[str], Preferences]
    """Reads a cookie of preferences; raises BadData for one that is not ours."""
    refreshes: Refreshes
    replica: ReadReplica | None
    """What chooses between the database and a standby of it, where there is one."""
    rights: Mapping[str, str]
    """Every right, and what it lets one do, in words that go on from “You may”."""
    searches: Searches
    shortcuts: tuple[Shortcut, ...]
    """Lines of the help page."""
    signer: URLSafeTimedSerializer
    static: StaticFiles
    suggestions: Suggestions
    urls: Urls
    workers: int
    """Processes that answer on the same port, this one included."""

    async def close(self) -> None:
        """Stop what runs in the background. Whoever asks again has it begin anew."""
        if self.replica is not None:
            await self.replica.close()
        await self.operations.close()
        await self.refreshes.close()
        await self.counts.close()
        await self.error_groups.close()
        await self.figures.close()
        self.expressions.close()


def dashboard(request: HTTPConnection) -> Dashboard:
    """Return the dashboard that serves this request (a host may mount several)."""
    found: Dashboard = request.app.state.dashboard
    return found
