"""The API of marks, the deploys and other moments that charts show."""

from __future__ import annotations

from riverui.features.marks.section import api
from riverui.web.http.context import Section

SECTION = Section(
    name="marks",
    api=api.ENDPOINTS,
    services=(api.MARKS,),
    marks=api.MARKS,
    rights={"marks.write": "mark deploys in charts"},
)
