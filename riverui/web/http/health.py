"""Health checks for load balancers and orchestrators; answered without sign-in, and telling nothing
else.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from riverui.web.api.serializers import dump, reply
from riverui.web.http.probe import Probe

NAMES = ("minimal", "complete")
"""River UI's names of its health checks."""


class HealthChecks:
    """`minimal`: the process answers. `complete`: the database does too."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    async def show(self, request: Request) -> Response:
        """Answer `{"status": "ok"}`, 503 with a message, or 404 for other names: River UI's
        addresses and answers.
        """
        name = request.path_params["name"]
        if name not in NAMES:
            raise HTTPException(
                404,
                f"Health check {dump(name[:40])} not found. Use either `complete` or `minimal`.",
            )
        if name == "complete" and not await self._probe.answers():
            return reply(
                {"message": "Unable to query database. Check logs for details."}, status=503
            )
        return reply({"status": "ok"})
