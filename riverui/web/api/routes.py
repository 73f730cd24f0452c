"""The routes of the JSON API that belong to no section."""

from __future__ import annotations

from typing import Literal

from riverui.web.api import openapi, reference
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import Status
from riverui.web.http import health
from riverui.web.http.context import PUBLIC, SIGNED_IN
from riverui.web.http.routes import GuardedRoute

ROUTES = (
    Endpoint(
        "GET",
        "/api/health-checks/{name}",
        "health",
        PUBLIC,
        health.show,
        Description(
            group="Overview",
            summary="Health check; needs no sign-in.",
            answer=Status,
            parameters=(
                in_path(
                    "name",
                    "`minimal`: the process answers. `complete`: so does the database.",
                    Literal["minimal", "complete"],
                ),
            ),
            fails=(404,),
        ),
    ),
    GuardedRoute("GET", "/api", "api", SIGNED_IN, reference.show),
    Endpoint(
        "GET",
        "/api/openapi.json",
        "api.openapi",
        SIGNED_IN,
        openapi.show,
        Description(
            group="This API", summary="This API as an OpenAPI 3.1 document.", extension=True
        ),
    ),
)
"""The health checks, and the reference as a page and as a document."""
