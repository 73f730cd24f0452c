"""Kinds of jobs: the list, and one kind."""

from __future__ import annotations

from riverui.storage.interface.params import Field
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.search.palette_names import named
from riverui.web.sections.kinds import index, show
from riverui.web.view.contributions import PaletteSource
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="kinds",
    navigation=NavEntry(
        label="Kinds", route="kinds.index", right="figures.read", icon="shapes", keys="g k"
    ),
    routes=(
        GuardedRoute("GET", "/kinds", "kinds.index", "figures.read", index.index),
        GuardedRoute("GET", "/kinds/{kind:river_queue}", "kinds.show", "figures.read", show.show),
    ),
    palette=PaletteSource(
        right="figures.read", find=named(Field.KIND, "kinds.show", "kind", "shapes")
    ),
)
