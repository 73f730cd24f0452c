"""What a front end asks for first: what there is, how much of it, and names to choose from."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, DatabaseUnavailable
from riverui.storage.interface.workflows import WORKFLOW_TABLES, WORKFLOWS
from riverui.web.api import requests, serializers
from riverui.web.http.context import dashboard

_NAMES = 100
"""Names in one answer, at most."""
_FACETS = ("job_kind", "queue_name")
"""River UI's words for what can be completed."""


async def autocomplete(request: Request) -> Response:
    """Answer with kinds or queues whose name contains a text, by name."""
    facet, match = requests.first(request, "facet"), requests.first(request, "match")
    after, exclude = requests.first(request, "after"), request.query_params.getlist("exclude")
    if facet not in _FACETS:
        raise BadRequest(
            f"Invalid facet {serializers.dump(facet[:40])}. Valid facets are: {', '.join(_FACETS)}"
        )
    async with dashboard(request).driver.reading() as executor:
        find = executor.job_kind_page if facet == "job_kind" else executor.queue_name_page
        names = await find(match=match, after=after, exclude=exclude, limit=_NAMES)
    return serializers.reply(serializers.listing(names))


async def features(request: Request) -> Response:
    """Answer which of River Pro's tables there are, and whether lists should hide the args."""
    board = dashboard(request)
    tables: frozenset[str] = frozenset()
    if WORKFLOWS in board.driver.capabilities:
        async with board.driver.reading() as executor:
            tables = frozenset(await WORKFLOWS.on(executor).pro_tables())
    extensions = {
        "durable_periodic_jobs": "river_periodic_job" in tables,
        "has_producer_table": "river_producer" in tables,
        "has_sequence_table": "river_job_sequence" in tables,
        "producer_queries": "river_producer" in tables,
        "workflow_queries": tables >= WORKFLOW_TABLES,
    }
    return serializers.reply(
        {"extensions": extensions, "job_list_hide_args_by_default": board.config.hide_args}
    )


async def states(request: Request) -> Response:
    """Answer how many jobs are in each state."""
    snapshot = await dashboard(request).counts.thorough()
    if snapshot.counts is None:
        raise snapshot.error or DatabaseUnavailable()
    counts = {state.value: snapshot.counts[state].value for state in JobState}
    return serializers.reply(dict(sorted(counts.items())))
