"""Errors: failed jobs grouped by their errors."""

from __future__ import annotations

from functools import partial

from riverui.features.error_groups.reader import ERROR_GROUPS
from riverui.features.error_groups.section import api, decide, index, other_pages, show
from riverui.features.error_groups.verbs import ERROR_VERBS, RIGHT
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.contributions import KindCard
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="errors",
    navigation=NavEntry(
        label="Errors",
        route="errors.index",
        right="jobs.read",
        icon="circle-alert",
        keys="g e",
        phone=True,
    ),
    routes=(
        GuardedRoute("GET", "/errors", "errors.index", "jobs.read", index.index),
        GuardedRoute("GET", "/errors/{fingerprint}", "errors.show", "jobs.read", show.show),
        *(
            GuardedRoute(
                "POST",
                f"/errors/{{fingerprint}}/{verb.name}",
                f"errors.{verb.name}",
                RIGHT,
                partial(decide.act, verb),
            )
            for verb in ERROR_VERBS.values()
        ),
    ),
    api=api.ENDPOINTS,
    services=(ERROR_GROUPS,),
    kind_cards=(KindCard(template="errors/_kind.html", read=other_pages.kind_card),),
    attempts_link=other_pages.attempts_link,
    job_group=other_pages.job_group,
    rights={RIGHT: "resolve and ignore errors"},
)
