"""Jobs: the list, one job, search, actions, export."""

from __future__ import annotations

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb
from riverui.web.api.time_limits import API_TIME_LIMITS
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.search.suggestions import SUGGESTIONS
from riverui.web.sections.jobs import (
    api,
    bulk,
    compare,
    index,
    new,
    opened,
    search,
    selected_jobs,
    show,
    suggest,
)
from riverui.web.view.contributions import PaletteSource
from riverui.web.view.navigation import NavEntry, Shortcut


def _asks(verb: JobVerb) -> str:
    """Return what the list of keys says about a verb that asks first."""
    if verb.removes:
        return " (asks first, unless it can be undone)"
    return " (asks first)" if verb.asks else ""


SECTION = Section(
    name="jobs",
    navigation=NavEntry(
        label="Jobs",
        route="jobs.index",
        right="jobs.read",
        icon="layers",
        keys="g j",
        phone=True,
    ),
    routes=(
        GuardedRoute("GET", "/jobs", "jobs.index", "jobs.read", index.index),
        *new.ROUTES,
        *selected_jobs.ROUTES,
        *bulk.ROUTES,
        *compare.ROUTES,
        *opened.ROUTES,
        GuardedRoute("GET", "/jobs/search", "jobs.search", "jobs.read", search.step),
        GuardedRoute("GET", "/jobs/{id:river_bigint}", "jobs.show", "jobs.read", show.show),
        GuardedRoute(
            "GET", "/jobs/{id:river_bigint}/log/{attempt}", "jobs.log", "jobs.read", show.log
        ),
        GuardedRoute(
            "GET", "/jobs/{id:river_bigint}/raw/{field}", "jobs.raw", "jobs.read", show.raw
        ),
        GuardedRoute("GET", "/suggest", "suggest", "jobs.read", suggest.index),
    ),
    api=api.ENDPOINTS,
    services=(API_TIME_LIMITS, search.SEARCHES, SUGGESTIONS),
    palette=PaletteSource(right="jobs.read", find=suggest.palette),
    rights={
        **{verb.right: verb.allows for verb in JOB_VERBS.values()},
        new.RIGHT: "insert jobs",
        show.DECRYPT: "see the encrypted arguments of jobs, where this dashboard has their key",
        "jobs.read": "see jobs, their arguments, errors and logs",
    },
    shortcuts=(
        Shortcut(keys=("/",), does="search"),
        Shortcut(keys=("j", "k"), does="next, previous row"),
        Shortcut(keys=("enter",), does="open the row"),
        Shortcut(keys=("x",), does="select the row"),
        Shortcut(keys=("shift", "x"), does="select up to here"),
        Shortcut(keys=("n",), does="new job"),
        Shortcut(keys=("a",), does="select all on this page"),
        *(
            Shortcut(keys=(verb.key,), does=f"{verb.label.lower()}{_asks(verb)}")
            for verb in JOB_VERBS.values()
        ),
    ),
)
