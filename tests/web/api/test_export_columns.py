"""A selection as a file with chosen columns: those of the job list, and paths into JSON."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui.web.view.job_table import COLUMNS
from tests.cases import cases
from tests.factory import Make
from tests.web.html import parse

Connection = AsyncConnection[dict[str, Any]]

DUE = datetime(2026, 11, 21, 9, tzinfo=UTC)


async def lines(api: AsyncClient, **params: Any) -> list[dict[str, Any]]:
    answer = await api.get("jobs/export", params=params)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def table(api: AsyncClient, **params: Any) -> list[list[str]]:
    answer = await api.get("jobs/export", params={"format": "csv", **params})
    assert answer.status_code == 200, answer.text
    return list(csv.reader(io.StringIO(answer.text, newline="")))


async def test_every_column_has_its_values(api: AsyncClient, make: Make) -> None:
    job_id = await make.job(
        "completed",
        kind="mail",
        queue="q",
        tags=["a"],
        args={"n": 1},
        priority=2,
        attempt=1,
        scheduled_at=DUE,
        attempted_at=DUE + timedelta(seconds=2.5),
        finalized_at=DUE + timedelta(seconds=4),
    )
    (whole,) = await lines(api)
    assert await lines(api, columns=",".join(COLUMNS)) == [
        {
            "state": "completed",
            "id": job_id,
            "kind": "mail",
            "queue": "q",
            "args": whole["args"],
            "tags": ["a"],
            "priority": 2,
            "attempt": 1,
            "max_attempts": whole["max_attempts"],
            "waited": 2.5,
            "ran": 1.5,
            "when": "2026-11-21T09:00:04Z",
        }
    ]
    assert await table(api, columns="waited,id,when") == [
        ["state", "kind", "waited", "id", "when"],
        ["completed", "mail", "2.5", str(job_id), "2026-11-21T09:00:04Z"],
    ]


async def test_spans_that_are_not_known_or_still_go_on(api: AsyncClient, make: Make) -> None:
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    await make.job(scheduled_at=hour_ago)
    await make.job("running", scheduled_at=hour_ago, attempted_at=hour_ago)
    await make.job("cancelled", scheduled_at=hour_ago, attempted_at=None)
    found = await lines(api, columns="waited,ran", order="id")
    assert [3600 <= line["waited"] < 4000 for line in found[:1]] == [True]
    assert [line["ran"] for line in (found[0], found[2])] == [None, None]
    assert found[1]["waited"] == 0
    assert 3600 <= found[1]["ran"] < 4000
    assert found[2]["waited"] is None


async def test_values_at_paths_are_json_to_the_letter(api: AsyncClient, make: Make) -> None:
    await make.job(
        args='{"n": -1.10, "t": "a\\"b", "none": null, "items": [{"sku": "x"}, {"sku": 2}],'
        ' "big": 12345678901234567890}',
        metadata={"trace_id": "abc"},
    )
    paths = "args.n,args.t,args.none,args.items[].sku,args.big,metadata.trace_id"
    answer = await api.get("jobs/export", params={"columns": paths})
    (line,) = answer.text.splitlines()
    assert '"args.n":-1.10,' in line
    assert '"args.big":12345678901234567890,' in line
    found = json.loads(line)
    assert found["args.t"] == 'a"b'
    assert found["args.none"] is None
    assert found["args.items[].sku"] == ["x", 2]
    assert found["metadata.trace_id"] == "abc"
    header, row = await table(api, columns=paths)
    assert header == ["state", "kind", *paths.split(",")]
    assert row[2:] == ["-1.10", 'a"b', "", '["x", 2]', "12345678901234567890", "abc"]
    (missing,) = await lines(api, columns="args.nowhere,metadata.a.b")
    assert (missing["args.nowhere"], missing["metadata.a.b"]) == (None, None)


async def test_a_text_at_a_path_is_no_formula(api: AsyncClient, make: Make) -> None:
    await make.job(args={"text": "=1+1", "=key": 1})
    header, row = await table(api, columns='args.text,args."=key"')
    assert row[2:] == ["'=1+1", "1"]
    assert not any(name.startswith("=") for name in header)


async def test_secrets_stay_here(api: AsyncClient, make: Make) -> None:
    await make.job(
        args={
            "password": {"of": "hunter2"},
            "user": {"name": "ada", "api_key": "hunter2"},
            "logins": [{"password": "hunter2"}],
        },
        metadata={"access_token": "hunter2"},
    )
    with cases() as case:
        for path, value in (
            ("args.password", "[redacted]"),
            ("args.password.of", "[redacted]"),
            ("args.user", {"name": "ada", "api_key": "[redacted]"}),
            ("args.logins[].password", "[redacted]"),
            ("metadata.access_token", "[redacted]"),
            ("args.user.name", "ada"),
            ("args.passwordless", None),
        ):
            with case(path):
                assert [line[path] for line in await lines(api, columns=path)] == [value]
                for row in await table(api, columns=path):
                    assert not any("hunter2" in cell for cell in row)


async def test_a_value_that_is_too_long_is_told(api: AsyncClient, make: Make) -> None:
    job_id = await make.job(args={"short": "x" * 9_000, "long": "x" * 11_000, "n": 1})
    (found,) = await lines(api, columns="args.short,args.long,args.n")
    assert (found["args.short"], found["args.n"]) == ("x" * 9_000, 1)
    assert f"/jobs/{job_id}/raw/args" in found["args.long"]["left_out"]


async def test_columns_that_make_no_sense(api: AsyncClient) -> None:
    with cases() as case:
        for columns in (
            "nothing",
            "args.",
            "id;kind",
            ",".join(f"args.p{n}" for n in range(7)),
            "args.a b",
        ):
            with case(columns):
                answer = await api.get("jobs/export", params={"columns": columns})
                assert answer.status_code == 400
                assert answer.json()["message"]


async def test_a_list_leads_to_its_files(client: AsyncClient, make: Make) -> None:
    await make.job("running", kind="a&b", args={"n": 7})
    await make.job("available", kind="c")
    page = parse((await client.get("/jobs?q=kind:%22a%26b%22&state=running")).text)
    asked = dict(parse_qsl(urlsplit(page.link("Export as CSV")).query))
    assert asked == {"format": "csv", "q": 'kind:"a&b"', "state": "running"}
    page = parse((await client.get("/jobs?state=running&columns=id,kind,args.n")).text)
    answer = await client.get(page.link("Export as JSON lines"))
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {"state": "running", "id": 1, "kind": "a&b", "args.n": 7}
    ]
    page = parse((await client.get("/jobs?q=kind:")).text)
    assert not [link for link in page.all("a") if link.text.startswith("Export")]
