"""What the recipes promise, seen in the database after their programs have run."""

from __future__ import annotations

import asyncio
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import (
    Client,
    ClientConfig,
    Job,
    JobCancel,
    QueueConfig,
    Workers,
)
from tests.docs.programs import DOCS, program, run
from tests.interop.look import eventually, jobs
from tests.needs import need


@pytest.fixture(autouse=True)
def _with_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)


def test_each_recipe_is_a_program_that_can_be_started() -> None:
    programs = [program(page) for page in DOCS.glob("recipes/*.md")]
    with_main = [code for code in programs if "async def main()" in code]
    assert len(with_main) >= 6
    for code in with_main:
        assert 'if __name__ == "__main__":\n    asyncio.run(main())' in code


async def test_webhooks(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/webhooks", monkeypatch)
    await page.main()
    rows = await jobs(connection)
    by = {(row["args"]["receiver"], row["args"]["event"]): row for row in rows}
    assert len(rows) == len(by) == 12

    def of(receiver: str) -> list[DictRow]:
        return [row for (name, _), row in by.items() if name == receiver]

    assert {row["state"] for name in ("shop", "ledger") for row in of(name)} == {"completed"}
    assert page.taken["ledger"] == ["order-1-paid", "order-2-paid", "order-3-paid"]
    assert sorted(page.taken["shop"]) == page.taken["ledger"]
    for row in of("gone"):  # answers 404
        assert (row["state"], row["attempt"]) == ("discarded", 1)
        assert "never tries Refused again" in row["errors"][-1]["error"]
    for row in of("broken"):  # answers 500
        assert row["state"] in ("available", "retryable")
        assert "HTTP 500" in row["errors"][0]["error"]
        assert row["scheduled_at"] - row["attempted_at"] >= timedelta(seconds=9)
    assert not any(receiver.secret.hex() in str(rows) for receiver in page.receivers.values())


async def test_webhooks_once_an_event_and_by_what_is_answered(
    connection: AsyncConnection[DictRow], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/webhooks", monkeypatch)
    await page.main()
    before = len(await jobs(connection))
    page.receivers.clear()
    answers = {
        "later": (429, {"Retry-After": "600"}),
        "much-later": (503, {"Retry-After": "86400"}),
        "limited": (429, {}),
        "moved": (301, {"Location": "http://127.0.0.1/"}),
        "unkind": (410, {}),
    }

    async def receive(request: web.Request) -> web.Response:
        status, headers = answers[request.match_info["name"]]
        return web.Response(status=status, headers=headers)

    monkeypatch.setattr(page, "receive", receive)
    async with page.receiving(*answers), aiohttp.ClientSession() as http:
        client = page.new_client(http)
        async with await AsyncConnection.connect(database_url, autocommit=True) as own:
            await page.order_paid(client, own, 9)
            await page.order_paid(client, own, 9)
        new = "args ->> 'event' = 'order-9-paid' and (metadata ? 'snoozes' or errors <> '{}')"
        async with client:
            await eventually(lambda: jobs(connection, new), fits=lambda rows: len(rows) == 5)
    assert len(await jobs(connection)) == before + 5, "an event was inserted twice"
    rows = {row["args"]["receiver"]: row for row in await jobs(connection, new)}
    for name, wait in (("later", 600), ("much-later", 3600)):
        assert (rows[name]["state"], rows[name]["attempt"]) == ("scheduled", 0)
        waits = rows[name]["scheduled_at"] - rows[name]["attempted_at"]
        assert 0 <= waits.total_seconds() - wait <= 60
    assert rows["limited"]["errors"]
    assert {rows[name]["state"] for name in ("moved", "unkind")} == {"discarded"}
    async with await AsyncConnection.connect(database_url, autocommit=True) as own:
        await page.order_paid(Client(database_url), own, 9)
    again = (await jobs(connection))[before + 5 :]
    assert {row["args"]["receiver"] for row in again} == {"moved", "unkind"}


async def test_fan_out(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/fan-out", monkeypatch)
    await page.main()
    (campaign,) = await jobs(connection, "kind = 'send_campaign'")
    assert campaign["metadata"]["output"] == {"sent": 1_050, "failed": []}
    assert await page.progress(connection, 7) == {"total": 11, "completed": 11, "failed": 0}


async def test_fan_out_in_a_queue_with_one_slot_tells_its_progress_and_what_failed(
    connection: AsyncConnection[DictRow], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/fan-out", monkeypatch)
    await page.main()
    go_on = asyncio.Event()

    async def mail(campaign: int, reader: int) -> None:
        if reader == 0:
            raise JobCancel("no such reader")
        if reader == 150:
            await go_on.wait()

    monkeypatch.setattr(page, "mail", mail)
    config = ClientConfig(queues={"default": QueueConfig(max_workers=1)}, workers=page.workers)
    async with Client(database_url, config) as client:
        inserted = await client.insert(page.SendCampaign(campaign=8, readers=300))
        half = await eventually(
            lambda: page.progress(connection, 8), fits=lambda seen: seen.get("failed") == 1
        )
        assert half["total"] == 3
        (parent,) = await jobs(connection, f"id = {inserted.job.id}")
        assert parent["state"] == "scheduled", "it takes no slot"
        go_on.set()
        row = await client.wait(inserted.job.id, timeout=timedelta(seconds=60))
    assert row.output == {"sent": 200, "failed": ["batch 1"]}


async def test_many_files(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/many-files", monkeypatch)
    await page.main()
    indexed = [path for request in page.requests for path in request]
    assert len(indexed) == len(set(indexed)) == 1_200
    assert len(page.requests) < 1_200
    assert max(map(len, page.requests)) <= 100
    files = await jobs(connection, "kind = 'read_file'")
    assert {(row["state"], row["attempt"]) for row in files} == {("completed", 1)}
    assert {row["args"]["path"] for row in files} == set(indexed)


async def test_many_files_go_on_where_they_were(
    connection: AsyncConnection[DictRow],
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    page = await run("recipes/many-files", monkeypatch)
    for name in "abcde":
        (tmp_path / name).touch()
    files_after, asked, embedded = page.files_after, [], []

    def failing(folder: str, path: str) -> list[str]:
        asked.append(path.rpartition("/")[-1])
        if len(asked) == 2:
            raise OSError("the disk is away")
        found: list[str] = files_after(folder, path)
        return found

    async def embed(path: str) -> None:
        embedded.append(path)
        if len(embedded) == 1:
            raise ConnectionError("the model is away")

    downloaded: list[str] = []

    async def download(path: str) -> None:
        downloaded.append(path)

    for name, value in (
        ("PAGE", 2), ("files_after", failing), ("embed", embed), ("download", download)
    ):  # fmt: skip
        monkeypatch.setattr(page, name, value)
    async with page.pool, Client(database_url, page.config) as client:
        inserted = await client.insert(page.ImportFolder(str(tmp_path)))
        row = await client.wait(inserted.job.id, timeout=timedelta(seconds=60))
        done = "kind = 'read_file' and state = 'completed'"
        await eventually(lambda: jobs(connection, done), fits=lambda rows: len(rows) == 5)
    assert (row.state, row.attempt) == ("completed", 2)
    assert asked == ["", "b", "b", "d", "e"], "it went on behind the cursor"
    assert len(embedded) == 6
    assert len(downloaded) == 5, "a completed step was not done again"


async def test_changed_args_of_both_versions_at_work(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/changed-args", monkeypatch)
    await page.main()
    assert {row["state"] for row in await jobs(connection)} == {"completed"}
    for inserting, working, args in (
        (page.workers, page.old_workers, page.ChargeArgs(1, cents=1_999)),
        (page.old_workers, page.workers, page.OldChargeArgs(1, amount=19.99)),
        (page.workers, page.workers, page.ChargeArgs(1, cents=1_999)),
    ):
        page.charged.clear()
        inserted = await page.program(inserting).insert(args)
        async with page.program(working) as client:
            await client.wait(inserted.job.id, timeout=timedelta(seconds=60))
        assert page.charged == [(1_999, "EUR")]
    (sql,) = re.findall(
        r"```sql\n(.*?)```", (DOCS / "recipes/changed-args.md").read_text(encoding="utf-8"), re.S
    )
    left = await (await connection.execute(sql)).fetchall()
    assert [(row["state"], row["count"]) for row in left] == [("completed", 21)]


@pytest.mark.timeout(600)  # where Go has built nothing yet
def test_changed_args_in_go(tmp_path: Path) -> None:
    go = need("Go")
    (code,) = re.findall(
        r"```go\n(.*?)```", (DOCS / "recipes/changed-args.md").read_text(encoding="utf-8"), re.S
    )
    (tmp_path / "charge.go").write_text(code, encoding="utf-8")
    (tmp_path / "main.go").write_text(
        """package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	for _, text := range os.Args[1:] {
		var args ChargeArgs
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			panic(err)
		}
		fmt.Println(args.Order, args.Cents, args.Currency)
	}
}
""",
        encoding="utf-8",
    )
    (tmp_path / "go.mod").write_text("module charge\n\ngo 1.21\n", encoding="utf-8")
    one = '{"order": 7, "amount": 19.99}'
    two = '{"order": 8, "amount": 1, "cents": 2500, "currency": "SEK", "version": 2}'
    done = subprocess.run(
        [go, "run", ".", one, two],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=540,
    )  # fmt: skip
    assert done.stdout == "7 1999 EUR\n8 2500 SEK\n", done.stderr


async def everything(connection: AsyncConnection[DictRow]) -> str:
    """Return all that River's table says, as a dump would."""
    rows = await (
        await connection.execute("select river_job::text as row from river_job")
    ).fetchall()
    return "\n".join(row["row"] for row in rows)


async def test_secrets_are_nowhere_in_the_table(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/secrets", monkeypatch)
    await page.main()
    assert len(page.charged) == 2
    card, key = "4111-1111-1111-1111", b"k" * 32

    async def failing(job: Job[Any]) -> None:
        raise ConnectionError(f"POST /charge?card={card}&token=tok_live_1 timed out")

    workers = Workers()
    workers.work(page.ChargeCard)(failing)
    monkeypatch.setattr(page, "workers", workers)
    async with page.new_client([key]) as client:
        inserted = await client.insert(page.ChargeCard(3, card))
        await eventually(
            lambda: jobs(connection, f"id = {inserted.job.id} and state = 'retryable'")
        )
    (row,) = await jobs(connection, f"id = {inserted.job.id}")
    error = row["errors"][-1]["error"]
    assert error == "Failed: ConnectionError: POST /charge?card=[…]&token=[…] timed out"
    told = await everything(connection)
    for secret in (*page.charged, *page.synced, card, "tok_live"):
        assert secret not in told
    monkeypatch.setenv("JOB_KEYS", "iRmwTuVGl2BAwTUPRTJbP/iA2EKpTrzXpEcNIXG2BI0= " * 2)
    assert list(map(len, page.job_keys())) == [32, 32]


async def test_a_rate_limited_vendor_is_asked_no_faster_than_the_limit(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/rate-limited-vendor", monkeypatch)
    await page.main()
    rows = await jobs(connection)
    assert {(row["state"], row["attempt"]) for row in rows} == {("completed", 1)}
    began = sorted(row["attempted_at"] for row in rows)
    # 20 at once and then 20 a second; a slow machine takes longer, none is quicker.
    assert (began[-1] - began[0]).total_seconds() >= 1.8


async def test_a_vendor_that_refuses_is_left_alone_for_as_long_as_it_asks(
    connection: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await run("recipes/rate-limited-vendor", monkeypatch)
    await page.main()
    asked: list[str] = []
    answers = {
        "acme": page.Answer(429, {"retry-after": "600"}),
        "globex": page.Answer(503, {"retry-after": "Fri, 31 Dec 2199 23:59:59 GMT"}),
        "initech": page.Answer(429),
    }

    async def request(args: Any) -> Any:
        asked.append(args.account)
        return answers[args.account]

    monkeypatch.setattr(page, "request", request)
    workers = Workers()
    workers.add(page.AskModelWorker())
    client = page.new_client(workers)
    accounts = ["acme", "acme", "globex", "initech"]
    inserted = await client.insert_many([page.AskModel(name, "?") for name in accounts])
    await client.insert(page.AskModel("acme", "?"), metadata={"snoozes": 100})
    ids = [each.job.id for each in inserted]
    # A fault counts as an attempt, a refusal does not.
    told = f"id >= {ids[0]} and (metadata ? 'snoozes' and state = 'scheduled' or errors <> '{{}}')"
    async with client:
        rows = await eventually(lambda: jobs(connection, told), fits=lambda rows: len(rows) == 5)
    first, second, globex, initech, refused = rows
    for row, least, most in ((first, 590, 606), (second, 590, 606), (globex, 3_600, 3_606)):
        assert (row["state"], row["attempt"]) == ("scheduled", 0)
        waits = (row["scheduled_at"] - row["attempted_at"]).total_seconds()
        assert least <= waits <= most + 60
    assert "HTTP 429" in initech["errors"][0]["error"]
    assert "a hundred times" in refused["errors"][0]["error"]
    assert page.seconds_to_wait("soon") == 60
