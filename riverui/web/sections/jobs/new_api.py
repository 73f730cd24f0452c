"""Inserting a job by the API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Self

from msgspec import UNSET, Meta, Raw, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import new_jobs as actions
from riverui.actions.new_jobs import MAX_TAGS
from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, JobRefused
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.api.models import Body, Id, Model, NeededText, Refusal
from riverui.web.sections.jobs import new

_MOST_KEYS = 100
"""Most keys of args in `by_args`."""
_MOST_SECONDS = 10 * 366 * 24 * 3600
"""The longest `by_period`, in seconds: ten years."""


class NewJobUnique(Model, frozen=True, kw_only=True):
    """What makes a job unique (River's UniqueOpts)."""

    by_args: Annotated[
        bool | Annotated[list[str], Meta(max_length=_MOST_KEYS)],
        Meta(description="All args, or those of these top-level keys."),
    ] = False
    by_period: Annotated[int, Meta(ge=1, le=_MOST_SECONDS, description="Seconds.")] | None = None
    by_queue: bool = False
    by_state: Annotated[
        list[JobState] | None,
        Meta(
            description=(
                "Must have available, pending, running and scheduled; by default all but cancelled"
                " and discarded."
            )
        ),
    ] = None


class NewJob(Body, frozen=True, kw_only=True):
    """A job to insert. Omitted fields take the kind's own options, then River's defaults."""

    kind: NeededText
    args: Annotated[
        Raw,
        Meta(
            description="An object; its numbers keep every digit.",
            extra_json_schema={"type": "object"},
        ),
    ]
    max_attempts: Annotated[int, Meta(ge=1, le=32_767)] | None = None
    metadata: Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=1, le=4)] | None = None
    queue: str | None = None
    scheduled_at: Annotated[datetime, Meta(tz=True)] | None = None
    tags: Annotated[tuple[str, ...], Meta(max_length=MAX_TAGS)] | None = None
    unique_opts: NewJobUnique | None = None

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "kind": "`kind` is missing, or no text.",
        "args": "`args` is missing: give a JSON object.",
        "max_attempts": "`max_attempts` must be a whole number from 1 to 32,767.",
        "metadata": "`metadata` must be a JSON object.",
        "priority": "`priority` must be a whole number from 1 to 4.",
        "queue": "`queue` must be text.",
        "scheduled_at": "`scheduled_at` must be a time with a time zone, as in RFC 3339.",
        "tags": f"`tags` must be a list of at most {MAX_TAGS} texts.",
        "tags[]": "`tags` must be a list of texts.",
        "unique_opts": "`unique_opts` must be null or {by_args, by_period, by_queue, by_state}.",
    }

    @classmethod
    def example(cls) -> Self:
        """Return a mail to send later."""
        return cls(
            kind="mail_send",
            args=Raw(b'{"customer": {"id": 42}}'),
            queue="mailers",
            scheduled_at=datetime(2026, 11, 21, 9, tzinfo=UTC),
            unique_opts=NewJobUnique(by_args=True),
        )

    def job(self) -> actions.NewJob:
        """Return the job to insert. Raises BadRequest if its time is out of range."""
        unique = self.unique_opts
        try:
            at = None if self.scheduled_at is None else self.scheduled_at.astimezone(UTC)
        except OverflowError:
            raise BadRequest("`scheduled_at` does not exist in UTC.") from None
        return actions.NewJob(
            kind=self.kind,
            args=bytes(self.args).decode(),
            max_attempts=self.max_attempts,
            metadata="{}" if self.metadata is UNSET else bytes(self.metadata).decode(),
            priority=self.priority,
            queue=self.queue,
            scheduled_at=at,
            tags=self.tags,
            unique=None if unique is None else _unique(unique),
        )


def _unique(found: NewJobUnique) -> actions.NewJobUnique:
    by_args, period = found.by_args, found.by_period
    return actions.NewJobUnique(
        by_args=by_args if isinstance(by_args, bool) else tuple(by_args),
        by_period=None if period is None else timedelta(seconds=period),
        by_queue=found.by_queue,
        by_state=None if found.by_state is None else tuple(found.by_state),
    )


class InsertedJob(Model, frozen=True, kw_only=True):
    """The inserted job, or the existing one with its unique key."""

    id: Id
    state: JobState
    unique_skipped_as_duplicate: Annotated[
        bool, Meta(description="Whether it existed already and nothing was inserted.")
    ]

    @classmethod
    def example(cls) -> Self:
        """Return a job that is due."""
        return cls(id=9381024, state=JobState.AVAILABLE, unique_skipped_as_duplicate=False)


async def create(request: Request) -> Response:
    """Insert a job and answer its id, or that of the existing job with its unique key."""
    engine = new.inserter(request)
    asked = await requests.read_exact(request, NewJob)
    try:
        result = await new.insert(request, engine, asked.job())
    except JobRefused as refused:
        message = f"`{refused.field}`: {refused}" if refused.field else str(refused)
        raise BadRequest(message) from None
    return serializers.reply(
        InsertedJob(
            id=result.job.id,
            state=result.job.state,
            unique_skipped_as_duplicate=result.unique_skipped_as_duplicate,
        )
    )


ENDPOINT = Endpoint(
    "POST",
    "/api/jobs",
    "api.jobs.create",
    new.RIGHT,
    create,
    Description(
        group="Jobs",
        summary="Inserts a job by River's rules; answers the existing job if it is a duplicate.",
        answer=InsertedJob,
        body=(NewJob,),
        fails=(501,),
        extension=True,
    ),
)
"""The address that inserts a job."""
