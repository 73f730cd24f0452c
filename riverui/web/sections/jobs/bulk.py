"""Actions on all matching jobs: the preview and the start; the feature `operations` runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.features.operations.bulk_tokens import (
    SAMPLES,
    BulkPreview,
    bulk_token,
    start_previewed,
)
from riverui.features.operations.verbs import pace_parameters, read_pace
from riverui.storage.interface.params import (
    Count,
    CountKind,
    JobCutoff,
    JobFilter,
    JobPage,
    JobPageParams,
    total_count,
)
from riverui.web.http.context import dashboard, need
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import addresses, query
from riverui.web.search.addresses import Listing, listing_problem
from riverui.web.sections.jobs.selected_jobs import suggestions
from riverui.web.view.contributions import JobGroup
from riverui.web.view.format import jobs_by_state
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond


async def index(request: Request) -> Response:
    """Answer with what a verb would do to all jobs of a list."""
    verb = _verb(request.query_params.get("verb", ""))
    need(request, verb.right)
    board, now = dashboard(request), datetime.now(UTC)
    looked_at = board.limits.preview_jobs
    besides = ("next", "verb", "group", *(each.name for each in pace_parameters(verb)))
    listing, _ = addresses.read(
        request.query_params, now=now, default_limit=looked_at, besides=besides
    )
    next_url = local_path(
        request, request.query_params.get("next"), default=url(request, "jobs.index")
    )
    if problem := listing_problem(listing):
        raise BadRequest(problem.detail)
    states = verb.states(listing.states)
    if not states:
        return respond(request, _nothing(request, verb, listing, now, next_url))
    group = await _group(request)
    terms = (*listing.search.terms, group.term) if group else listing.search.terms
    matching = JobFilter(states=query.normal_states(states), terms=terms)
    async with board.driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
        page = await executor.jobs.list(
            JobPageParams(
                filter=matching,
                order=addresses.default_order(matching.states),
                limit=looked_at,
                window=board.config.search_window,
                cutoff=cutoff,
            )
        )
    counts = await _counts(request, matching, cutoff, page)
    count = total_count(counts.values())
    text = query.format(matching)
    return respond(
        request,
        BulkPreview(
            verb=verb,
            action=url(request, f"jobs.bulk_{verb.name}"),
            noun="job",
            found=jobs_by_state(counts),
            count=count,
            filter_text=f"{len(group.term.values):,} jobs {group.title}" if group else text,
            cutoff_at=cutoff.at,
            samples=page.rows[:SAMPLES],
            token=bulk_token(request, verb, text, cutoff, count),
            next=next_url,
            suggestions=await suggestions(request, verb),
            paced=read_pace(verb, request.query_params).stored,
            narrowed=not listing.states and verb.unnamed is not None and group is None,
            kinds=tuple(Counter(row.kind for row in page.rows).most_common(8)),
            looked_at=len(page.rows),
        ),
    )


ROUTES = (
    GuardedRoute("GET", "/jobs/bulk", "jobs.bulk", "jobs.read", index),
    *(
        GuardedRoute(
            "POST",
            f"/jobs/bulk/{verb.name}",
            f"jobs.bulk_{verb.name}",
            verb.right,
            partial(start_previewed, verb),
        )
        for verb in JOB_VERBS.values()
    ),
)
"""The preview, and an address that starts each verb."""


async def _group(request: Request) -> JobGroup | None:
    """Return the jobs that the parameter `group` names; None without it.

    Raise NotFound if there are none.
    """
    find, asked = dashboard(request).sections.job_group, request.query_params.get("group")
    if not asked:
        return None
    if find is None:
        raise NotFound("This dashboard has no groups of jobs.")
    return await find(request, asked)


async def _counts(
    request: Request, matching: JobFilter, cutoff: JobCutoff, page: JobPage
) -> Mapping[JobState, Count]:
    """Return how many jobs of each state match: counted on the page if it has all of them, or if
    the database takes too long to count.
    """
    states, board = matching.states or tuple(JobState), dashboard(request)
    if page.more:
        try:
            async with board.driver.reading() as executor:
                return {
                    state: await executor.jobs.count(
                        replace(matching, states=(state,)),
                        cap=board.config.count_cap,
                        cutoff=cutoff,
                    )
                    for state in states
                }
        except QueryTimeout:
            pass
    # If a window ended the search, counting would only scan the same part of the table again.
    whole = not page.more and page.searched is None
    kind = CountKind.EXACT if whole else CountKind.AT_LEAST
    found = Counter(row.state for row in page.rows)
    return {state: Count(value=found[state], kind=kind) for state in states}


def _nothing(
    request: Request, verb: JobVerb, listing: Listing, now: datetime, next_url: str
) -> BulkPreview:
    shown = " and ".join(listing.states)
    return BulkPreview(
        verb=verb,
        action=url(request, f"jobs.bulk_{verb.name}"),
        noun="job",
        found="0 jobs",
        count=Count(value=0),
        filter_text=query.format(listing.filter),
        cutoff_at=now,
        samples=(),
        token="",
        next=next_url,
        problem=Problem(title=f"There is nothing to {verb.name} among {shown} jobs."),
    )


def _verb(text: str) -> JobVerb:
    if text not in JOB_VERBS:
        raise BadRequest(f"Choose one of {', '.join(JOB_VERBS)}.")
    return JOB_VERBS[text]
