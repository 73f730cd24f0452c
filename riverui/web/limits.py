"""How much the dashboard does at once and how often. Only tests need to change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from riverui.features.figures.reader.limits import FigureLimits
from riverui.web.http.admission import AdmissionLimits
from riverui.web.http.counts import CountLimits
from riverui.web.http.probe import TIMEOUT_SECONDS
from riverui.web.http.read_replica import ReplicaTimes
from riverui.web.http.refreshes import RefreshLimits

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class DashboardLimits:
    """The limits of one dashboard."""

    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    answer_seconds: float = 10.0
    """Until a response has to begin: as long as people, and most programs, wait. It is longer if
    the time limit of a page's statement exceeds half of it.
    """
    counts: CountLimits = field(default_factory=CountLimits)
    figures: FigureLimits = field(default_factory=FigureLimits)
    refreshes: RefreshLimits = field(default_factory=RefreshLimits)
    replica_times: ReplicaTimes = field(default_factory=ReplicaTimes)
    health_seconds: float = 5.0
    """Seconds for which a health report is reused: problems develop over minutes."""
    long_api_lists: int = 2
    """Lists of the API that may take longer than a page at the same time: half of the connections
    of a pool of the usual size.
    """
    periodic_seconds: float = 10.0
    """Seconds for which periodic jobs are reused: reading them takes some 60 ms."""
    probe_seconds: float = TIMEOUT_SECONDS
    """Time limit for the database to answer a health check."""
    tables_seconds: float = 5.0
    """Seconds between two checks for the tables, at the start of a dashboard whose database does
    not answer yet.
    """
    preview_jobs: int = 200
    """Matching jobs that the preview of a bulk action reads to count their kinds."""
    preview_seconds: int = 15 * 60
    """How long such a preview may be acted on."""
    features: tuple[object, ...] = ()
    """Limits of features, one dataclass each, instead of their defaults."""

    def get(self, kind: type[T]) -> T:
        """Return the limits of a feature by their class."""
        return next((found for found in self.features if isinstance(found, kind)), None) or kind()
