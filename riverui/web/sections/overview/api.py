"""Endpoints that a front end needs first: features, counts by state, the version, and names."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, Self

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui import __version__
from riverui.domain.jobs import JobState
from riverui.errors import DatabaseUnavailable
from riverui.storage.interface.params import Count, CountKind
from riverui.storage.tables import OWN_TABLES, PRO_WORKFLOW_TABLES, complete, table_names
from riverui.web.api import models, names, requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.models import Model, Time
from riverui.web.http.context import dashboard

_GROUP = "Overview"


class CountedState(Model, frozen=True, kw_only=True):
    """The number of jobs in one state, and how exact it is."""

    accuracy: Literal["estimated", "exact", "exact_cached", "lower_bound"]
    count: models.Count
    observed_at: Time | UnsetType = UNSET

    @classmethod
    def from_count(cls, count: Count, now: datetime) -> Self:
        """Return a count with River UI's name for its accuracy, and its time if known."""
        inexact = _INEXACT.get(count.kind)
        at = count.at or (None if inexact else now)
        return cls(
            accuracy=inexact or ("exact_cached" if count.at else "exact"),
            count=count.value,
            observed_at=serializers.instant(at) if at else UNSET,
        )


_INEXACT: dict[CountKind, Literal["estimated", "lower_bound"]] = {
    CountKind.AT_LEAST: "lower_bound",
    CountKind.ESTIMATED: "estimated",
}


class CountedStates(Model, frozen=True, kw_only=True):
    """Jobs by state."""

    available: CountedState
    cancelled: CountedState
    completed: CountedState
    discarded: CountedState
    pending: CountedState
    retryable: CountedState
    running: CountedState
    scheduled: CountedState

    @classmethod
    def from_counts(cls, counts: Mapping[JobState, Count], now: datetime) -> Self:
        """Return the counts of all states."""
        return cls(
            **{state.value: CountedState.from_count(counts[state], now) for state in JobState}
        )

    @classmethod
    def example(cls) -> Self:
        """Return the counts of a busy dashboard."""
        found = {JobState.AVAILABLE: 12, JobState.COMPLETED: 98_102, JobState.RUNNING: 3}
        counts = {state: Count(value=found.get(state, 0)) for state in JobState}
        return cls.from_counts(counts, datetime(2026, 11, 23, 8, 30, tzinfo=UTC))


class Version(Model, frozen=True, kw_only=True):
    """The versions of riverui and Python, in River UI's fields, which describe a program in Go."""

    version: str
    revision: str
    time: str
    modified: bool
    go_version: str

    @classmethod
    def from_versions(cls, version: str, python: str) -> Self:
        """Return these versions; a Python package has no commit to report."""
        return cls(
            version=f"riverui {version}",
            revision="",
            time="",
            modified=False,
            go_version=f"Python {python}",
        )

    @classmethod
    def example(cls) -> Self:
        """Return the first version of riverui."""
        return cls.from_versions("0.1.0", "3.13.0")


class Extensions(Model, frozen=True, kw_only=True):
    """The features that the database's tables support, River Pro's or riverui's own."""

    dead_letter_jobs: bool
    durable_periodic_jobs: bool
    has_producer_table: bool
    has_sequence_table: bool
    producer_queries: bool
    workflow_queries: bool

    @classmethod
    def from_tables(cls, tables: frozenset[str], *, kept: bool = False) -> Self:
        """Return the features that these tables support; `kept` is whether those of riverui do that
        every database can have.
        """
        own = tables >= OWN_TABLES
        producers = kept or "river_producer" in tables
        return cls(
            dead_letter_jobs=kept,
            durable_periodic_jobs=kept or "river_periodic_job" in tables,
            has_producer_table=producers,
            has_sequence_table="river_job_sequence" in tables,
            producer_queries=producers,
            workflow_queries=own or tables >= PRO_WORKFLOW_TABLES,
        )


class Features(Model, frozen=True, kw_only=True):
    """What the dashboard can show, and whether its lists hide args."""

    extensions: Extensions
    job_list_hide_args_by_default: bool

    @classmethod
    def example(cls) -> Self:
        """Return a dashboard without River Pro."""
        return cls(
            extensions=Extensions.from_tables(frozenset()), job_list_hide_args_by_default=False
        )


async def autocomplete(request: Request) -> Response:
    """Answer names of kinds or queues that contain a text, sorted."""
    facet, match = names.facet(request), requests.first(request, "match")
    after, exclude = requests.first(request, "after"), request.query_params.getlist("exclude")
    async with dashboard(request).driver.reading() as executor:
        find = executor.jobs.kind_list if facet == "job_kind" else executor.queues.row_name_list
        found = await find(match=match, after=after, exclude=exclude, limit=names.MAX_NAMES)
    return serializers.reply(names.Names(data=list(found)))


async def features(request: Request) -> Response:
    """Answer which features the database supports, and whether lists should hide args."""
    board = dashboard(request)
    async with board.driver.reading() as executor:
        tables, kept = await table_names(executor), await complete(executor)
    return serializers.reply(
        Features(
            extensions=Extensions.from_tables(tables, kept=kept),
            job_list_hide_args_by_default=board.config.hide_args,
        )
    )


async def states(request: Request) -> Response:
    """Answer how many jobs are in each state."""
    snapshot = await dashboard(request).counts.thorough()
    if snapshot.counts is None:
        raise snapshot.error or DatabaseUnavailable()
    return serializers.reply(CountedStates.from_counts(snapshot.counts, datetime.now(UTC)))


async def version(request: Request) -> Response:
    """Answer the versions of riverui and Python."""
    return serializers.reply(Version.from_versions(__version__, platform.python_version()))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/features",
        "api.features",
        "jobs.read",
        features,
        Description(
            group=_GROUP,
            summary="Which River Pro tables exist, and whether lists hide args.",
            answer=Features,
        ),
    ),
    Endpoint(
        "GET",
        "/api/states",
        "api.states",
        "jobs.read",
        states,
        Description(group=_GROUP, summary="How many jobs are in each state.", answer=CountedStates),
    ),
    Endpoint(
        "GET",
        "/api/version",
        "api.version",
        "jobs.read",
        version,
        Description(group=_GROUP, summary="Which version answers.", answer=Version),
    ),
    Endpoint(
        "GET",
        "/api/autocomplete",
        "api.autocomplete",
        "jobs.read",
        autocomplete,
        Description(
            group=_GROUP,
            summary="Up to 100 kinds or queues by name.",
            answer=names.Names,
            parameters=(
                names.FACET,
                Parameter(name="match", summary="Names that contain this, ignoring case."),
                Parameter(name="after", summary="Names that come after this one."),
                names.EXCLUDE,
            ),
        ),
    ),
)
"""The section's part of the API."""
