"""The API as a page to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.web.api.catalogue import CATALOGUE
from riverui.web.api.described import Described, Parameter
from riverui.web.api.openapi import described, method, right_words
from riverui.web.api.pro_catalogue import PRO_SCHEMAS
from riverui.web.api.schemas import SCHEMAS, Schema
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.routes import GuardedRoute
from riverui.web.http.urls import base_path, url
from riverui.web.view.render import respond


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterLine:
    """One parameter as shown."""

    name: str
    kind: str
    told: str
    needed: bool
    ours: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """One address as shown."""

    anchor: str
    method: str
    path: str
    told: str
    right: str
    """The right that it needs; empty where none is."""
    right_words: str
    allowed: bool
    """Whether the reader holds that right."""
    ours: bool
    parameters: tuple[ParameterLine, ...]
    body: str
    """An example of what it takes."""
    answer: str
    """An example of what it answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The whole API. The template's whole contract, besides the shell."""

    template: ClassVar[str] = "api/show.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    base: str
    """What stands before each path."""
    groups: tuple[tuple[str, tuple[Address, ...]], ...]
    document_url: str


async def show(request: Request) -> Response:
    """Every address with its parameters and examples."""
    groups: dict[str, list[Address]] = {}
    for entry in described(request.app.routes):
        told = CATALOGUE[entry.name]
        groups.setdefault(told.group, []).append(_address(request, entry, told))
    return respond(
        request,
        Reference(
            base=base_path(request),
            groups=tuple((name, tuple(addresses)) for name, addresses in groups.items()),
            document_url=url(request, "api.openapi"),
        ),
    )


def _address(request: Request, entry: GuardedRoute, told: Described) -> Address:
    words = right_words(entry.right, dashboard(request).rights)
    return Address(
        anchor=entry.name.replace(".", "-"),
        method=method(entry),
        path=entry.path_format,
        told=_plain(told.told),
        right=entry.right if words and "." in entry.right else "",
        right_words=words or "anyone",
        allowed="." not in entry.right or access(request).may(entry.right),
        ours=told.ours,
        parameters=tuple(_line(parameter) for parameter in told.parameters),
        body=_example(told.body),
        answer=_example(told.answer),
    )


def _line(parameter: Parameter) -> ParameterLine:
    return ParameterLine(
        name=parameter.name,
        kind=_kind(parameter.schema),
        told=_plain(parameter.told),
        needed=parameter.needed,
        ours=parameter.ours,
    )


def _plain(text: str) -> str:
    """A description without its Markdown."""
    return text.replace("`", "")


def _kind(schema: Schema) -> str:
    """A schema in words."""
    if schema.get("type") == "array":
        return f"{_kind(schema['items'])}, may be repeated"
    if "enum" in schema:
        return " | ".join(schema["enum"])
    words = {"integer": "number", "string": "text"}.get(str(schema.get("type")), "text")
    if "default" in schema:
        words += f", {schema['default']} by default"
    return words


def _example(name: str) -> str:
    schemas = {**SCHEMAS, **PRO_SCHEMAS}
    examples: list[Any] = schemas[name].get("examples", []) if name else []
    return json.dumps(examples[0], indent=2, ensure_ascii=False) if examples else ""
