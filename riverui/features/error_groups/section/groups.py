"""Filters and lines of error groups, for the pages and the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from starlette.requests import Request

from riverui.errors import BadRequest, DatabaseUnavailable, NotFound
from riverui.features.error_groups.domain.fingerprints import FINGERPRINT
from riverui.features.error_groups.domain.groups import NEW, ErrorGroup, ErrorState, FailedJob
from riverui.features.error_groups.reader import ERROR_GROUPS, ErrorReading
from riverui.features.error_groups.section.charts import SPARK, counted
from riverui.features.error_groups.section.table import ErrorLine
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ALL = "all"
"""The name of the filter for groups in every state."""
WORST = "worst"
"""The default order: errors that are new or back, then those of most jobs in the last hour."""
ORDERS = {WORST: "Worst first", "last": "Last first", "count": "Most jobs", "new": "Newest first"}
"""Orders of groups by their names in URLs, with their labels."""
STATES = {
    ErrorState.UNRESOLVED.value: "Unresolved",
    ErrorState.RESOLVED.value: "Resolved",
    ErrorState.IGNORED.value: "Ignored",
    ALL: "All",
}
"""States of groups by their names in URLs, with their labels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorFilter:
    """Which groups are asked for, and in which order."""

    kind: str = ""
    queue: str = ""
    match: str = ""
    """A text that the title contains, ignoring case."""
    state: str = ErrorState.UNRESOLVED.value
    order: str = WORST

    def fits(self, job: FailedJob) -> bool:
        """Return whether a job matches kind and queue."""
        return self.kind in ("", job.kind) and self.queue in ("", job.queue)


def read_filter(request: Request) -> ErrorFilter:
    """Return what the URL asks for. Raise BadRequest for an unknown order or state."""
    params = request.query_params
    found = ErrorFilter(
        kind=params.get("kind", ""),
        queue=params.get("queue", ""),
        match=params.get("match", "")[:200],
        state=params.get("state") or ErrorState.UNRESOLVED.value,
        order=params.get("order") or WORST,
    )
    if found.order not in ORDERS:
        raise BadRequest(f"Unknown order; the orders are {', '.join(ORDERS)}.")
    if found.state not in STATES:
        raise BadRequest(f"Unknown state; the states are {', '.join(STATES)}.")
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The groups, and what they are compared with."""

    reading: ErrorReading
    now: datetime
    new: datetime
    """Since when errors count as new: the newest mark of the last 24 hours, or an hour ago."""
    new_words: str
    """The same in words; empty if it is unknown which errors are new."""


async def view(request: Request, *, whole: bool = False) -> View:
    """Return the cached groups, and since when they count as new."""
    board, now = dashboard(request), datetime.now(UTC)
    marks = await board.marks_since(now - DAY)
    new, words = now - NEW, "within the last hour"
    if marks:
        new, words = marks[-1].at, f"since {marks[-1].label}"
    reading = await board.get(ERROR_GROUPS).read(whole=whole, new=new)
    return View(reading=reading, now=now, new=new, new_words=words if reading.compared else "")


def line(request: Request, seen: View, group: ErrorGroup, jobs: Sequence[FailedJob]) -> ErrorLine:
    """Return a line for the group, with the figures of these of its jobs."""
    now = seen.now
    step, columns = SPARK
    return ErrorLine(
        group=group,
        state=group.state(now),
        new=new_since(seen, group),
        hours=tuple(counted(jobs, now - columns * step, step, columns)),
        regressed_at=group.regressed_at(now),
        number=len(jobs),
        hour=_since(jobs, now - HOUR),
        day=_since(jobs, now - DAY),
        url=url(request, "errors.show", fingerprint=group.fingerprint),
    )


def lines(
    request: Request, seen: View, asked: ErrorFilter, *, limit: int
) -> tuple[list[ErrorLine], int]:
    """Return the lines that are asked for, in order, at most so many, and how many groups match:
    there may be thousands.
    """
    match = asked.match.lower()
    found: list[tuple[ErrorGroup, Sequence[FailedJob]]] = []
    for group in seen.reading.groups.values():
        jobs = group.jobs
        if asked.kind or asked.queue:
            jobs = [job for job in jobs if asked.fits(job)]
        if (
            jobs
            and (not match or match in group.signature.title.lower())
            and asked.state in (ALL, group.state(seen.now).value)
        ):
            found.append((group, jobs))
    if asked.order == WORST:
        found.sort(key=lambda each: _badness(seen, *each), reverse=True)
    elif asked.order == "count":
        found.sort(key=lambda each: len(each[1]), reverse=True)
    elif asked.order == "new":
        found.sort(key=lambda each: each[0].first_at, reverse=True)
    return [line(request, seen, group, jobs) for group, jobs in found[:limit]], len(found)


def _badness(seen: View, group: ErrorGroup, jobs: Sequence[FailedJob]) -> tuple[bool, int, int]:
    news = bool(new_since(seen, group) or group.regressed_at(seen.now))
    return news, _since(jobs, seen.now - HOUR), len(jobs)


def new_since(seen: View, group: ErrorGroup) -> str:
    """Return since when a group is new, in words. Empty if it is not new, or if that is unknown
    because the failed jobs that were read do not go back that far and the group is not stored.
    """
    since = seen.reading.since
    known = group.row is not None or since is None or since <= seen.new
    return seen.new_words if known and group.new_since(seen.new) else ""


async def find(request: Request) -> tuple[View, ErrorGroup]:
    """Return the group in the URL; raise NotFound if it is unknown."""
    board, asked = dashboard(request), request.path_params["fingerprint"]
    seen = await view(request, whole=True)
    reading = seen.reading
    group = await board.get(ERROR_GROUPS).find(asked) if FINGERPRINT.fullmatch(asked) else None
    if group is None and reading.problem:
        raise DatabaseUnavailable(reading.problem)
    if group is None:
        reason = "No failed job has this error any more: they were retried or deleted."
        if reading.more:
            reason = (
                f"None of the newest {reading.looked_at:,} failed jobs has this error: they were"
                " retried or deleted, or are older."
            )
        raise NotFound(f"Error not found. {reason}")
    return seen, group


def _since(jobs: Sequence[FailedJob], at: datetime) -> int:
    return sum(job.at > at for job in jobs)
