"""Workers: the running clients, the jobs of each, and the rescue of the jobs of a silent one."""

from __future__ import annotations

from riverui.features.heartbeats.section import api, index, rescue
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="workers",
    navigation=NavEntry(
        label="Workers", route="workers.index", right="queues.read", icon="server", keys="g w"
    ),
    routes=(
        GuardedRoute("GET", "/workers", "workers.index", "queues.read", index.index),
        GuardedRoute("POST", "/workers/rescue", "workers.rescue", "workers.rescue", rescue.rescue),
    ),
    api=api.ENDPOINTS,
    # The right to see queues suffices: a worker is the other end of a queue.
    rights={"workers.rescue": "rescue the jobs of silent workers"},
)
