"""The routes of the API, each with its description in the reference."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from riverui.web.api.models import Body, Model
from riverui.web.api.requests import MAX_ROWS
from riverui.web.http.routes import GuardedRoute, Handler

JSON = "application/json"


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of an endpoint."""

    name: str
    summary: str
    type: Any = str
    """The type of its values, as in a model field; a list if it may be repeated."""
    max_items: int | None = None
    """How often it may be repeated."""
    default: int | str | bool | None = None
    where: str = "query"
    required: bool = False
    extension: bool = False
    """Whether River UI lacks it."""


class Description(Struct, frozen=True, kw_only=True):
    """What an endpoint does, takes and answers."""

    group: str
    """The heading that lists it."""
    summary: str
    answer: type[Model] | None = None
    """None for plain text."""
    parameters: tuple[Parameter, ...] = ()
    body: tuple[type[Body], ...] = ()
    """The models of the body, of which one is sent; empty if it takes no body."""
    media: tuple[str, ...] = (JSON,)
    fails: tuple[int, ...] = ()
    """Statuses besides those that every endpoint may answer with."""
    accepted: type[Model] | None = None
    """The model of a 202 answer, when work has started but not finished; None if there is none."""
    extension: bool = False
    """Whether River UI lacks it."""


class Endpoint(GuardedRoute):
    """A route of the API."""

    def __init__(
        self,
        method: str,
        path: str,
        name: str,
        right: str,
        handler: Handler,
        description: Description,
    ) -> None:
        super().__init__(method, path, name, right, handler)
        self.description = description


def in_path(name: str, summary: str, type: Any = str) -> Parameter:
    """Return a parameter that is part of the address."""
    return Parameter(name=name, summary=summary, type=type, where="path", required=True)


def limit(default: int) -> Parameter:
    """Return the parameter for the number of rows, as `requests.limit` reads it."""
    return Parameter(
        name="limit",
        summary="Maximum number of rows.",
        type=Annotated[int, Meta(ge=0, le=MAX_ROWS)],
        default=default,
    )
