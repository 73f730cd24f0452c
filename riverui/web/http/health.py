"""Health checks for load balancers and orchestrators, answered without sign-in; they report nothing
else.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from riverui.web.api.serializers import dump, reply
from riverui.web.http.context import Service, dashboard
from riverui.web.http.probe import Probe

NAMES = ("minimal", "complete")
"""River UI's names of its health checks."""

PROBE = Service(make=lambda board: Probe(board.primary, timeout=board.limits.probe_seconds))


async def show(request: Request) -> Response:
    """Answer `{"status": "ok"}` if the process answers (`minimal`) or the database does too
    (`complete`), 503 with a message if it does not, 404 for other names: as River UI does.
    """
    name = request.path_params["name"]
    if name not in NAMES:
        raise HTTPException(
            404,
            f"Health check {dump(name[:40])} not found. Use either `complete` or `minimal`.",
        )
    if name == "complete" and not await dashboard(request).get(PROBE).answers():
        return reply({"message": "Unable to query database. Check logs for details."}, status=503)
    return reply({"status": "ok"})
