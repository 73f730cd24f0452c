"""The API reference as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, inspect
from starlette.requests import Request
from starlette.responses import Response

from riverui.web.api.endpoints import Endpoint, Parameter
from riverui.web.api.models import Model
from riverui.web.api.openapi import endpoints, example, right_words
from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import base_path, url
from riverui.web.view.render import respond


class ParameterLine(Struct, frozen=True, kw_only=True):
    """One parameter, as shown on the page."""

    name: str
    values: str
    summary: str
    required: bool
    extension: bool


class Address(Struct, frozen=True, kw_only=True):
    """One endpoint, as shown on the page."""

    anchor: str
    method: str
    path: str
    summary: str
    right: str
    """The right it needs; empty if it needs none."""
    right_words: str
    allowed: bool
    """Whether the reader holds that right."""
    extension: bool
    parameters: tuple[ParameterLine, ...]
    body: str
    """An example of the request body."""
    answer: str
    """An example of the answer."""


class Reference(Struct, frozen=True, kw_only=True):
    """The page of the API reference."""

    template: ClassVar[str] = "api/show.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    base: str
    """The part in front of each path."""
    groups: tuple[tuple[str, tuple[Address, ...]], ...]
    document_url: str


async def show(request: Request) -> Response:
    """Answer with every endpoint, its parameters and examples."""
    groups: dict[str, list[Address]] = {}
    for endpoint in endpoints(request.app.routes):
        group = groups.setdefault(endpoint.description.group, [])
        group.append(_address(request, endpoint))
    return respond(
        request,
        Reference(
            base=base_path(request),
            groups=tuple((name, tuple(addresses)) for name, addresses in groups.items()),
            document_url=url(request, "api.openapi"),
        ),
    )


def _address(request: Request, endpoint: Endpoint) -> Address:
    rights, described = dashboard(request).sections.rights, endpoint.description
    words = right_words(endpoint.right, rights)
    return Address(
        anchor=endpoint.name.replace(".", "-"),
        method=endpoint.method,
        path=endpoint.path_format,
        summary=_without_markdown(described.summary),
        right=endpoint.right if words and "." in endpoint.right else "",
        right_words=words or "anyone",
        allowed="." not in endpoint.right or access(request).may(endpoint.right),
        extension=described.extension,
        parameters=tuple(_line(parameter) for parameter in described.parameters),
        body=_example(described.body[0] if described.body else None),
        answer=_example(described.answer),
    )


def _line(parameter: Parameter) -> ParameterLine:
    words = _values(inspect.type_info(parameter.type))
    if parameter.default is not None:
        words += f", {parameter.default} by default"
    return ParameterLine(
        name=parameter.name,
        values=words,
        summary=_without_markdown(parameter.summary),
        required=parameter.required,
        extension=parameter.extension,
    )


def _without_markdown(text: str) -> str:
    return text.replace("`", "")


def _values(found: inspect.Type) -> str:
    """Return a description of the values that a parameter accepts."""
    match found:
        case inspect.Metadata():
            return _values(found.type)
        case inspect.ListType():
            return f"{_values(found.item_type)}, may be repeated"
        case inspect.EnumType():
            return " | ".join(found.cls)
        case inspect.LiteralType():
            return " | ".join(map(str, found.values))
        case inspect.IntType():
            return "number"
        case inspect.BoolType():
            return "true | false"
    return "text"


def _example(model: type[Model] | None) -> str:
    found = example(model) if model else None
    return json.dumps(found, indent=2, ensure_ascii=False) if found else ""
