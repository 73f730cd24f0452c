"""The pages and the API, a folder a section; this is the list of them.

A section is added by a folder with its record, its templates, and one line below.
"""

from __future__ import annotations

from riverui.features.costs import section as costs
from riverui.features.database import section as database
from riverui.features.dead_letters import section as dead_letters
from riverui.features.error_groups import section as errors
from riverui.features.figures import section as figures
from riverui.features.heartbeats import section as workers
from riverui.features.incidents import section as incidents
from riverui.features.incidents.alerts import section as alerts
from riverui.features.marks import section as marks
from riverui.features.operations import section as operations
from riverui.features.sequences import section as sequences
from riverui.features.slo import section as slo
from riverui.features.workflows import section as workflows
from riverui.web.http.context import Sections
from riverui.web.sections import (
    about,
    jobs,
    kinds,
    overview,
    palette,
    periodic,
    queues,
    river_ui,
)

SECTIONS = Sections(
    overview.SECTION,
    incidents.SECTION,
    figures.SECTION,
    jobs.SECTION,
    queues.SECTION,
    slo.SECTION,
    kinds.SECTION,
    costs.SECTION,
    periodic.SECTION,
    workflows.SECTION,
    sequences.SECTION,
    dead_letters.SECTION,
    errors.SECTION,
    workers.SECTION,
    operations.SECTION,
    database.SECTION,
    about.SECTION,
    palette.SECTION,
    marks.SECTION,
    alerts.SECTION,
    river_ui.SECTION,
)
"""In the order of the navigation. Error pages link to the list of the first one."""
