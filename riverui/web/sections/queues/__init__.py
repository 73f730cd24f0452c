"""Queues: the list, one queue, pause and resume."""

from __future__ import annotations

from riverui.actions.queues import QUEUE_VERBS
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.queues import api, index, limits, pause, show
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="queues",
    navigation=NavEntry(
        label="Queues",
        route="queues.index",
        right="queues.read",
        icon="inbox",
        keys="g q",
        phone=True,
    ),
    routes=(
        GuardedRoute("GET", "/queues", "queues.index", "queues.read", index.index),
        *pause.ROUTES,
        *limits.ROUTES,
        GuardedRoute("GET", "/queues/{name:river_queue}", "queues.show", "queues.read", show.show),
    ),
    api=api.ENDPOINTS,
    rights={
        **{verb.right: verb.allows for verb in QUEUE_VERBS.values()},
        "queues.read": "see queues",
        "queues.update": "change queue limits",
    },
)
