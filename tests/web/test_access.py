"""Who gets in, by which means, and with which rights."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse

from riverui import create_app
from riverui.errors import ConfigError
from riverui.web.auth.basic_auth import Throttle
from riverui.web.auth.rights import EVERYTHING, READ_ONLY, RIGHTS, Access
from tests.cases import cases
from tests.web.stand_ins import DeadDriver, browser

SHA_SECRET = "ada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def status(app: object, path: str = "/help", **headers: str) -> int:
    async with browser(app) as client:  # type: ignore[arg-type]
        return (await client.get(path, headers=headers)).status_code


async def test_an_app_must_be_told_who_may_use_it() -> None:
    with pytest.raises(ConfigError, match="say who may use the dashboard"):
        create_app(DeadDriver())


@pytest.mark.parametrize(
    "several",
    [
        {"no_auth": True, "basic_auth": ("ada", "secret")},
        {"authenticate": lambda connection: Access(), "no_auth": True},
        {"authenticate": lambda connection: Access(), "basic_auth": ("ada", "secret")},
    ],
)
async def test_ways_in_that_contradict_each_other_are_refused(several: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="choose one"):
        create_app(DeadDriver(), **several)  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [("", "secret"), ("ada", "")])
async def test_half_a_user_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="both"):
        create_app(DeadDriver(), basic_auth=pair)


async def test_basic_authentication_asks_names_its_realm_and_lets_the_right_pair_in() -> None:
    app = create_app(DeadDriver(), basic_auth=("ada", "sécret:with:colons"))
    async with browser(app) as client:
        asked = await client.get("/help")
        assert asked.status_code == 401
        assert asked.headers["www-authenticate"] == 'Basic realm="riverui", charset="UTF-8"'
        assert (
            await client.get("/help", headers=basic("ada", "sécret:with:colons"))
        ).status_code == 200


async def test_anything_but_the_right_pair_stays_out() -> None:
    app = create_app(DeadDriver(), basic_auth=("ada", "secret"))
    with cases() as case:
        for header in (
            "",
            "Basic",
            "Basic !!!",
            "Basic YWRh",  # "ada", no colon
            "Bearer YWRhOnNlY3JldA==",
            "Basic " + base64.b64encode(b"ada:wrong").decode(),
            "Basic " + base64.b64encode(b"bob:secret").decode(),
            "Basic " + base64.b64encode(b"ada:secret\0").decode(),
            "Basic " + base64.b64encode(b":").decode(),
            "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        ):
            with case(header):
                assert await status(app, Authorization=header) == 401


async def test_unknown_addresses_and_wrong_methods_ask_for_sign_in_too() -> None:
    app = create_app(DeadDriver(), basic_auth=("ada", "secret"))
    async with browser(app) as client:
        assert (await client.get("/nothing/here")).status_code == 401
        assert (await client.post("/jobs")).status_code == 401
        assert (await client.post("/api/health-checks/minimal")).status_code == 401
        assert (await client.options("/jobs")).status_code == 401


async def test_exemptions_hold_for_whole_routes_only() -> None:
    app = create_app(DeadDriver(), basic_auth=("ada", "secret"))
    with cases() as case:
        for path in (
            "/queues/a%2Fapi%2Fhealth-checks%2Fminimal",
            "/queues/x/api/health-checks/minimal",
            "/jobs/api/health-checks/minimal",
            "/api/health-checks/minimal/",
            "/api/health-checks/a/b",
            "//api/health-checks/minimal",
            "/api/health-checks/minimal%0A",
            "/jobs/1/raw/static",
            "/static/",
            "/statics/x/app.css",
        ):
            with case(path):
                # The health route takes any one segment as a name, so a newline in it is an unknown
                # name, told to anyone.
                assert await status(app, path) == (404 if path.endswith("%0A") else 401)


async def test_a_broken_file_of_users_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        create_app(DeadDriver(), htpasswd=tmp_path / "nowhere")


async def test_a_file_of_users(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "users"
    file.write_text(SHA_SECRET)
    app = create_app(DeadDriver(), htpasswd=file)
    assert await status(app, **basic("ada", "secret")) == 200
    assert await status(app, **basic("bob", "secret")) == 401

    file.write_text(SHA_SECRET.replace("ada", "bob"))
    assert await status(app, **basic("ada", "secret")) == 401, (
        "an accepted pair is remembered past its removal"
    )
    assert await status(app, **basic("bob", "secret")) == 200

    file.write_text("bob:plain text\n")
    with caplog.at_level(logging.ERROR):
        assert await status(app, **basic("bob", "secret")) == 401, (
            "a broken file must not leave the old users in"
        )
        assert await status(app, **basic("bob", "plain text")) == 401
    assert caplog.text.count("no one can sign in") == 1

    kept = tmp_path / "kept"
    file.write_text(SHA_SECRET)
    assert await status(app, **basic("ada", "secret")) == 200
    file.rename(kept)
    assert await status(app, **basic("ada", "secret")) == 401
    kept.rename(file)
    assert await status(app, **basic("ada", "secret")) == 200


async def test_one_user_and_a_file_of_users_work_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(SHA_SECRET)
    app = create_app(DeadDriver(), basic_auth=("root", "toor"), htpasswd=file)
    assert await status(app, **basic("ada", "secret")) == 200
    assert await status(app, **basic("root", "toor")) == 200
    assert await status(app, **basic("root", "secret")) == 401


async def test_guessing_is_slowed_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(DeadDriver(), basic_auth=("ada", "secret"))
    assert await status(app, **basic("ada", "secret")) == 200
    guesses = [await status(app, **basic("ada", f"guess {number}")) for number in range(12)]
    assert guesses[:10] == [401] * 10
    assert guesses[10:] == [429] * 2
    assert caplog.messages.count("sign-in refused") == 10
    assert "guess" not in caplog.text
    async with browser(app) as client:
        assert "retry-after" in (await client.get("/help", headers=basic("ada", "guess"))).headers
        assert (await client.get("/help")).status_code == 401, (
            "asking without a password is no guess"
        )
    assert await status(app, **basic("ada", "secret")) == 200


async def test_guessing_many_at_once_is_slowed_down_as_well(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(SHA_SECRET)
    app = create_app(DeadDriver(), htpasswd=tmp_path / "users")
    guesses = await asyncio.gather(
        *(status(app, **basic("ada", f"guess {number}")) for number in range(40))
    )
    assert guesses.count(401) == 10
    assert guesses.count(429) == 30


async def test_many_requests_at_once_with_the_right_password_all_get_in(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(SHA_SECRET)
    app = create_app(DeadDriver(), htpasswd=tmp_path / "users")
    assert set(
        await asyncio.gather(*(status(app, **basic("ada", "secret")) for _ in range(40)))
    ) == {200}


async def test_the_throttle_lets_one_more_through_after_each_span() -> None:
    now = 0.0
    throttle = Throttle(burst=2, clients=2, clock=lambda: now)
    for _ in range(2):
        assert throttle.allows("a")
        throttle.failed("a")
    assert not throttle.allows("a")
    assert throttle.allows("b")
    now += 6.5
    assert throttle.allows("a")
    throttle.failed("a")
    assert not throttle.allows("a")
    for client in ("b", "c"):
        throttle.failed(client)
    assert throttle.allows("a"), "the list of clients is bounded: the oldest is forgotten"


async def test_a_host_app_decides_who_and_what() -> None:
    def authenticate(connection: HTTPConnection) -> Access | None:
        user = connection.headers.get("x-user")
        return Access(user=user, rights=frozenset({"jobs.read"})) if user else None

    app = create_app(DeadDriver(), authenticate=authenticate)
    async with browser(app) as client:
        assert (await client.get("/help")).status_code == 403
        assert (await client.get("/help", headers={"X-User": "ada"})).status_code == 200
        assert (await client.get("/about", headers={"X-User": "ada"})).status_code == 403
        assert (await client.post("/jobs/delete", headers={"X-User": "ada"})).status_code == 403


def test_rights_that_do_not_exist_are_rejected_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(ConfigError, match=r"no right 'job.read': did you mean 'jobs.read'\?"):
        Access(rights=frozenset({"job.read", "queues.read"}))
    with pytest.raises(ConfigError, match=r"no right 'xyz': use any of .*jobs\.cancel"):
        Access(rights=frozenset({"xyz"}))


async def test_a_host_app_may_decide_asynchronously_and_send_people_to_its_own_sign_in() -> None:
    async def authenticate(connection: HTTPConnection) -> RedirectResponse:
        await asyncio.sleep(0)
        return RedirectResponse("/login?next=/river", status_code=303)

    app = create_app(DeadDriver(), authenticate=authenticate)
    async with browser(app) as client:
        page = await client.get("/jobs")
        assert (page.status_code, page.headers["location"]) == (303, "/login?next=/river")
        fragment = await client.get("/jobs", headers={"HX-Request": "true"})
        assert fragment.headers["hx-redirect"] == "/login?next=/river"
        assert "location" not in fragment.headers, "htmx would put the sign-in page into a region"


async def test_invalid_access_lets_nobody_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(DeadDriver(), authenticate=lambda connection: True)  # type: ignore[arg-type,return-value]
    assert await status(app) == 500
    assert "authenticate returned bool" in caplog.text


async def test_rights_are_one_closed_table() -> None:
    assert set(RIGHTS) == EVERYTHING
    reading = {"about.read", "figures.read", "jobs.read", "metrics.read", "queues.read"}
    assert reading == READ_ONLY
