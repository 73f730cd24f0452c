"""River Pro's workflows, periodic jobs and producers."""

from __future__ import annotations

from riverui.web.http.section import Section
from riverui.web.sections.workflows import api

SECTION = Section(
    name="workflows",
    api=api.ENDPOINTS,
)
