"""About: versions, the database, preferences, help."""

from __future__ import annotations

from riverui.web.http.context import SIGNED_IN, Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.about import help as help_page, index, preferences
from riverui.web.view.navigation import NavEntry, Shortcut

SECTION = Section(
    name="about",
    navigation=NavEntry(label="About", route="about", right="about.read", icon="info"),
    routes=(
        GuardedRoute("GET", "/about", "about", "about.read", index.index),
        GuardedRoute("GET", "/help", "help", SIGNED_IN, help_page.show),
        GuardedRoute("POST", "/preferences", "preferences", SIGNED_IN, preferences.update),
    ),
    rights={"about.read": "see versions, settings, the leader and the state of the database"},
    shortcuts=(
        Shortcut(keys=(".",), does="refresh now"),
        Shortcut(keys=("?",), does="this help"),
        Shortcut(keys=("esc",), does="close, clear selection, go back"),
    ),
)
