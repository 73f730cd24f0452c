"""Methods, unknown addresses, and every failure as an answer that a person, htmx or a program can
use.
"""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from riverui import create_app, errors
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.render import TEMPLATES
from tests.web.stand_ins import DeadDriver, browser, dashboard

FAILURES: list[tuple[Exception, int, str]] = [
    (errors.BadRequest("Priority is 1 to 4."), 400, "Priority is 1 to 4."),
    (errors.Forbidden("You may not delete jobs."), 403, "You may not delete jobs."),
    (errors.NotFound("Job not found: 7."), 404, "Job not found: 7."),
    (errors.UniqueConflict(), 409, "Another active job"),
    (errors.DatabaseUnavailable(), 503, "DATABASE_URL"),
    (errors.LoginRefused(), 503, "PGPASSWORD"),
    (errors.DatabaseMissing(), 503, "PGDATABASE"),
    (errors.SchemaMissing(), 503, "riverui migrate-up"),
    (errors.SchemaTooOld(), 503, "riverui migrate-up"),
    (errors.QueryTimeout(), 503, "Narrow the search"),
    (errors.LockTimeout(), 503, "Nothing was changed"),
    (errors.PermissionDenied(), 503, "--read-only"),
    (errors.ReadOnlyDatabase(), 403, "This database is read-only."),
    (errors.ServerTooOld(), 503, "Upgrade it"),
    (errors.StandbyConflict(), 503, "Try again in a moment."),
    (errors.StandbyLacks(), 503, "unlogged tables"),
    (errors.DatabaseError("odd"), 503, "odd"),
    (HTTPException(418, "Only tea here."), 418, "Only tea here."),
    (HTTPException(404), 404, "nothing at this address"),
    (RuntimeError("secret"), 500, "for request id"),
]


def failing(error: Exception) -> Starlette:
    async def fail(request: Request) -> Response:
        raise error

    app = create_app(DeadDriver(), no_auth=True)
    app.router.routes[:0] = [
        GuardedRoute(method, path, f"{method}{path}", "jobs.read", fail)
        for method in ("GET", "POST")
        for path in ("/fail", "/api/fail")
    ]
    return app


@pytest.mark.parametrize(
    ("error", "status", "words"), FAILURES, ids=lambda value: type(value).__name__
)
async def test_failures_are_pages_notices_or_json(
    error: Exception, status: int, words: str
) -> None:
    async with browser(failing(error)) as client:
        page = await client.get("/fail?q=1")
        assert page.status_code == status
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "<!doctype html>" in page.text
        assert words in page.text
        assert "Traceback" not in page.text
        assert "secret" not in page.text

        notice = await client.post(
            "/fail", headers={"HX-Request": "true", "HX-Target": "main#jobs-list"}
        )
        assert notice.status_code == status
        assert notice.headers["hx-retarget"] == "#notices"
        assert "<!doctype html>" not in notice.text
        assert words in notice.text

        api = await client.post("/api/fail")
        assert api.status_code == status
        assert api.headers["content-type"] == "application/json; charset=utf-8"
        assert words in api.json()["message"]


async def test_what_may_pass_soon_says_when_to_ask_again() -> None:
    async with browser(failing(errors.DatabaseUnavailable())) as client:
        assert (await client.get("/fail")).headers["retry-after"] == "5"


async def test_error_words_are_text_not_markup() -> None:
    async with browser(failing(errors.NotFound("<script>alert(1)</script>"))) as client:
        for headers in ({}, {"HX-Request": "true"}):
            text = (await client.get("/fail", headers=headers)).text
            assert "<script>alert" not in text
            assert "&lt;script&gt;" in text


async def test_an_error_page_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = failing(errors.NotFound("Job not found: 7."))
    app.state.dashboard.get(TEMPLATES).environment.loader = None
    app.state.dashboard.get(TEMPLATES).environment.cache.clear()
    async with browser(app) as client:
        answer = await client.get("/fail")
    assert (answer.status_code, answer.headers["content-type"]) == (
        404,
        "text/plain; charset=utf-8",
    )
    assert "Job not found: 7." in answer.text
    assert "the error page itself failed" in caplog.text


async def test_unknown_addresses_get_a_page_and_wrong_methods_are_told_the_right_ones() -> None:
    async with dashboard(DeadDriver()) as client:
        lost = await client.get("/nothing")
        assert lost.status_code == 404
        assert "<!doctype html>" in lost.text
        assert (await client.get("/api/nothing")).json() == {
            "message": "There is nothing at this address."
        }
        for method, path, allowed in (
            ("POST", "/jobs", "GET, HEAD"),
            ("DELETE", "/jobs/7", "GET, HEAD"),
            ("GET", "/jobs/cancel", "POST"),
            ("OPTIONS", "/jobs", "GET, HEAD"),
            ("TRACE", "/jobs", "GET, HEAD"),
            ("BREW", "/jobs", "GET, HEAD"),
        ):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, allowed), (method, path)


async def test_a_slash_too_many_is_forgiven_without_naming_a_host() -> None:
    async with dashboard(DeadDriver(), root_path="/a b") as client:
        for path, place in (
            ("/jobs/?q=a%20b", "/jobs?q=a%20b"),
            ("/queues/", "/queues"),
            ("/jobs/7//", "/jobs/7"),
            ("/about/", "/about"),
        ):
            answer = await client.get(f"/a%20b{path}")
            assert (answer.status_code, answer.headers.get("location")) == (
                307,
                f"/a%20b{place}",
            ), path
        for path in ("/nothing/", "//", "//evil.test/", "/static/", "/jobs/cancel/"):
            assert (await client.get(f"/a%20b{path}")).status_code == 404, path
        assert (await client.post("/a%20b/jobs/cancel/")).status_code == 404


async def test_numbers_in_addresses_may_be_any_size() -> None:
    async with dashboard(DeadDriver()) as client:
        for path in (
            "/jobs/-1",
            "/jobs/99999999999999999999999",
            "/jobs/1/log/99999999999999999999999",
        ):
            assert (await client.get(path)).status_code in (404, 503), path
        for path in ("/jobs/--1", "/jobs/1.5", "/jobs/²", "/jobs/x"):
            assert (await client.get(path)).status_code == 404, path


async def test_head_answers_like_get() -> None:
    async with dashboard(DeadDriver(dead=False)) as client:
        for path in ("/help", "/api/health-checks/complete", "/static/x/app.css", "/nothing"):
            head, get = await client.head(path), await client.get(path)
            assert head.status_code == get.status_code, path
            assert head.headers["content-type"] == get.headers["content-type"]


async def test_the_request_id_names_one_request() -> None:
    async with dashboard(DeadDriver()) as client:
        first = await client.get("/help", headers={"X-Request-Id": "forged"})
        second = await client.get("/help")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert first.headers["x-request-id"] != "forged"
