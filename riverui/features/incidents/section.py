"""Incidents: problems with a beginning and an end."""

from __future__ import annotations

from riverui.features.incidents.watch import INCIDENTS
from riverui.web.http.context import Section

SECTION = Section(name="incidents", services=(INCIDENTS,))
