"""A comparison of one job with the last successful job of its kind, and with others that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobShowRow, JobState, JsonText
from riverui.domain.json import json_diff
from riverui.domain.sealed_args import sealed_args
from riverui.domain.time import duration
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface.params import (
    Field,
    JobFilter,
    JobOrder,
    JobPageParams,
    JsonPath,
    Op,
    Term,
)
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query
from riverui.web.view import timeline
from riverui.web.view.redaction import Redaction
from riverui.web.view.render import respond

_READ = 100_000
"""Characters of args, and of metadata, that are compared."""
_OTHERS = 40
"""Jobs of the kind that failed, and that completed, in which the values are counted."""
_PATHS = 20
"""Most values counted: the database looks up each of them in every one of these jobs."""
_WINDOW = 2_000
"""Rows to examine for these jobs: some milliseconds."""
_FEWEST = 3
"""Fewest other failed jobs that share a value for it to be more than chance."""
_STANDS_OUT = 0.3
"""How much more frequent a value must be in failed jobs than in completed ones (0 to 1)."""
_KEY = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One value that differs from that of the last good job."""

    name: str
    """Such as args.customer.id, or queue."""
    before: str | None
    """The other job's value; None if it has none."""
    after: str | None
    counts: tuple[int, int] = (0, 0)
    """How many of the others that failed, and of those that completed, have this job's value."""


_Values = tuple[str | None, ...]


class Others(NamedTuple):
    """The values at some paths: of the job itself and of others of its kind."""

    own: _Values = ()
    failed: Sequence[_Values] = ()
    """Of the latest that failed with the same error."""
    completed: Sequence[_Values] = ()
    """Of the latest that completed."""

    def counts(self, place: int) -> tuple[int, int]:
        """Return how many of those that failed and that completed have the job's own value."""
        if place >= len(self.own):
            return 0, 0
        value = self.own[place]
        failed, completed = (sum(values[place] == value for values in group) for group in self[1:])
        return failed, completed


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsCompare:
    """A job compared with another one, and with those of its kind that failed and completed."""

    template: ClassVar[str] = "jobs/compare.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    job: JobShowRow
    other: JobShowRow | None
    """None if no completed job of its kind was found."""
    shared: tuple[Difference, ...]
    """What stands out in the jobs that failed with the same error, the clearest first."""
    differences: tuple[Difference, ...]
    """All others."""
    failed: int
    """How many jobs failed with the same error, of those looked at."""
    completed: int
    same: int
    """How many values of args and metadata are the same."""
    sealed: tuple[str, str] | None
    """Descriptions of the args of the other job and of this one, if any are encrypted: then they
    are not compared.
    """
    cut: bool
    """Whether not all was compared or is shown."""
    job_url: str
    other_url: str


