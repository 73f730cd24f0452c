"""Queues: the list, one queue, pause and resume."""

from __future__ import annotations

from riverui.actions.queues import QUEUE_VERBS
from riverui.storage.interface.params import Field
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.search.palette_names import named
from riverui.web.sections.queues import api, index, limits, pause, show
from riverui.web.view.contributions import PaletteSource
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
    palette=PaletteSource(
        right="queues.read", find=named(Field.QUEUE, "queues.show", "name", "inbox")
    ),
    rights={
        **{verb.right: verb.allows for verb in QUEUE_VERBS.values()},
        "queues.read": "see queues",
        "queues.update": "change queue limits",
    },
)
