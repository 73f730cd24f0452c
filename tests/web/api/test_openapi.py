"""The description tells of exactly the routes there are, and answers are what it says."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.domain.jobs import JobState
from riverui.features.error_groups.domain.fingerprints import error_signature
from riverui.web.api import requests
from riverui.web.api.endpoints import JSON, Endpoint
from riverui.web.api.job_models import Query
from riverui.web.api.openapi import document, endpoints, example, schemas
from riverui.web.auth.rights import RIGHTS
from riverui.web.http.routes import GuardedRoute
from tests.factory import Make
from tests.own_tables import dead_letter, incident, periodic_job
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, browser

Connection = AsyncConnection[dict[str, Any]]


@cache
def entries() -> list[Endpoint]:
    """Return every route that the document tells of."""
    return endpoints(create_app(DeadDriver(), no_auth=True).routes)


@cache
def described() -> dict[str, Any]:
    """Return the document's schemas by their names."""
    return schemas(entries())


def test_every_route_is_described_and_nothing_else() -> None:
    for_programs = {
        route.name
        for route in create_app(DeadDriver(), no_auth=True).routes
        if isinstance(route, GuardedRoute) and route.path.startswith(("/api/", "/metrics"))
    }
    assert {entry.name for entry in entries()} == for_programs


def test_the_document_has_each_route_with_its_right_and_its_path_parameters() -> None:
    told = document(entries())
    for entry in entries():
        operation = told["paths"][entry.path_format][entry.method.lower()]
        assert operation.get("x-right", "") == (entry.right if entry.right in RIGHTS else "")
        named = {found["name"] for found in operation["parameters"] if found["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", entry.path_format)), entry.name
    assert sum(len(methods) for methods in told["paths"].values()) == len(entries())


def test_schemas_are_sound_and_examples_fit_them() -> None:
    from jsonschema.validators import Draft202012Validator

    used = re.findall(r"#/components/schemas/(\w+)", str(document(entries())))
    assert set(described()) == set(used)
    for name, schema in described().items():
        Draft202012Validator.check_schema(schema)
        for shown in schema.get("examples", []):
            validate(name, shown)


def validate(name: str, found: Any) -> None:
    """Raise where JSON is not what the schema says."""
    # Loaded here, as it takes seconds.
    from jsonschema.validators import Draft202012Validator

    whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": described()}}
    Draft202012Validator(whole).validate(found)


async def test_answers_fit_the_document(app: Starlette, api: AsyncClient, make: Make) -> None:
    await make.queue("default", metadata={"concurrency": {"global_limit": 1}})
    for state in ("available", "running", "discarded"):
        job_id = await make.job(state)
    await dead_letter(make.connection, job_id)
    begun = (await api.post("jobs/delete", json={"query": "kind:none"})).json()["operation"]
    await periodic_job(make.connection, begun["id"])
    await incident(make.connection, begun["id"])
    parameters = {"name": "default", "job_id": str(job_id), "id": begun["id"]}
    parameters["fingerprint"] = error_signature("it broke").fingerprint
    answered = [
        (entry, entry.description.answer)
        for entry in endpoints(app.routes)
        if entry.method == "GET"
        and entry.description.answer
        and JSON in entry.description.media
        and ".pro." not in entry.name
    ]
    assert len(answered) > 10
    for entry, model in answered:
        known = parameters | ({"name": "complete"} if entry.name == "health" else {})
        path = entry.path_format.format_map(known).removeprefix("/api/")
        sent = {"facet": "job_kind", "q": "kind:test_kind"}
        named = {parameter.name for parameter in entry.description.parameters}
        answer = await api.get(path, params={name: sent[name] for name in sent if name in named})
        assert answer.status_code == 200, (entry.name, answer.text)
        validate(model.__name__, answer.json())


async def test_the_document_names_the_base_path(app: Starlette) -> None:
    async with browser(app, root_path="/river") as client:
        answer = await client.get("/river/api/openapi.json")
        assert answer.json()["servers"] == [{"url": "/river"}]
        assert answer.json()["openapi"] == "3.1.0"


async def test_the_page_shows_every_address(app: Starlette) -> None:
    async with browser(app) as client:
        answer = await client.get("/api")
    assert answer.status_code == 200
    page = parse(answer.text)
    for entry in entries():
        section = page.one("section", id=entry.name.replace(".", "-"))
        assert entry.path_format in section.text
        assert entry.method in section.text


def test_an_empty_state_is_any() -> None:
    for state in (None, [], [""], "", 0):
        assert requests.convert({"query": "", "state": state}, Query).state == ()
    assert requests.convert({"query": "", "state": ["running", ""]}, Query).state == (
        JobState.RUNNING,
    )


def test_every_model_that_is_taken_or_answered_has_a_docstring_and_an_example() -> None:
    told = [entry.description for entry in entries()]
    models = {
        model
        for each in told
        for model in (each.answer, each.accepted, *each.body)
        if model is not None
    }
    assert len(models) > 10
    for model in models:
        assert vars(model).get("__doc__"), model
        assert described()[model.__name__]["examples"] == [example(model)]
