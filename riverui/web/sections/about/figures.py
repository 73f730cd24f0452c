"""Deleting stored figures."""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.stored_figures import stored_figures_delete
from riverui.errors import BadRequest, NotSupported
from riverui.storage.tables import REMEDY
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.urls import url
from riverui.web.live.notices import Notice
from riverui.web.view.render import done

log = logging.getLogger("riverui.actions")

RIGHT = "figures.manage"
"""The right that it takes."""


async def delete(request: Request) -> Response:
    """Delete all stored figures, once that was confirmed."""
    board, posted = dashboard(request), await form(request)
    if posted.get("confirmed") != "1":
        raise BadRequest("Confirm that all stored figures shall be deleted.")
    if not await board.stored_figures.table.there():
        raise NotSupported(f"There are no stored figures: run `{REMEDY}`.")
    await stored_figures_delete(board.driver, time_limit=board.config.action_timeout)
    board.stored_figures.forget()
    log.info("stored figures deleted by %r", access(request).user)
    notice = Notice(
        level="success",
        title="Stored figures deleted",
        details=("They begin anew with what the rows of jobs tell.",),
    )
    return done(request, notice, next=url(request, "about"), changed="about")
