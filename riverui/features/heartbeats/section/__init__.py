"""Workers: the clients at work, what each has in hand, and the rescue of jobs of a silent one."""

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
    # To see them, the right to see queues is enough: a worker is a queue's other end.
    rights={"workers.rescue": "rescue the jobs of silent workers"},
)
