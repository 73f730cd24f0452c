"""How an address of the API is described."""

from __future__ import annotations

from dataclasses import dataclass

from riverui.web.api.schemas import TEXT, Schema

JSON = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter of an address."""

    name: str
    told: str
    schema: Schema
    where: str = "query"
    needed: bool = False
    ours: bool = False
    """Whether River UI does not have it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """One address, for openapi.json and for the readable page."""

    group: str
    told: str
    answer: str
    """The schema of what it answers; empty for text."""
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    """The schema of what it takes; empty where it takes nothing."""
    status: int = 200
    media: tuple[str, ...] = (JSON,)
    fails: tuple[int, ...] = ()
    """Statuses besides those that any address may answer with."""
    accepted: str = ""
    """The schema of what it answers with 202 where the work has only begun; empty where that cannot
    be.
    """
    ours: bool = False
    """Whether River UI does not have it."""


def many(name: str, told: str, most: int, schema: Schema = TEXT) -> Parameter:
    """A parameter that may be repeated."""
    return Parameter(
        name=name, told=told, schema={"type": "array", "items": schema, "maxItems": most}
    )


def limit(default: int, *, least: int = 0) -> Parameter:
    """How many rows at most."""
    schema = {"type": "integer", "minimum": least, "maximum": 1000, "default": default}
    return Parameter(name="limit", told="Maximum number of rows.", schema=schema)
