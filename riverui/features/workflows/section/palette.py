"""Workflows in the palette."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from starlette.requests import Request

from riverui.errors import RiveruiError
from riverui.features.workflows.domain.pages import WorkflowPageParams
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url
from riverui.web.view.contributions import MAX_SOURCE, PaletteEntry

_MIN_LENGTH = 2
"""Characters of a text that is looked for: one alone is in nearly all names."""
_TIMEOUT = timedelta(seconds=1)
"""Time limit of the query: later entries are useless while one types."""


async def find(request: Request, text: str) -> Sequence[PaletteEntry]:
    """Return workflows whose name contains the text, or whose id begins with it."""
    board = dashboard(request)
    if len(text) < _MIN_LENGTH or not await board.own_tables.seen(WorkflowPageStore):
        return ()
    asked = WorkflowPageParams(match=text, limit=MAX_SOURCE)
    try:
        async with board.driver.reading(timeout=_TIMEOUT) as executor:
            found = await WorkflowPageStore(executor).workflow_page_list(asked)
    except RiveruiError:
        return ()
    return [
        PaletteEntry(
            label=row.name or row.id,
            url=url(request, "workflows.show", id=row.id),
            icon="workflow",
            hint="workflow",
        )
        for row in found.rows
    ]
