"""The pages and the API, a folder a section; this is the list of them.

A section is added by a folder with its record, its templates, and one line below.
"""

from __future__ import annotations

from riverui.web.http.section import Section
from riverui.web.sections import (
    about,
    dead_letters,
    errors,
    jobs,
    kinds,
    marks,
    operations,
    overview,
    periodic,
    queues,
    river_ui,
    workers,
    workflows,
)

SECTIONS: tuple[Section, ...] = (
    overview.SECTION,
    jobs.SECTION,
    queues.SECTION,
    kinds.SECTION,
    periodic.SECTION,
    workflows.SECTION,
    dead_letters.SECTION,
    errors.SECTION,
    workers.SECTION,
    operations.SECTION,
    about.SECTION,
    marks.SECTION,
    river_ui.SECTION,
)
"""In the order of the navigation. The first one's list is where people without another aim go."""
