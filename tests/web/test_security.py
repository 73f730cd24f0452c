"""Headers on every answer, changes from one's own pages only, bounded forms, cookies nobody can
forge.
"""

from __future__ import annotations

import pytest
from itsdangerous import URLSafeTimedSerializer
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Scope

from riverui import create_app
from riverui.engine.feature_list import plain_pilot
from riverui.errors import ConfigError
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions
from riverui.web.http.cookies import preferences, write_preferences
from riverui.web.http.forms import form
from riverui.web.http.gate import HEADERS, same_origin
from riverui.web.http.proxy import TrustedProxy
from riverui.web.http.request_context import local_path
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.preferences import Preferences, choose
from tests.cases import cases
from tests.web.stand_ins import DeadDriver, browser

KEY = "a key that only the tests know"


def app_with(*entries: GuardedRoute, **options: object) -> Starlette:
    """Return the dashboard with routes of a test's own in front."""
    app = create_app(
        DeadDriver(dead=False),
        no_auth=True,
        config=DashboardConfig(secret_key=KEY, **options),  # type: ignore[arg-type]
    )
    app.router.routes[:0] = entries
    return app


async def test_every_answer_carries_the_security_headers() -> None:
    async def boom(request: Request) -> Response:
        raise RuntimeError("boom")

    app = app_with(GuardedRoute("GET", "/boom", "boom", "jobs.read", boom))
    with cases() as case:
        for method, path, headers, status in (
            ("GET", "/help", {}, 200),
            ("GET", "/", {}, 200),
            ("GET", "/nothing", {}, 404),
            ("GET", "/nothing", {"HX-Request": "true"}, 404),
            ("POST", "/help", {}, 405),
            ("POST", "/jobs/delete", {"Sec-Fetch-Site": "cross-site"}, 403),
            ("GET", "/api/health-checks/minimal", {}, 200),
            ("GET", "/boom", {}, 500),
        ):
            with case((method, path, headers)):
                async with browser(app) as client:
                    answer = await client.request(method, path, headers=headers)
                assert answer.status_code == status
                for name, value in HEADERS.items():
                    assert answer.headers[name] == value, name
                assert answer.headers["x-request-id"]


async def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "*" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_an_unexpected_error_shows_its_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def boom(request: Request) -> Response:
        raise RuntimeError("postgres://user:hunter2@db")

    async with browser(app_with(GuardedRoute("GET", "/boom", "boom", "jobs.read", boom))) as client:
        for headers in ({}, {"HX-Request": "true"}):
            answer = await client.get("/boom", headers=headers)
            assert answer.headers["x-request-id"] in answer.text
            assert "hunter2" not in answer.text
            assert "Traceback" not in answer.text
    assert "hunter2" in caplog.text


