"""The API's own description: an OpenAPI 3.1 document put together from the routes and the
catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from riverui import __version__
from riverui.web.api import serializers
from riverui.web.api.catalogue import CATALOGUE
from riverui.web.api.described import JSON, Described, Parameter
from riverui.web.api.pro_catalogue import PRO_SCHEMAS
from riverui.web.api.schemas import SCHEMAS, ref
from riverui.web.auth.access import PUBLIC, SIGNED_IN
from riverui.web.http.routes import GuardedRoute
from riverui.web.http.urls import base_path

_FAILS = (400, 401, 403, 429, 503)
"""Statuses that any address may answer with."""
_BODY_FAILS = (413,)


async def show(request: Request) -> Response:
    """The document, with the base path that this request came by."""
    return serializers.reply(document(described(request.app.routes), base=base_path(request)))


def described(routes: Iterable[object]) -> list[GuardedRoute]:
    """Those of the routes that the catalogue tells of, in its order."""
    found = {route.name: route for route in routes if isinstance(route, GuardedRoute)}
    return [found[name] for name in CATALOGUE if name in found]


def document(entries: Iterable[GuardedRoute], *, base: str = "") -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for entry in entries:
        paths.setdefault(entry.path_format, {})[method(entry).lower()] = _operation(
            entry, CATALOGUE[entry.name]
        )
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
            "schemas": {**SCHEMAS, **PRO_SCHEMAS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def method(entry: GuardedRoute) -> str:
    """The one method that a route is for."""
    assert entry.methods is not None
    (found,) = entry.methods - {"HEAD"}
    return found


def right_words(right: str, rights: Mapping[str, str]) -> str:
    """Return who may use a route, in words; `rights` are those of the dashboard."""
    return rights.get(right, "" if right == PUBLIC else "anyone signed in")


def _operation(entry: GuardedRoute, told: Described) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": entry.name,
        "summary": told.told,
        "tags": [told.group],
        "parameters": [_parameter(parameter) for parameter in told.parameters],
        "responses": _responses(told),
    }
    if told.body:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(told.body)}}}
    if entry.right == PUBLIC:
        operation["security"] = []
    elif entry.right != SIGNED_IN:
        operation["x-right"] = entry.right
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.needed,
        "description": parameter.told,
        "schema": parameter.schema,
    }


def _responses(told: Described) -> Mapping[str, Any]:
    schema = ref(told.answer) if told.answer else {}
    success = {
        "description": HTTPStatus(told.status).phrase,
        "content": {
            media: {"schema": schema if media == JSON else {"type": "string"}}
            for media in told.media
        },
    }
    fails = sorted({*_FAILS, *told.fails, *(_BODY_FAILS if told.body else ())})
    found = {str(told.status): success}
    if told.accepted:
        found["202"] = {
            "description": HTTPStatus.ACCEPTED.phrase,
            "content": {JSON: {"schema": ref(told.accepted)}},
        }
    return found | {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {JSON: {"schema": ref("Error")}},
        }
        for status in fails
    }