async def show(request: Request) -> Response:
    """Answer with the differences from the job named in the address, else from the last job of the
    kind that completed before this one began; what other failed jobs share comes first.
    """
    only(request, "with")
    job = await _job(request, request.path_params["id"])
    text = request.query_params.get("with", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadRequest("A job id must be a whole number.")
    good = int(text) if text else await _last_good(request, job)
    other = await _job(request, good) if good is not None else None
    redaction = Redaction(dashboard(request).config.redact_keys)
    sealed = _sealed(other, job) if other else None
    both: dict[Field, tuple[JsonText, JsonText]] = {}
    if other and not sealed:
        both[Field.ARGS] = other.args, job.args
    if other:
        both[Field.METADATA] = other.metadata, job.metadata
    diffs = {
        field: json_diff(redaction.text(before.text), redaction.text(after.text))
        for field, (before, after) in both.items()
    }
    changes = [(field, change) for field, diff in diffs.items() for change in diff.changes]
    paths = [
        JsonPath(field=field, keys=tuple(_KEY.findall(change.path))) for field, change in changes
    ]
    others = await _others(request, job, tuple(paths[:_PATHS])) if paths else Others()
    found = [
        Difference(
            name=f"{field.value}.{each.path}".strip("."),
            before=each.before,
            after=each.after,
            counts=others.counts(place),
        )
        for place, (field, each) in enumerate(changes)
    ]
    found += _facts(other, job) if other else ()
    failed, completed = len(others.failed), len(others.completed)

    def share(each: Difference) -> float:
        return each.counts[0] / max(failed, 1) - each.counts[1] / max(completed, 1)

    clear = [each for each in found if each.counts[0] >= _FEWEST and share(each) >= _STANDS_OUT]
    return respond(
        request,
        JobsCompare(
            job=job,
            other=other,
            shared=tuple(sorted(clear, key=share, reverse=True)),
            differences=tuple(each for each in found if each not in clear),
            failed=failed,
            completed=completed,
            same=sum(diff.same for diff in diffs.values()),
            sealed=sealed,
            cut=not all(diff.complete for diff in diffs.values())
            or not all(text.complete for texts in both.values() for text in texts),
            job_url=url(request, "jobs.show", id=job.id),
            other_url=url(request, "jobs.show", id=other.id) if other else "",
        ),
    )


async def _others(request: Request, job: JobShowRow, paths: tuple[JsonPath, ...]) -> Others:
    kind = query.equal(Field.KIND, job.kind)
    filters = (
        JobFilter(terms=(query.equal(Field.ID, job.id),)),
        JobFilter(terms=(kind,), states=(JobState.RETRYABLE, JobState.DISCARDED)),
        JobFilter(terms=(kind,), states=(JobState.COMPLETED,)),
    )
    wanted = JobPageParams(order=JobOrder.TIME_DESC, limit=_OTHERS, window=_WINDOW, paths=paths)
    async with dashboard(request).driver.reading() as executor:
        found = [(await executor.jobs.list(replace(wanted, filter=each))).rows for each in filters]
    if not found[0]:
        return Others()
    [own], failed, completed = found
    error = timeline.shape(own.last_error or "")
    alike = [row for row in failed if timeline.shape(row.last_error or "") == error]
    return Others(
        own.values,
        [row.values for row in alike if row.id != job.id],
        [row.values for row in completed],
    )


def _sealed(before: JobShowRow, after: JobShowRow) -> tuple[str, str] | None:
    """Return descriptions of the args of both jobs; None if none are encrypted."""
    found = [sealed_args(job.args.text, job.args.size) for job in (before, after)]
    if found == [None, None]:
        return None
    first, second = ("not sealed" if one is None else one.words for one in found)
    return first, second


async def _job(request: Request, job_id: int) -> JobShowRow:
    job = None
    if is_bigint(job_id):
        async with dashboard(request).driver.reading() as executor:
            job = await executor.jobs.get(job_id, cut=_READ)
    if job is None:
        raise NotFound(f"Job not found: {job_id}.")
    return job


async def _last_good(request: Request, job: JobShowRow) -> int | None:
    """Return the id of the last job of the same kind that completed before this one began."""
    board = dashboard(request)
    terms = [query.equal(Field.KIND, job.kind)]
    if job.attempted_at is not None:
        terms.append(Term(field=Field.FINISHED, op=Op.LT, values=(job.attempted_at,)))
    wanted = JobPageParams(
        filter=JobFilter(states=(JobState.COMPLETED,), terms=tuple(terms)),
        order=JobOrder.TIME_DESC,
        limit=2,
        lean=True,
        window=board.config.search_window,
    )
    async with board.driver.reading() as executor:
        page = await executor.jobs.list(wanted)
    return next((row.id for row in page.rows if row.id != job.id), None)


def _facts(before: JobShowRow, after: JobShowRow) -> list[Difference]:
    """Return the differences in what is no JSON."""
    return [
        Difference(name=name, before=first, after=second)
        for name, fact in _FACTS.items()
        if (first := fact(before)) != (second := fact(after))
    ]


_FACTS: Mapping[str, Callable[[JobShowRow], str]] = {
    "queue": lambda job: job.queue,
    "priority": lambda job: str(job.priority),
    "attempt": lambda job: f"{job.attempt} of {job.max_attempts}",
    "tags": lambda job: ", ".join(job.tags) or "none",
    "waited": lambda job: _span(job.scheduled_at, job.attempted_at),
    "ran": lambda job: _span(job.attempted_at, job.finalized_at),
    "worked by": lambda job: job.attempted_by[-1] if job.attempted_by else "none",
}


def _span(begin: datetime | None, end: datetime | None) -> str:
    if begin is None or end is None:
        return "–"
    return duration(max(timedelta(0), end - begin))


ROUTES = (
    GuardedRoute("GET", "/jobs/{id:river_bigint}/compare", "jobs.compare", "jobs.read", show),
)
"""The comparison."""
