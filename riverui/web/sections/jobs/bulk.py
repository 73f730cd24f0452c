"""Actions on all matching jobs: the preview, and the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.pace import pace_parameters
from riverui.actions.verbs import JobVerb, VerbParameter
from riverui.domain.jobs import JobListRow, JobState
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.storage.interface.params import (
    Count,
    CountKind,
    JobCutoff,
    JobFilter,
    JobPage,
    JobPageParams,
    total_count,
)
from riverui.web.auth.access import need
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.routes import GuardedRoute
from riverui.web.http.urls import local_path, url
from riverui.web.live import promises
from riverui.web.live.notices import Notice
from riverui.web.search import addresses, query
from riverui.web.search.addresses import Listing
from riverui.web.search.groups import GroupTerm, group_term
from riverui.web.search.search_problems import listing_problem
from riverui.web.sections.jobs.chosen import caution, suggestions
from riverui.web.view.format import jobs_by_state
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import done, respond

_SALT = "riverui.bulk"
_SAMPLES = 5
"""Jobs that the preview shows, so that one sees at a glance what is meant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkPreview:
    """What an action on all matching jobs would touch, before it starts."""

    template: ClassVar[str] = "jobs/bulk.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "jobs/_bulk.html"}

    verb: JobVerb
    suggestions: Mapping[str, Sequence[str]]
    """Texts to choose from, by the name of the verb's parameter."""
    pace: tuple[VerbParameter, ...]
    """What may be asked for of its pace."""
    filter_text: str
    """The filter in words, e.g. `state:retryable kind:mail`; "every job" when empty."""
    count: Count
    jobs: str
    """How many jobs in which states, in words."""
    narrowed: bool
    """Whether jobs in other states are left out because no state was named."""
    kinds: tuple[tuple[str, int], ...]
    """The commonest kinds, with their numbers among the jobs looked at."""
    looked_at: int
    samples: tuple[JobListRow, ...]
    cutoff_at: datetime
    token: str
    """Signed: verb, filter and cutoff. Posting it back starts the operation. Empty when no job
    matches.
    """
    next: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Answer with what a verb would do to all jobs of a list."""
    verb = _verb(request.query_params.get("verb", ""))
    need(request, verb.right)
    board, now = dashboard(request), datetime.now(UTC)
    looked_at = board.limits.preview_jobs
    listing, _ = addresses.read(
        request.query_params, now=now, default_limit=looked_at, besides=("next", "verb", "group")
    )
    next_url = local_path(
        request, request.query_params.get("next"), default=url(request, "jobs.index")
    )
    if problem := listing_problem(listing):
        raise BadRequest(problem.detail)
    states = verb.states(listing.states)
    if not states:
        return respond(request, _nothing(verb, listing, now, next_url))
    group = await _group(request)
    terms = (*listing.search.terms, group.term) if group else listing.search.terms
    matching = JobFilter(states=query.normal_states(states), terms=terms)
    async with board.driver.reading() as executor:
        cutoff = await executor.job_cutoff()
        page = await executor.job_list(
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
            suggestions=await suggestions(request, verb),
            pace=pace_parameters(verb),
            filter_text=f"{len(group.term.values):,} jobs with the error “{group.title}”"
            if group
            else text,
            count=count,
            jobs=jobs_by_state(counts),
            narrowed=not listing.states and verb.unnamed is not None and group is None,
            kinds=tuple(Counter(row.kind for row in page.rows).most_common(8)),
            looked_at=len(page.rows),
            samples=page.rows[:_SAMPLES],
            cutoff_at=cutoff.at,
            token=promises.token(request, verb, text, cutoff, count, salt=_SALT),
            next=next_url,
            problem=None,
        ),
    )


async def start(verb: JobVerb, request: Request) -> Response:
    """Start to do a verb to all jobs of a preview."""
    operation = await promises.begin(
        request,
        verb,
        await form(request),
        salt=_SALT,
        order=lambda matching: addresses.default_order(matching.states),
    )
    told = await caution(request, verb, operation.given)
    notice = Notice(
        level="warning" if told else "info",
        title=f"{verb.label} all matching: started",
        details=(told,) if told else (),
    )
    next_url = url(request, "operations.show", id=operation.id)
    return done(request, notice, next=next_url, changed="operations")


ROUTES = (
    GuardedRoute("GET", "/jobs/bulk", "jobs.bulk", "jobs.read", index),
    *(
        GuardedRoute(
            "POST",
            f"/jobs/bulk/{verb.name}",
            f"jobs.bulk_{verb.name}",
            verb.right,
            partial(start, verb),
        )
        for verb in JOB_VERBS.values()
    ),
)
"""The preview, and an address that starts each verb."""


async def _group(request: Request) -> GroupTerm | None:
    """Return the jobs of the error group that the address names; None where it names none.

    Raises NotFound where there are no jobs of that group.
    """
    asked = request.query_params.get("group")
    if not asked:
        return None
    group = await dashboard(request).error_groups.find(asked)
    if group is None or not group.jobs:
        raise NotFound("No job of this error group was found: they were retried, or are gone.")
    return group_term(group)


async def _counts(
    request: Request, matching: JobFilter, cutoff: JobCutoff, page: JobPage
) -> Mapping[JobState, Count]:
    """Return how many jobs of each state match: of the page where it has all of them, or where
    counting takes too long.
    """
    states, board = matching.states or tuple(JobState), dashboard(request)
    if page.more:
        try:
            async with board.driver.reading() as executor:
                return {
                    state: await executor.job_count(
                        replace(matching, states=(state,)),
                        cap=board.config.count_cap,
                        cutoff=cutoff,
                    )
                    for state in states
                }
        except QueryTimeout:
            pass
    # Where a window ended the search, counting would look at the same part of the table once more.
    whole = not page.more and page.searched is None
    kind = CountKind.EXACT if whole else CountKind.AT_LEAST
    found = Counter(row.state for row in page.rows)
    return {state: Count(value=found[state], kind=kind) for state in states}


def _nothing(verb: JobVerb, listing: Listing, now: datetime, next_url: str) -> BulkPreview:
    shown = " and ".join(listing.states)
    return BulkPreview(
        verb=verb,
        suggestions={},
        pace=(),
        filter_text=query.format(listing.filter),
        count=Count(value=0),
        jobs="0 jobs",
        narrowed=False,
        kinds=(),
        looked_at=0,
        samples=(),
        cutoff_at=now,
        token="",
        next=next_url,
        problem=Problem(title=f"There is nothing to {verb.name} among {shown} jobs."),
    )


def _verb(text: str) -> JobVerb:
    if text not in JOB_VERBS:
        raise BadRequest(f"Choose one of {', '.join(JOB_VERBS)}.")
    return JOB_VERBS[text]