CAME_FROM: tuple[tuple[dict[str, str], int], ...] = (
    ({}, 200),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "none"}, 200),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "nonsense"}, 403),
    ({"Origin": "http://river.test"}, 200),
    ({"Origin": "http://river.test:80"}, 200),
    ({"Origin": "http://river.test:8080"}, 403),
    ({"Origin": "http://evil.test"}, 403),
    ({"Origin": "http://river.test.evil.test"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": ""}, 403),
    ({"Origin": "http://[broken"}, 403),
    ({"Origin": "http://evil.test", "Sec-Fetch-Site": "same-origin"}, 200),
    ({"Origin": "http://river.test", "Sec-Fetch-Site": "cross-site"}, 403),
    ({"Origin": "http://evil.test", "X-Forwarded-Host": "evil.test"}, 403),
)
"""Headers of a change, and what it is answered."""


async def test_a_change_must_come_from_our_own_pages() -> None:
    async def change(request: Request) -> Response:
        return Response()

    with cases() as case:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            app = app_with(GuardedRoute(method, "/change", "change", "jobs.read", change))
            async with browser(app) as client:
                for headers, status in CAME_FROM:
                    with case((method, headers)):
                        answer = await client.request(method, "/change", headers=headers)
                        assert answer.status_code == status


async def test_a_proxy_that_rewrites_the_host_is_told_with_both_names_and_the_way_out() -> None:
    async def change(request: Request) -> Response:
        return Response()

    app = app_with(GuardedRoute("POST", "/change", "change", "jobs.read", change))
    headers = {"Origin": "http://jobs.example", "X-Forwarded-Host": "jobs.example"}
    alone = build_app(
        DeadDriver(dead=False),
        SignIn(no_auth=True),
        pilot=plain_pilot(),
        options=AppOptions(standalone=True),
    )
    async with browser(alone, base_url="http://10.0.0.7:8080") as client:
        told = (await client.post("/api/jobs/retry", headers=headers)).json()["message"]
        for words in (
            "http://jobs.example",
            "10.0.0.7:8080",
            "--trust-proxy",
            "RIVERUI_TRUST_PROXY=1",
        ):
            assert words in told
        page = (await client.post("/jobs/retry", headers=headers)).text
        assert "10.0.0.7:8080" in page
        marked = {"Origin": "http://<b>" + "x" * 5_000}
        page = (await client.post("/jobs/retry", headers=marked)).text
        assert "<b>x" not in page
        assert "x" * 500 not in page
    async with browser(TrustedProxy(app), base_url="http://10.0.0.7:8080") as client:
        assert (await client.post("/change", headers=headers)).status_code == 200
    # A dashboard inside another app has no such flag.
    async with browser(app, base_url="http://10.0.0.7:8080") as client:
        told = (await client.post("/api/jobs/retry", headers=headers)).json()["message"]
    assert "--trust-proxy" not in told
    assert told.endswith("a proxy in between rewrites the Host header: have it pass Host on.")


@pytest.mark.parametrize(
    ("origin", "scheme", "host", "same"),
    [
        ("https://river.test", "https", "river.test", True),
        ("https://river.test", "http", "river.test", True),  # a proxy ends TLS
        ("https://river.test:8443", "http", "river.test:8443", True),
        ("http://river.test", "https", "river.test", False),
        ("https://river.test", "http", "river.test:8080", False),
        ("https://RIVER.test", "http", "river.TEST", True),
        ("http://[::1]:8080", "http", "[::1]:8080", True),
        ("http://[::1]:8080", "http", "[::2]:8080", False),
        ("file://river.test", "http", "river.test", False),
        ("http://river.test:port", "http", "river.test", False),
        ("http://river.test", "http", "river.test:port", False),
    ],
)
def test_origins_have_scheme_host_port(origin: str, scheme: str, host: str, same: bool) -> None:
    assert same_origin(origin, scheme, Headers({"host": host})) is same


async def test_listed_origins_may_use_the_api_and_only_that() -> None:
    async def change(request: Request) -> Response:
        return JSONResponse({})

    app = app_with(
        GuardedRoute("POST", "/api/change", "api.change", "jobs.read", change),
        GuardedRoute("POST", "/change", "change", "jobs.read", change),
        cors_origins=("https://tools.test",),
    )
    listed = {"Origin": "https://tools.test", "Sec-Fetch-Site": "cross-site"}
    async with browser(app) as client:
        preflight = await client.options("/api/change", headers=listed)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://tools.test"
        assert "access-control-allow-credentials" not in preflight.headers
        answer = await client.post("/api/change", headers=listed)
        assert (answer.status_code, answer.headers["vary"]) == (200, "Origin")
        assert (await client.post("/change", headers=listed)).status_code == 403
        page = await client.get("/help", headers=listed)
        assert "access-control-allow-origin" not in page.headers
        other = {"Origin": "https://other.test", "Sec-Fetch-Site": "cross-site"}
        assert (await client.post("/api/change", headers=other)).status_code == 403
        assert (
            "access-control-allow-origin"
            not in (await client.options("/api/change", headers=other)).headers
        )


@pytest.mark.parametrize(
    "origin", ["*", "tools.test", "https://tools.test/", "https://a@tools.test", "null", ""]
)
def test_origins_that_are_none_are_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="CORS origin"):
        DashboardConfig(cors_origins=(origin,))


async def test_without_sign_in_only_our_own_host_names_are_answered() -> None:
    app = create_app(DeadDriver(), no_auth=True, hosts=frozenset({"localhost", "::1"}))
    for host, status in (
        ("localhost:8080", 200),
        ("[::1]:8080", 200),
        ("evil.test", 403),
        ("", 403),
        ("[::1", 403),
    ):
        async with browser(app) as client:
            assert (await client.get("/help", headers={"Host": host})).status_code == status, host
            assert (
                await client.get("/api/health-checks/minimal", headers={"Host": host})
            ).status_code == 200


class TestForms:
    """Posted fields."""

    @staticmethod
    async def posted(
        body: bytes, kind: str = "application/x-www-form-urlencoded"
    ) -> tuple[int, object]:
        async def show(request: Request) -> Response:
            return JSONResponse((await form(request)).multi_items())

        async with browser(
            app_with(GuardedRoute("POST", "/form", "form", "jobs.read", show))
        ) as client:
            answer = await client.post("/form", content=body, headers={"Content-Type": kind})
            return answer.status_code, answer.json() if answer.status_code == 200 else answer.text

    async def test_repeated_empty_and_unicode_fields_arrive(self) -> None:
        status, fields = await self.posted(
            b"ids=1&ids=2&next=&name=a%2Fb+%C3%A9",
            "Application/X-WWW-Form-Urlencoded; charset=utf-8",
        )
        assert status == 200
        assert fields == [["ids", "1"], ["ids", "2"], ["next", ""], ["name", "a/b é"]]

    @pytest.mark.parametrize(
        "kind", ["text/plain", "multipart/form-data; boundary=x", "application/json", ""]
    )
    async def test_other_content_is_refused(self, kind: str) -> None:
        status, _ = await self.posted(b"ids=1", kind)
        assert status == 400

    @pytest.mark.parametrize(
        ("body", "status", "words"),
        [
            (b"a=%ff", 400, "UTF-8"),
            (b"a=\xff", 400, "UTF-8"),
            (b"a=%00", 400, "NUL"),
            (b"a&" * 2_001, 400, "fields"),
            (b"a=" + b"x" * 1024 * 1024, 413, "larger"),
        ],
    )
    async def test_invalid_bodies_are_refused(self, body: bytes, status: int, words: str) -> None:
        answered, text = await self.posted(body)
        assert answered == status
        assert words in str(text)

    async def test_an_endless_body_is_not_read_to_its_end(self) -> None:
        async def show(request: Request) -> Response:
            await form(request)
            return Response()

        app = app_with(GuardedRoute("POST", "/form", "form", "jobs.read", show))
        chunks = 0

        async def receive() -> Message:
            nonlocal chunks
            chunks += 1
            return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

        statuses: list[int] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": "/form",
            "query_string": b"",
            "headers": [(b"content-type", b"application/x-www-form-urlencoded")],
        }
        await app(scope, receive, send)
        assert statuses == [413]
        assert chunks <= 17


