"""The menus above the list of jobs: orders, columns, page sizes, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import preferences
from riverui.web.http.request_context import url
from riverui.web.search.addresses import Listing, list_url
from riverui.web.view.job_table import COLUMNS, STANDARD
from riverui.web.view.page_parts import Choice
from riverui.web.view.preferences import PAGE_SIZES


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnChoice:
    """One column that can be shown."""

    name: str
    label: str
    shown: bool
    fixed: bool
    """Whether it is always shown, so that only its position can change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chooser:
    """Which columns are shown, and the addresses of the list with others."""

    columns: tuple[ColumnChoice, ...]
    """The shown ones first, in their order."""
    standard_url: str | None
    """The list with the standard columns; None if these are shown."""
    next_url: str
    """The list with the saved columns, to show after saving."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListMenus:
    """The menus above the list."""

    orders: tuple[Choice, ...]
    limits: tuple[Choice, ...]
    chooser: Chooser
    exports: tuple[Choice, ...]
    """All matching jobs as files; empty for an invalid list."""
    hide_args: bool


def list_menus(request: Request, listing: Listing) -> ListMenus:
    """Return the menus of this list."""
    return ListMenus(
        orders=tuple(
            Choice(
                value=order.value,
                label=label,
                url=list_url(request, listing, listing.query(order=order)),
                current=order is listing.order,
            )
            for order, label in listing.orders()
        ),
        limits=tuple(
            Choice(
                value=str(size),
                label=f"{size} per page",
                url=list_url(request, listing, listing.query(limit=size)),
                current=size == listing.limit,
            )
            for size in PAGE_SIZES
        ),
        chooser=_chooser(request, listing),
        exports=_exports(request, listing),
        hide_args=hides_args(request),
    )


def hides_args(request: Request) -> bool:
    """Return whether args are hidden in this viewer's lists."""
    shown = preferences(request).show_args
    return dashboard(request).config.hide_args if shown is None else not shown


def _exports(request: Request, listing: Listing) -> tuple[Choice, ...]:
    """Return the addresses of the list as files, with the shown columns unless they are the
    standard ones.
    """
    if listing.problem or listing.search.errors:
        return ()
    export = url(request, "api.jobs.export")
    return tuple(
        Choice(value=value, label=label, url=f"{export}?{listing.export_query(value)}")
        for value, label in (("csv", "Export as CSV"), ("ndjson", "Export as JSON lines"))
    )


def _chooser(request: Request, listing: Listing) -> Chooser:
    shown = listing.columns
    others = [name for name in COLUMNS if name not in shown]
    standard = listing.query(columns=STANDARD)
    return Chooser(
        columns=tuple(
            ColumnChoice(
                name=name,
                label=COLUMNS[name].label if name in COLUMNS else name,
                shown=name in shown,
                fixed=name == "kind",
            )
            for name in (*shown, *others)
        ),
        standard_url=None if shown == STANDARD else list_url(request, listing, standard),
        next_url=list_url(request, listing, listing.query(columns=listing.default_columns)),
    )


def allowed(request: Request, states: Sequence[JobState]) -> tuple[JobVerb, ...]:
    """Return the verbs that fit any of these states (of all if none are given) and that the viewer
    has the right to.
    """
    held, shown = access(request), states or JobState
    return tuple(
        verb
        for verb in JOB_VERBS.values()
        if verb.fits.intersection(shown) and held.may(verb.right)
    )
