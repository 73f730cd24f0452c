"""What there is, how much of it, and figures: for front ends and monitoring."""

from __future__ import annotations

from riverui.web.http.section import Section
from riverui.web.sections.overview import api, metrics

SECTION = Section(
    name="overview",
    api=(*api.ENDPOINTS, metrics.ENDPOINT),
    rights={"metrics.read": "read Prometheus metrics"},
)
