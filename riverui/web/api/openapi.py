"""The API's description: an OpenAPI 3.1 document made from its routes and their models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from riverui import __version__
from riverui.web.api import serializers
from riverui.web.api.endpoints import JSON, Endpoint, Parameter
from riverui.web.api.models import Error, Model
from riverui.web.http.context import PUBLIC, SIGNED_IN
from riverui.web.http.request_context import base_path

_FAILS = (400, 401, 403, 429, 503)
"""Statuses that every endpoint may answer with."""
_BODY_FAILS = (413,)
"""Further statuses of every endpoint that takes a body."""
_REF = "#/components/schemas/{name}"


async def show(request: Request) -> Response:
    """Answer with the document, using the base path of this request."""
    return serializers.reply(document(endpoints(request.app.routes), base=base_path(request)))


def endpoints(routes: Iterable[object]) -> list[Endpoint]:
    """Return the routes that belong to the API."""
    return [route for route in routes if isinstance(route, Endpoint)]


def document(found: Iterable[Endpoint], *, base: str = "") -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    found = list(found)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in found:
        paths.setdefault(endpoint.path_format, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "riverui",
            "version": __version__,
            "description": "River UI's JSON API, and what riverui adds to it.",
        },
        "servers": [{"url": base or "/"}],
        "security": [{"token": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(found),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def schemas(found: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the schemas of all models of these routes by name, with their examples."""
    types: list[Any] = [Error]
    for endpoint in found:
        described = endpoint.description
        types += [
            model
            for model in (described.answer, described.accepted, *described.body)
            if model is not None
        ]
        types += [parameter.type for parameter in described.parameters]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    for schema in components.values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    for model in filter(_is_model, types):
        if shown := example(model):
            components[model.__name__]["examples"] = [shown]
    return components


def example(model: type[Model]) -> Any:
    """Return a model's example as JSON; None if it has none."""
    found = model.example()
    return None if found is None else msgspec.json.decode(msgspec.json.encode(found))


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a parameter's values."""
    (schema,), _ = msgspec.json.schema_components([parameter.type], ref_template=_REF)
    if parameter.max_items is not None:
        schema["maxItems"] = parameter.max_items
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def right_words(right: str, rights: Mapping[str, str]) -> str:
    """Return who may use a route, as text; `rights` are those of the dashboard."""
    return rights.get(right, "" if right == PUBLIC else "anyone signed in")


def _is_model(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Model)


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    described = endpoint.description
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": described.summary,
        "tags": [described.group],
        "parameters": [_parameter(parameter) for parameter in described.parameters],
        "responses": _responses(endpoint),
    }
    if described.body:
        taken = [_ref(model) for model in described.body]
        schema = taken[0] if len(taken) == 1 else {"anyOf": taken}
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    if endpoint.right == PUBLIC:
        operation["security"] = []
    elif endpoint.right != SIGNED_IN:
        operation["x-right"] = endpoint.right
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required,
        "description": parameter.summary,
        "schema": parameter_schema(parameter),
    }


def _responses(endpoint: Endpoint) -> Mapping[str, Any]:
    described = endpoint.description
    schema = _ref(described.answer) if described.answer else {}
    found: dict[str, Any] = {
        "200": {
            "description": HTTPStatus.OK.phrase,
            "content": {
                media: {"schema": schema if media == JSON else {"type": "string"}}
                for media in described.media
            },
        }
    }
    if described.accepted:
        found["202"] = _response(HTTPStatus.ACCEPTED, described.accepted)
    for status in sorted({*_FAILS, *described.fails, *(_BODY_FAILS if described.body else ())}):
        found[str(status)] = _response(HTTPStatus(status), Error)
    return found


def _response(status: HTTPStatus, model: type[Model]) -> dict[str, Any]:
    return {"description": status.phrase, "content": {JSON: {"schema": _ref(model)}}}


def _ref(model: type[Model]) -> dict[str, Any]:
    return {"$ref": _REF.format(name=model.__name__)}
