"""Encrypted args on pages: shown as sealed, and decrypted only for users with the right."""

from __future__ import annotations

import json
import logging
import pickle
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import DashboardConfig, JobState, create_app
from riverui.cli.serve.config import dashboard_config
from riverui.cli.settings import SETTINGS, Values
from riverui.errors import ConfigError
from riverui.features.encryption.domain import ArgsKeys
from riverui.storage.interface import Driver
from riverui.web.auth.rights import EVERYTHING, READ_ONLY, Access
from tests.factory import job
from tests.web.html import parse
from tests.web.stand_ins import browser

Connection = AsyncConnection[Any]
KEY, OTHER = b"k" * 32, b"o" * 32
SECRET = "4242-4242"
KEYS = ArgsKeys([KEY])


def sealed(key: bytes = KEY) -> dict[str, Any]:
    """Return encrypted args."""
    found: dict[str, Any] = json.loads(ArgsKeys([key]).seal(json.dumps({"card": SECRET})))
    return found


@pytest.fixture
def rights() -> frozenset[str]:
    """Return the rights of the user."""
    return EVERYTHING


@pytest.fixture
async def app(driver: Driver, rights: frozenset[str]) -> AsyncIterator[Starlette]:
    """Yield a dashboard with a key."""
    app = create_app(
        driver,
        authenticate=lambda connection: Access(user="ada", rights=rights),
        config=DashboardConfig(encryption_keys=KEYS),
    )
    yield app
    await app.state.dashboard.close()


