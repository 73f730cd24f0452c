"""Actions on all matching dead letters: the preview and the start; see the feature operations."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import BadRequest
from riverui.features.dead_letters import filter as dead_letter_filter
from riverui.features.dead_letters.section.index import read_filter
from riverui.features.dead_letters.section.missing import missing_table_as
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.features.dead_letters.verbs import DEAD_LETTER_VERBS
from riverui.features.operations.bulk_tokens import (
    SAMPLES,
    BulkPreview,
    bulk_token,
    start_previewed,
)
from riverui.storage.interface.params import JobCutoff
from riverui.web.http.context import dashboard, need
from riverui.web.http.request_context import local_path, only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query
from riverui.web.view.format import count_text
from riverui.web.view.render import respond

_BEYOND = 2**63 - 1
"""An id that no job exceeds: the largest bigint."""
_VERBS = {
    verb.on_dead_letters.name: verb for verb in DEAD_LETTER_VERBS.values() if verb.on_dead_letters
}
"""The verbs by their names in URLs."""


async def preview(request: Request) -> Response:
    """Show what a verb would do to all dead letters of a list."""
    only(request, "kind", "queue", "match", "verb", "next")
    name = request.query_params.get("verb", "")
    if name not in _VERBS:
        raise BadRequest(f"Choose {' or '.join(_VERBS)}.")
    verb = _VERBS[name]
    need(request, verb.right)
    board, asked, now = dashboard(request), read_filter(request), datetime.now(UTC)
    home = url(request, "dead_letters.index")
    matching = dead_letter_filter.terms(kind=asked.kind, queue=asked.queue, error=asked.match)
    text = query.format(matching)
    if query.parse_own(text, now=now).filter() != matching:
        raise BadRequest(
            "These names cannot be written as a query: select dead letters one by one."
        )
    params = replace(dead_letter_filter.params(matching), after=(now, _BEYOND), limit=SAMPLES)
    with missing_table_as(BadRequest):
        async with board.driver.reading() as executor:
            letters = DeadLetterStore(executor)
            page = await letters.dead_job_list(params)
            count = await letters.dead_job_count(replace(params, window=board.config.count_cap))
    return respond(
        request,
        BulkPreview(
            verb=verb,
            action=url(request, f"dead_letters.bulk_{name}"),
            noun="dead letter",
            found=f"{count_text(count)} dead letter{'' if count.value == 1 else 's'}",
            count=count,
            filter_text=text,
            cutoff_at=now,
            samples=tuple(row.job for row in page.rows),
            token=bulk_token(request, verb, text, JobCutoff(id=_BEYOND, at=now), count),
            next=local_path(request, request.query_params.get("next"), default=home),
        ),
    )


ROUTES = (
    GuardedRoute("GET", "/dead-letters/bulk", "dead_letters.bulk", "jobs.read", preview),
    *(
        GuardedRoute(
            "POST",
            f"/dead-letters/bulk/{name}",
            f"dead_letters.bulk_{name}",
            verb.right,
            partial(start_previewed, verb),
        )
        for name, verb in _VERBS.items()
    ),
)
"""The preview, and one route per verb that starts it."""
