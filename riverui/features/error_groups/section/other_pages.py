"""Error groups on the pages of jobs and kinds. No field of a job names its group, so searches name
its jobs by their ids.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.requests import HTTPConnection

from riverui.domain.jobs import CUT, FAILED, JobShowRow
from riverui.domain.json import read_object
from riverui.errors import NotFound
from riverui.features.error_groups.domain.fingerprints import METADATA_KEY, error_signature
from riverui.features.error_groups.domain.groups import ErrorGroup, ErrorState
from riverui.features.error_groups.reader import ERROR_GROUPS
from riverui.storage.interface.params import Field, Term
from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.view.contributions import AttemptsLink, JobGroup

MOST_TEXT = 60_000
"""Characters that the ids may take: the table of operations keeps texts of 64 kB."""
MOST_LISTED = 100
"""Jobs that an address of the job list can name."""
_TITLE = 200
"""Characters of a group's title that stand for it."""
_KIND_ERRORS = 6
"""Errors of a kind that its page shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindError:
    """An error that jobs of a kind have failed with."""

    title: str
    url: str
    number: int
    """Failed jobs of the kind, of those looked at."""
    last_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class KindErrors:
    """The card on the page of a kind: the commonest of its errors."""

    errors: tuple[KindError, ...]
    url: str


async def kind_card(request: HTTPConnection, kind: str) -> KindErrors | None:
    """Return the commonest errors of the kind that are not resolved or ignored; None if there
    are none, or the viewer may not see jobs.
    """
    if not access(request).may("jobs.read"):
        return None
    now, found = datetime.now(UTC), []
    for group in (await dashboard(request).get(ERROR_GROUPS).read()).groups.values():
        jobs = [job for job in group.jobs if job.kind == kind]
        if jobs and group.state(now) is ErrorState.UNRESOLVED:
            found.append(
                KindError(
                    title=group.signature.title,
                    url=url(request, "errors.show", fingerprint=group.fingerprint),
                    number=len(jobs),
                    last_at=jobs[0].at,
                )
            )
    if not found:
        return None
    found.sort(key=lambda error: error.number, reverse=True)
    return KindErrors(
        errors=tuple(found[:_KIND_ERRORS]),
        url=f"{url(request, 'errors.index')}?{urlencode({'kind': kind})}",
    )


def attempts_link(request: HTTPConnection, job: JobShowRow) -> AttemptsLink | None:
    """Return the link to the job's error group; None if it has not failed, or its error is too long
    to be read whole.
    """
    if job.state not in FAILED or not job.errors or job.errors[-1].error == CUT:
        return None
    last = job.errors[-1]
    given: object = None
    if METADATA_KEY in job.metadata.text and job.metadata.complete:
        with suppress(ValueError):
            given = read_object(job.metadata.text).get(METADATA_KEY)
    found = error_signature(last.error, last.trace, given if isinstance(given, str) else "")
    return AttemptsLink(
        "same error",
        url(request, "errors.show", fingerprint=found.fingerprint),
        "Jobs whose last attempt failed with the same error",
    )


async def job_group(request: HTTPConnection, fingerprint: str) -> JobGroup:
    """Return the jobs of an error group. Raise NotFound if there are none."""
    group = await dashboard(request).get(ERROR_GROUPS).find(fingerprint)
    if group is None or not group.jobs:
        raise NotFound("No job of this error group was found: they were retried or deleted.")
    return group_term(group)


def group_term(group: ErrorGroup) -> JobGroup:
    """Return the jobs of a group: if more than fit, the newest."""
    ids, size = [], 0
    for job in group.jobs:
        size += len(str(job.id)) + 1
        if size > MOST_TEXT:
            break
        ids.append(job.id)
    return JobGroup(
        query.equal(Field.ID, *ids), f"with the error “{group.signature.title[:_TITLE]}”"
    )


def listed_term(group: ErrorGroup) -> Term:
    """Return the condition for the newest jobs of the group, as many as an address can name."""
    ids, size = [], 0
    for job in group.jobs[:MOST_LISTED]:
        size += len(str(job.id)) + 1
        if size > query.MAX_LENGTH - len("id:"):
            break
        ids.append(job.id)
    return query.equal(Field.ID, *ids)