async def test_lists_and_pages_show_that_args_are_sealed(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    args = sealed()
    failed = await job(connection, "discarded", args=args, errors=["boom"])
    done = await job(connection, "completed", args=args)
    size = len(json.dumps({"card": SECRET})) + 46
    for address in (
        "/jobs",
        "/jobs?state=discarded",
        f"/jobs/{failed}",
        f"/jobs/{failed}/compare?with={done}",
        f"/jobs/new?like={failed}",
        "/errors",
        "/",
    ):
        page = await client.get(address)
        assert page.status_code == 200, address
        assert args["river_encrypt"][:20] not in page.text, address
        assert SECRET not in page.text
        if address not in ("/errors", "/"):
            assert f"sealed: {size} bytes" in page.text, address
    lock = (await client.get("/jobs")).text
    assert '#lock"' in lock
    group = re.search(r'"(/errors/fp1%3A[0-9a-f]{16})"', (await client.get("/errors")).text)
    assert group is not None
    samples = await client.get(group[1])
    assert f"sealed: {size} bytes" in samples.text
    assert args["river_encrypt"][:20] not in samples.text


@pytest.mark.parametrize("size", [10, 2_000])
async def test_a_column_of_a_path_shows_that_args_are_sealed(
    client: httpx2.AsyncClient, connection: Connection, size: int
) -> None:
    args: dict[str, Any] = json.loads(KEYS.seal(json.dumps({"card": SECRET, "x": "y" * size})))
    hidden = await job(connection, args=args)
    plain = await job(connection, args={"card": "none"}, metadata={"river_encrypt": "mine"})
    address = "/jobs?columns=kind,args.card,args.river_encrypt,args.card[].x,metadata.river_encrypt"
    answer = await client.get(address)
    assert answer.status_code == 200, answer.headers
    page = parse(answer.text)
    assert args["river_encrypt"][:20] not in page.text

    def values(row: int) -> list[str]:
        return [td.text.strip() for td in page.one(id=f"job-{row}").all("td", class_="c-json")]

    texts = [each.text for each in parse((await client.get("/jobs")).text).all(class_="sealed")]
    assert texts == ["sealed: 86 bytes" if size == 10 else "sealed"]
    assert values(hidden) == ["sealed", "sealed", "sealed", "–"]
    assert len(page.one(id=f"job-{hidden}").all(class_="sealed")) == 3
    assert values(plain) == ["none", "–", "[]", "mine"]


async def test_the_api_has_them_as_they_are_stored(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    args = sealed()
    job_id = await job(connection, "available", args=args)
    assert json.loads((await client.get(f"/api/jobs/{job_id}")).json()["args"]) == args
    raw = await client.get(f"/jobs/{job_id}/raw/args")
    assert json.loads(raw.text) == args


async def test_users_with_the_right_decrypt_them_and_that_is_logged(
    client: httpx2.AsyncClient, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.actions")
    job_id = await job(connection, "running", args=sealed())
    page = await client.get(f"/jobs/{job_id}")
    assert f'action="/jobs/{job_id}/opened"' in page.text
    assert "open args" not in caplog.text
    opened = await client.post(f"/jobs/{job_id}/opened", data={})
    assert opened.status_code == 200
    assert SECRET in opened.text
    assert opened.headers["cache-control"] == "no-store"
    assert 'data-final="1"' in opened.text, "it does not refresh itself"
    assert f"open args by 'ada': job {job_id} of kind" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in (await client.get(f"/jobs/{job_id}")).text
    assert SECRET not in (await client.get("/jobs")).text


async def test_a_missing_key_is_reported(
    client: httpx2.AsyncClient, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.actions")
    job_id = await job(connection, "available", args=sealed(OTHER))
    page = await client.post(f"/jobs/{job_id}/opened", data={})
    assert page.status_code == 200
    assert f"encrypted with the key {ArgsKeys([OTHER]).ids[0]}" in page.text
    assert ", failed" in caplog.text


async def test_plain_args_and_missing_jobs_are_not_opened(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    job_id = await job(connection, "available", args={"a": 1})
    assert "/opened" not in (await client.get(f"/jobs/{job_id}")).text
    as_it_is = await client.post(f"/jobs/{job_id}/opened", data={})
    assert (as_it_is.status_code, as_it_is.headers["location"]) == (303, f"/jobs/{job_id}")
    looked_at = await client.get(f"/jobs/{job_id}/opened")
    assert (looked_at.status_code, looked_at.headers["location"]) == (302, f"/jobs/{job_id}")
    for missing in (999_999, 10**30):
        assert (await client.post(f"/jobs/{missing}/opened", data={})).status_code == 404


@pytest.mark.parametrize("rights", [EVERYTHING - {"jobs.decrypt"}, READ_ONLY])
async def test_without_the_right_they_stay_closed(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    job_id = await job(connection, "available", args=sealed())
    page = await client.get(f"/jobs/{job_id}")
    assert "sealed: " in page.text
    assert "/opened" not in page.text
    refused = await client.post(f"/jobs/{job_id}/opened", data={})
    assert refused.status_code == 403
    assert SECRET not in refused.text


@pytest.mark.parametrize("rights", [frozenset({"jobs.decrypt"})])
async def test_who_may_not_see_jobs_does_not_see_their_args(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    job_id = await job(connection, "available", args=sealed())
    refused = await client.post(f"/jobs/{job_id}/opened", data={})
    assert refused.status_code == 403
    assert SECRET not in refused.text


async def test_without_a_key_they_stay_closed(driver: Driver, connection: Connection) -> None:
    app = create_app(driver, no_auth=True)
    job_id = await job(connection, "available", args=sealed())
    async with browser(app) as client:
        assert "/opened" not in (await client.get(f"/jobs/{job_id}")).text
        closed = await client.post(f"/jobs/{job_id}/opened", data={})
    assert (closed.status_code, closed.headers["location"]) == (303, f"/jobs/{job_id}")
    await app.state.dashboard.close()


async def test_a_new_job_takes_them_over(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    args = sealed()
    like = await job(connection, "discarded", kind="charge", args=args)
    form = {"kind": "charge", "args": "[encrypted args, copied unchanged]", "like": str(like)}
    assert (await client.post("/jobs/new/check", data=form)).text.count("valid") == 1
    assert (await client.post("/jobs/new", data=form)).status_code == 303
    cursor = await connection.execute("select args from river_job where id <> %s", [like])
    row = await cursor.fetchone()
    assert row is not None
    assert row["args"] == args
    plain = await job(connection, JobState.DISCARDED.value, args={})
    for wrong in ({}, {"like": str(plain)}, {"like": "999999"}):
        refused = await client.post("/jobs/new", data=form | {"like": ""} | wrong)
        assert refused.status_code == 400
        assert "There are no encrypted args to copy" in refused.text


async def test_a_search_for_args_says_that_it_skips_sealed_ones(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    await job(connection, "available", args=sealed())
    words = "Encrypted args cannot be searched"
    assert words in (await client.get("/jobs", params={"q": f"args.card:{SECRET}"})).text
    assert words not in (await client.get("/jobs", params={"q": "kind:nothing"})).text
    assert "river_encrypt" not in (await client.get("/suggest?q=args.&caret=5")).text


def _values(path: str) -> Values:
    texts = {setting.name: setting.default for setting in SETTINGS}
    return Values(texts=texts | {"encryption_keys": path})


def test_the_file_of_keys_is_read_and_its_errors_reported(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# now\n{b64encode(KEY).decode()}\n")
    found = dashboard_config(_values(str(file))).encryption_keys
    assert found is not None
    assert found.ids == KEYS.ids
    assert dashboard_config(_values("")).encryption_keys is None
    with pytest.raises(ConfigError, match="cannot be read"):
        dashboard_config(_values(str(tmp_path / "none")))
    file.write_text("secretsecret")
    with pytest.raises(ConfigError, match=r"keys: line 1 is no encryption key") as raised:
        dashboard_config(_values(str(file)))
    assert "secretsecret" not in str(raised.value)


def test_serve_says_what_is_wrong_with_the_file_of_keys(tmp_path: Path) -> None:
    from riverui.cli.main import riverui

    file = tmp_path / "keys"
    file.write_text("secretsecret")
    result = CliRunner().invoke(riverui, ["serve", "--encryption-keys-file", str(file)], obj={})
    assert result.exit_code != 0
    assert "secretsecret" not in result.output


def test_keys_go_to_worker_processes_and_are_not_shown() -> None:
    config = DashboardConfig(encryption_keys=KEYS)
    assert "kkk" not in repr(config)
    again = pickle.loads(pickle.dumps(config))
    assert again.encryption_keys.open(KEYS.seal("{}")) == "{}"
