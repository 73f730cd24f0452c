"""The card of the demo's front page that plays incidents."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from riverui.demo.incidents import INCIDENTS, Stage
from riverui.web.http.context import SIGNED_IN, Section
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.notices import done


def demo_section(stage: Stage) -> Section:
    """Return the section of a running demo."""

    async def play(request: Request) -> Response:
        """Begin the incident that was chosen; without one, end the present one."""
        incident = INCIDENTS.get((await form(request)).get("incident", ""))
        await stage.play(incident)
        notice = Notice(level="info", title="The incident is over.")
        if incident is not None:
            notice = Notice(level="info", title=incident.summary)
        return done(request, notice, next=url(request, "root"), changed="jobs")

    return Section(
        name="demo",
        routes=(GuardedRoute("POST", "/demo/play", "demo.play", SIGNED_IN, play),),
        front_card="demo/_incidents.html",
        template_globals={"demo_incidents": tuple(INCIDENTS.values()), "demo": stage},
    )