class TestPreferences:
    """The signed cookie."""

    @staticmethod
    def app() -> Starlette:
        async def keep(request: Request) -> Response:
            response = Response()
            write_preferences(request, response, Preferences(theme="dark", live=0, show_args=True))
            return response

        async def show(request: Request) -> Response:
            found = preferences(request)
            return JSONResponse([found.theme, found.time, found.live, found.limit, found.show_args])

        return app_with(
            GuardedRoute("POST", "/keep", "keep", "jobs.read", keep),
            GuardedRoute("GET", "/show", "show", "jobs.read", show),
        )

    async def test_they_are_kept_for_this_browser(self) -> None:
        async with browser(self.app()) as client:
            assert (await client.get("/show")).json() == ["system", "relative", 2, 100, None]
            await client.post("/keep")
            assert (await client.get("/show")).json() == ["dark", "relative", 0, 100, True]

    async def test_the_cookie_is_for_us_alone(self) -> None:
        async with browser(
            self.app(), base_url="https://river.test", root_path="/my app/river"
        ) as client:
            cookie = (await client.post("/my%20app/river/keep")).headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Path=/my%20app/river;" in cookie
        assert "Secure" in cookie
        async with browser(self.app()) as client:
            cookie = (await client.post("/keep")).headers["set-cookie"]
        assert "Path=/;" in cookie
        assert "Secure" not in cookie

    @pytest.mark.parametrize(
        "cookie",
        [
            "nonsense",
            "eyJ0aGVtZSI6ImRhcmsifQ.aaaaaa.bbbbbbbbbbbb",
            URLSafeTimedSerializer("another key", salt="riverui").dumps(
                {"theme": "dark"}, salt="preferences"
            ),
            URLSafeTimedSerializer(KEY, salt="riverui").dumps(
                {"theme": "dark"}, salt="another purpose"
            ),
            URLSafeTimedSerializer(KEY, salt="riverui").dumps(["dark"], salt="preferences"),
            "x" * 5_000,
        ],
        # The signed ones hold the time of their making, and each worker of pytest-xdist makes its
        # own.
        ids=["nonsense", "forged", "another key", "another purpose", "another shape", "endless"],
    )
    async def test_forged_cookies_count_for_nothing(self, cookie: str) -> None:
        async with browser(self.app()) as client:
            answer = await client.get("/show", headers={"Cookie": f"riverui_preferences={cookie}"})
            assert answer.json() == ["system", "relative", 2, 100, None]

    def test_only_values_that_can_be_chosen_are_taken(self) -> None:
        nonsense = {
            "theme": "<script>",
            "time": 1,
            "live": True,
            "limit": 10**9,
            "show_args": "yes",
            "more": 1,
        }
        assert choose(nonsense) == Preferences()


AFTERWARDS = (
    ("/river/jobs?q=a%20b", True),
    ("/river/queues/a%2Fb", True),
    ("/river/", True),
    ("/river", False),
    ("/rivers/jobs", False),
    ("/jobs", False),
    ("//evil.test/river/", False),
    ("https://evil.test/river/", False),
    ("/river/\\evil.test", False),
    ("/river/\t/evil.test", False),
    ("/river/../login", False),
    ("/river/./x", False),
    ("/river/%2e%2e/login", False),
    ("/river/.%2E/login", False),
    ("/river/..#x", False),
    ("/river/jobs#x", True),
    ("/river/queues/~%252E%252E", True),
    ("javascript:alert(1)", False),
    ("", False),
    (None, False),
)
"""Where a form wants to lead to, and whether it does."""


async def test_after_a_form_one_stays_below_the_base_path() -> None:
    asked: str | None = None

    async def show(request: Request) -> Response:
        return JSONResponse(local_path(request, asked, default="default"))

    app = app_with(GuardedRoute("GET", "/next", "next", "jobs.read", show))
    async with browser(app, root_path="/river") as client:
        with cases() as case:
            for asked, kept in AFTERWARDS:
                with case(asked):
                    answer = await client.get("/river/next")
                    assert answer.json() == (asked if kept else "default")
