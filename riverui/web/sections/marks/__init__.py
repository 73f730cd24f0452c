"""Marks, the deploys and other moments that charts show: for programs that tell of them."""

from __future__ import annotations

from riverui.web.http.section import Section
from riverui.web.sections.marks import api

SECTION = Section(
    name="marks",
    api=api.ENDPOINTS,
    rights={"marks.write": "mark deploys in charts"},
)
