"""Names of kinds and queues to choose from, as River UI requests them."""

from __future__ import annotations

from typing import Literal, Self, cast, get_args

from starlette.requests import Request

from riverui.errors import BadRequest
from riverui.web.api import requests
from riverui.web.api.endpoints import Parameter
from riverui.web.api.models import Model
from riverui.web.api.serializers import dump

MAX_NAMES = 100
"""Most names in an answer, as in River UI."""

Facet = Literal["job_kind", "queue_name"]

FACET = Parameter(name="facet", summary="Which names to list.", type=Facet, required=True)
EXCLUDE = Parameter(name="exclude", summary="Names to leave out.", type=list[str], max_items=1000)


class Names(Model, frozen=True, kw_only=True):
    """Kinds or queues, by name."""

    data: list[str]

    @classmethod
    def example(cls) -> Self:
        """Return two kinds."""
        return cls(data=["mail_bounce", "mail_send"])


def facet(request: Request) -> Facet:
    """Return which kind of names is requested. Raise BadRequest for any other facet."""
    asked, facets = requests.first(request, "facet"), get_args(Facet)
    if asked not in facets:
        raise BadRequest(f"Invalid facet {dump(asked[:40])}. Valid facets are: {', '.join(facets)}")
    return cast(Facet, asked)
