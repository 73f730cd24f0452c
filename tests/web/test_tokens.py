"""API tokens: what their lines say, who gets in with them, and what they may do."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from riverui import create_app
from riverui.cli.main import main
from riverui.errors import ConfigError
from riverui.web.auth.rights import EVERYTHING, READ_ONLY, RIGHTS
from riverui.web.auth.tokens import Tokens, new_token, parse, rights_of
from tests.cases import cases
from tests.web.stand_ins import DeadDriver, browser


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def status(
    app: Starlette, token: str, method: str = "GET", path: str = "/help", **headers: str
) -> int:
    async with browser(app) as client:
        return (await client.request(method, path, headers=bearer(token) | headers)).status_code


def test_a_new_token_is_known_by_its_line_and_its_line_does_not_give_it_away() -> None:
    token, line = new_token("ci", "read")
    assert re.fullmatch(r"riverui_[\w-]{43}", token)
    assert token not in line
    found = Tokens(line).find(token)
    assert found is not None
    assert (found.name, found.rights) == ("ci", READ_ONLY)
    assert Tokens(line).find(token[:-1]) is None
    assert new_token("ci", "read")[0] != token


@pytest.mark.parametrize(
    ("text", "rights"),
    [
        ("all", EVERYTHING),
        ("read", READ_ONLY),
        ("jobs.read", {"jobs.read"}),
        ("read+jobs.retry", READ_ONLY | {"jobs.retry"}),
        ("jobs.cancel+jobs.delete", {"jobs.cancel", "jobs.delete"}),
    ],
)
def test_rights(text: str, rights: frozenset[str]) -> None:
    assert rights_of(text) == rights


def test_lines_are_parted_by_newlines_or_commas() -> None:
    lines = [new_token(name, "all")[1] for name in ("a", "b", "c")]
    for between in ("\n", ",", "\n# a remark\n\n", " , "):
        assert [token.name for token in parse(between.join(lines), where="x")] == ["a", "b", "c"]
    assert parse("", where="x") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ci", "expected name:sha256:rights"),
        ("ci:abc:read", "expected name:sha256:rights"),
        (f":{'0' * 64}:read", "expected name:sha256:rights"),
        (f"ci:{'0' * 64}:read:more", "expected name:sha256:rights"),
        (f"ci:{'0' * 64}:", "unknown right ''"),
        (f"ci:{'0' * 64}:everything", "unknown right 'everything'"),
        (f"ci:{'0' * 64}:read\nci:{'1' * 64}:all", "line 2: duplicate token name ci"),
    ],
)
def test_lines_that_cannot_be_used(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        Tokens(text)


@pytest.mark.parametrize(
    ("name", "rights"), [("a b", "read"), ("a:b", "read"), ("", "read"), ("a", "write")]
)
def test_tokens_that_cannot_be_made(name: str, rights: str) -> None:
    with pytest.raises(ConfigError):
        new_token(name, rights)


def test_the_command_prints_the_token_and_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["token", "ci", "--rights", "jobs.read+jobs.retry"])
    assert ended.value.code == 0
    token, line = re.findall(r": +(\S+)", capsys.readouterr().out)
    found = Tokens(line).find(token)
    assert found is not None
    assert found.rights == {"jobs.read", "jobs.retry"}
    with pytest.raises(SystemExit) as ended:
        main(["token", "ci", "--rights", "write"])
    assert ended.value.code == 2


async def test_a_token_lets_in_beside_a_password_and_alone() -> None:
    token, line = new_token("ci", "all")
    for app in (
        create_app(DeadDriver(), api_tokens=line),
        create_app(DeadDriver(), api_tokens=line, basic_auth=("ada", "secret")),
        create_app(DeadDriver(), api_tokens=line, authenticate=lambda connection: None),
    ):
        assert await status(app, token) == 200
        assert await status(app, f"{token}x") == 401
        async with browser(app) as client:
            assert (await client.get("/help")).status_code in (401, 403)
            right = await client.get("/help", auth=httpx2.BasicAuth("ada", "secret"))
            assert right.status_code in (200, 401, 403)


async def test_a_bearer_of_the_hosts_own_is_the_hosts_matter() -> None:
    seen = []

    async def authenticate(connection: object) -> None:
        seen.append(connection)

    app = create_app(DeadDriver(), api_tokens=new_token("ci", "all")[1], authenticate=authenticate)
    assert await status(app, "eyJhbGciOi") == 403
    assert len(seen) == 1
    assert await status(app, "riverui_forged") == 401
    assert len(seen) == 1


async def test_a_token_may_do_what_its_line_says() -> None:
    tokens = {right: new_token(right, right) for right in RIGHTS}
    app = create_app(DeadDriver(), api_tokens="\n".join(line for _, line in tokens.values()))
    with cases() as case:
        for right, (token, _) in tokens.items():
            with case(right):
                for method, path, needed in (
                    ("GET", "/api/jobs/1", "jobs.read"),
                    ("POST", "/api/jobs/cancel", "jobs.cancel"),
                    ("PATCH", "/api/queues/a", "queues.update"),
                    ("GET", "/about", "about.read"),
                ):
                    refused = await status(app, token, method, path) == 403
                    assert refused is (right != needed), path


async def test_a_token_of_ours_is_no_browsers_so_origins_do_not_matter() -> None:
    token, line = new_token("ci", "all")
    foreign = {"Origin": "https://elsewhere.test", "Sec-Fetch-Site": "cross-site"}
    app = create_app(DeadDriver(), api_tokens=line, no_auth=True)
    assert await status(app, token, "POST", "/api/jobs/cancel", **foreign) == 400
    assert await status(app, "riverui_forged", "POST", "/api/jobs/cancel", **foreign) == 401
    app = create_app(DeadDriver(), no_auth=True)
    assert await status(app, token, "POST", "/api/jobs/cancel", **foreign) == 403


async def test_guesses_are_slowed_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token, line = new_token("ci", "all")
    app = create_app(DeadDriver(), api_tokens=line)
    with caplog.at_level(logging.WARNING, "riverui.access"):
        assert {await status(app, f"riverui_{n:06}guess") for n in range(10)} == {401}
    assert "token refused" in caplog.text
    assert "guess" not in caplog.text
    assert await status(app, "riverui_another") == 429
    assert await status(app, token) == 200


async def test_guesses_at_one_token_are_slowed_down_wherever_they_come_from() -> None:
    token, line = new_token("ci", "all")
    app = create_app(DeadDriver(), api_tokens=line)

    async def guess(shown: str, client: str) -> int:
        async with browser(app, client=client) as asking:
            return (await asking.get("/help", headers=bearer(shown))).status_code

    assert {await guess(f"{token[:16]}{n}", f"192.0.2.{n}") for n in range(10)} == {401}
    assert await guess(f"{token[:16]}x", "192.0.2.99") == 429
    assert await guess("riverui_of-somebody-else", "192.0.2.99") == 401
    assert await guess(token, "192.0.2.99") == 200


async def test_changed_files_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens"
    with pytest.raises(ConfigError, match="cannot read"):
        create_app(DeadDriver(), api_tokens=file)
    first, line = new_token("first", "all")
    file.write_text(line)
    app = create_app(DeadDriver(), api_tokens=file)
    assert await status(app, first) == 200
    second, line = new_token("second", "read")
    file.write_text(f"# one more\n{line}\n")
    assert (await status(app, first), await status(app, second)) == (401, 200)
    file.write_text("nonsense")
    assert await status(app, second) == 401
    assert "no token is accepted until this is fixed" in caplog.text
    file.unlink()
    assert await status(app, second) == 401
    file.write_text(line)
    assert await status(app, second) == 200
