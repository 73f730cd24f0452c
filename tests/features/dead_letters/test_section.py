"""The pages and the API of dead letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
from psycopg import AsyncConnection

from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobDeleteBeforeParams
from tests.factory import attempt_error, job
from tests.web.api.test_openapi import validate
from tests.web.html import Element, get, parse

Htmx = Callable[..., dict[str, str]]
Connection = AsyncConnection[dict[str, Any]]

PATH, API = "/dead-letters", "/api/dead-letters"
RIVER_UI = "/api/pro/dead-letter-jobs"
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


async def bury(driver: Driver) -> None:
    """Make every discarded job a dead letter."""
    now = datetime.now(UTC)
    async with driver.transaction() as transaction:
        await DeadLetterStore(transaction).dead_job_move_before(
            JobDeleteBeforeParams(
                cancelled_before=None, completed_before=None, discarded_before=now, limit=1_000
            )
        )


async def dead(connection: Connection, driver: Driver, error: str = "boom", **columns: Any) -> int:
    given = {"errors": [attempt_error(1, error)], "attempt": 1, "finalized_at": LONG_AGO}
    found = await job(connection, "discarded", **(given | columns))
    await bury(driver)
    return found


def ids(page: Element) -> list[int]:
    return [
        int((body.attributes["id"] or "").removeprefix("dead-"))
        for body in page.all("tbody", class_="job")
    ]


async def left(connection: Connection) -> list[int]:
    rows = await connection.execute("select id from riverui_dead_job order by id")
    return [row["id"] for row in await rows.fetchall()]


async def test_without_the_table_the_page_names_the_command(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    page = await get(client, PATH)
    assert "the tables of riverui" in page.text
    assert "riverui migrate-up --line riverui" in page.text
    assert "dead_letter=DeadLetterConfig(enabled=True)" in page.text
    await get(client, f"{PATH}/7", status=404)
    await job(connection, "discarded")
    assert PATH not in (await client.get("/jobs?state=discarded")).text
    found = (await client.get(API)).json()
    assert found == {"data": [], "next_cursor": None, "kept": False}
    assert not (await client.get("/api/features")).json()["extensions"]["dead_letter_jobs"]
    for status, answer in (
        (400, await client.get(RIVER_UI)),
        (400, await client.get(f"{RIVER_UI}/autocomplete?facet=job_kind")),
        (400, await client.get(f"{RIVER_UI}/7")),
        (400, await client.post(f"{RIVER_UI}/7/retry")),
        (404, await client.get(f"{API}/7")),
        (400, await client.post(f"{API}/retry", json={"ids": [7]})),
        (400, await client.post(f"{API}/delete", json={"ids": [7]})),
    ):
        assert answer.status_code == status
        assert "the tables of riverui" in answer.json()["message"]


async def test_addresses_and_links(client: httpx2.AsyncClient, own_tables: None) -> None:
    page = await get(client, PATH)
    assert "ClientConfig(dead_letter=DeadLetterConfig(enabled=True))" in page.text
    assert f'href="{PATH}"' in (await client.get("/jobs?state=discarded")).text
    assert f'href="{PATH}"' not in (await client.get("/jobs?state=running")).text
    for asked, found in (
        (f"{PATH}?match=+%2342", f"{PATH}/42"),
        # River UI's addresses:
        ("/dead-letter-jobs", PATH),
        ("/dead-letter-jobs?kind=mail&limit=40", f"{PATH}?kind=mail"),
        ("/dead-letter-jobs?kind=a,b&queue=q", f"{PATH}?queue=q"),
        ("/dead-letter-jobs/42", f"{PATH}/42"),
    ):
        answer = await client.get(asked)
        assert (answer.status_code, answer.headers["location"]) == (302, found), asked
    for match in ("42", "#" + "9" * 19):
        assert (await client.get(PATH, params={"match": match})).status_code == 200
    for ids in ("x", "9" * 19, ["1"] * 1_001):
        assert (await client.post(f"{PATH}/retry", data={"ids": ids})).status_code == 400


async def test_the_list_and_its_search(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    mail = await dead(connection, driver, "SMTP: Mailbox <full>", kind="mail", queue="a")
    report = await dead(connection, driver, "KeyError", kind="report", queue="b", errors=None)
    other = await dead(connection, driver, "timeout", kind="mail", queue="b", args={"to": "ann"})
    page = await get(client, PATH)
    assert ids(page) == [other, report, mail]
    assert '{"to": "ann"}' in page.text
    assert ids(await get(client, f"{PATH}?kind=mail")) == [other, mail]
    assert ids(await get(client, f"{PATH}?kind=mail&queue=b")) == [other]
    assert ids(await get(client, f"{PATH}?match=mailbox+%3CFULL")) == [mail]
    nothing = await get(client, f"{PATH}?match=100%25")
    assert ids(nothing) == []
    assert "No such dead letter" in nothing.text
    menus = {menu.attributes["id"]: menu.text for menu in page.all("details", name="menu")}
    assert menus["menu-kind"].split() == ["Any", "kind", "Any", "kind", "mail", "report"]
    assert menus["menu-queue"].split()[-2:] == ["a", "b"]
    await get(client, f"{PATH}?after=x", status=400)
    await get(client, f"{PATH}?after=999999999999999999~1", status=400)
    await get(client, f"{PATH}?kinds=mail", status=400)


async def test_page_after_page(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    for _ in range(105):
        await job(connection, "discarded", finalized_at=LONG_AGO, errors=None)
    await bury(driver)
    first = await get(client, PATH)
    assert len(ids(first)) == 100
    second = await get(client, first.link("Next"))
    assert len(ids(second)) == 5
    assert not set(ids(first)) & set(ids(second))
    assert ids(await get(client, second.link("First"))) == ids(first)


async def test_a_search_that_gives_up_says_how_far_it_went(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    rare = await dead(connection, driver, "rare", errors=[attempt_error(1, "rare")])
    await connection.execute(
        "insert into riverui_dead_job (id, created_at, scheduled_at, attempt, max_attempts,"
        " priority, kind, queue, state, args, metadata, tags)"
        " select 1000 + n, now(), now(), 1, 1, 1, 'k', 'q', 'discarded', '{}', '{}', '{}'"
        " from generate_series(1, 20000) n"
    )
    page = await get(client, f"{PATH}?match=rare")
    assert ids(page) == []
    assert "were searched: the search continues" in page.text
    assert ids(await get(client, page.link("Next"))) == [rare]
    answer = (await client.get(f"{API}?match=rare")).json()
    assert answer["data"] == []
    more = (await client.get(f"{API}?match=rare&cursor={answer['next_cursor']}")).json()
    assert [each["id"] for each in more["data"]] == [rare]


async def test_one_dead_letter(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    found = await dead(
        connection,
        driver,
        "boom <b>",
        kind="mail",
        args={"to": "ann"},
        metadata={"trace": "a1", "river:log": [{"attempt": 1, "log": "connecting"}]},
        tags=["vip"],
    )
    page = await get(client, f"{PATH}/{found}")
    for text in ("boom <b>", "ann", "a1", "connecting", "vip", "kept"):
        assert text in page.text
    assert (await client.get(f"{PATH}/{found}/raw/args")).json() == {"to": "ann"}
    whole = (await client.get(f"{PATH}/{found}/raw/job")).json()
    assert (whole["id"], whole["reason"], len(whole["errors"])) == (found, "discarded", 1)
    await get(client, f"{PATH}/{found}/raw/kind", status=404)
    await get(client, f"{PATH}/{found}/raw/output", status=404)
    await get(client, f"{PATH}/999", status=404)
    # The address of the job leads here.
    answer = await client.get(f"/jobs/{found}")
    assert (answer.status_code, answer.headers["location"]) == (302, f"{PATH}/{found}")
    await get(client, "/jobs/999", status=404)


async def test_ticked_ones_are_retried(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None, htmx: Htmx
) -> None:
    unique: dict[str, Any] = {"unique_key": b"\x05", "unique_states": "10000001"}
    blocked = await dead(connection, driver, **unique)
    free = await dead(connection, driver)
    await job(connection, "available", **unique)
    answer = await client.post(
        f"{PATH}/retry",
        data={"ids": [str(blocked), str(free)]},
        headers=htmx("notices", PATH) | {"Sec-Fetch-Site": "same-origin"},
    )
    assert answer.status_code == 200, answer.text
    assert "1 job will run again now" in answer.text
    assert "another active job has the same unique properties" in answer.text
    assert await left(connection) == [blocked]
    rows = await connection.execute("select state from river_job where id = %s", [free])
    assert await rows.fetchone() == {"state": "available"}


async def test_deleting_asks_first(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    found = await dead(connection, driver)
    kept = await dead(connection, driver)
    asked = await client.post(f"{PATH}/delete", data={"ids": str(found), "next": f"{PATH}/{found}"})
    form = parse(asked.text)
    assert f"Delete dead letter {found}?" in form.text
    assert await left(connection) == [found, kept]
    fields = {"ids": str(found), "next": f"{PATH}/{found}", "confirmed": "1"}
    answer = await client.post(f"{PATH}/delete", data=fields)
    assert (answer.status_code, answer.headers["location"]) == (303, PATH)
    assert await left(connection) == [kept]


async def test_who_may_only_look_changes_nothing(
    reader: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    found = await dead(connection, driver)
    page = await get(reader, PATH)
    assert ids(page) == [found]
    assert not page.all("input", name="ids")
    assert "Retry" not in (await get(reader, f"{PATH}/{found}")).text
    for verb in ("retry", "delete"):
        assert (await reader.post(f"{PATH}/{verb}", data={"ids": str(found)})).status_code == 403
        assert (await reader.post(f"{API}/{verb}", json={"ids": [found]})).status_code == 403
    assert await left(connection) == [found]


async def test_hostile_texts_are_shown_as_they_are(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    nasty = "<script>alert(1)</script>"
    found = await dead(
        connection, driver, nasty * 50_000, kind=nasty, queue=nasty, args={nasty: "x" * 3_000_000}
    )
    for path in (PATH, f"{PATH}/{found}"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert nasty not in answer.text
        assert len(answer.text) < 1_000_000


async def test_programs(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    first = await dead(connection, driver, "one", kind="mail")
    second = await dead(connection, driver, "two", kind="report")
    answer = (await client.get(f"{API}?limit=1")).json()
    validate("DeadLetterList", answer)
    assert [each["id"] for each in answer["data"]] == [second]
    behind = (await client.get(f"{API}?limit=1&cursor={answer['next_cursor']}")).json()
    assert [each["id"] for each in behind["data"]] == [first]
    assert behind["next_cursor"] is None
    named = (await client.get(f"{API}?kind=mail&match=ON")).json()
    assert [each["error"] for each in named["data"]] == ["one"]
    one = (await client.get(f"{API}/{first}")).json()
    validate("DeadLetterJob", one)
    assert (one["id"], one["reason"], one["errors"][0]["error"]) == (first, "discarded", "one")
    assert (await client.get(f"{API}/999")).status_code == 404
    done = (await client.post(f"{API}/retry", json={"ids": [first, 999]})).json()
    validate("DeadLetterChanges", done)
    assert done == {"changed": [first], "skipped": [{"id": 999, "reason": "not_found"}]}
    done = (await client.post(f"{API}/delete", json={"ids": [second]})).json()
    assert done == {"changed": [second], "skipped": []}
    assert await left(connection) == []


async def test_river_uis_addresses(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    mail = await dead(connection, driver, "one", kind="mail_send", queue="a", tags=["vip", "x"])
    report = await dead(
        connection, driver, kind="Report", queue="b", priority=3, attempt=2, args={"big": 2**60 + 1}
    )
    bounce = await dead(connection, driver, kind="mail_bounce", queue="a", tags=["y"])

    async def ids_of(**params: Any) -> list[str]:
        answer = await client.get(RIVER_UI, params=params)
        assert answer.status_code == 200, answer.text
        validate("ProDeadLetters", answer.json())
        return [each["id"] for each in answer.json()["data"]]

    for params, expected in (
        ({}, [bounce, report, mail]),
        ({"limit": 2}, [bounce, report]),
        ({"ids": [mail, report, 2**63 - 1]}, [report, mail]),
        ({"kinds": ["mail_send", "Report"]}, [report, mail]),
        ({"queues": "b"}, [report]),
        ({"priorities": ["1", "2"]}, [bounce, mail]),
        ({"tags": ["vip", "y"]}, [bounce, mail]),
        ({"queues": "a", "tags": "y", "ids": [mail, bounce]}, [bounce]),
        ({"kinds": "mail"}, []),
    ):
        assert await ids_of(**params) == [str(each) for each in expected], params
    listed = (await client.get(RIVER_UI, params={"kinds": "Report"})).json()["data"]
    assert listed == [
        {"id": str(report), "attempt": 2, "finalized_at": "2001-01-01T00:00:00Z",
         "kind": "Report", "max_attempts": 25, "queue": "b"}
    ]  # fmt: skip
    for params in (
        {"limit": 0}, {"limit": 201}, {"limit": "x"}, {"ids": "x"}, {"priorities": "high"},
        {"kinds": ["k"] * 101}, {"kind": "mail_send"},
    ):  # fmt: skip
        answer = await client.get(RIVER_UI, params=params)
        assert (answer.status_code, list(answer.json())) == (400, ["message"]), params

    async def named(**params: Any) -> list[str]:
        answer = await client.get(f"{RIVER_UI}/autocomplete", params=params)
        assert answer.status_code == 200, answer.text
        validate("Names", answer.json())
        names: list[str] = answer.json()["data"]
        return names

    assert await named(facet="job_kind") == ["Report", "mail_bounce", "mail_send"]
    assert await named(facet="job_kind", match="RE") == ["Report"]
    assert await named(facet="job_kind", match="send") == []
    assert await named(facet="job_kind", match="mail%") == []
    assert await named(facet="job_kind", match="mail", exclude="mail_send") == ["mail_bounce"]
    assert await named(facet="queue_name") == ["a", "b"]
    assert (await client.get(f"{RIVER_UI}/autocomplete?facet=tags")).status_code == 400

    one = (await client.get(f"{RIVER_UI}/{report}")).json()
    validate("ProDeadLetterJob", one)
    assert (one["id"], one["state"]) == (str(report), "discarded")
    assert one["args"] == f'{{"big": {2**60 + 1}}}'
    assert (await client.get(f"{RIVER_UI}/999")).status_code == 404
    assert (await client.get(f"{RIVER_UI}/x")).status_code == 400


async def test_river_uis_retry(
    client: httpx2.AsyncClient,
    reader: httpx2.AsyncClient,
    connection: Connection,
    driver: Driver,
    own_tables: None,
) -> None:
    unique: dict[str, Any] = {"unique_key": b"\x05", "unique_states": "10000001"}
    blocked = await dead(connection, driver, **unique)
    free = await dead(connection, driver, kind="mail")
    await job(connection, "available", **unique)
    assert (await reader.post(f"{RIVER_UI}/{free}/retry")).status_code == 403
    answer = await client.post(f"{RIVER_UI}/{free}/retry")
    assert answer.status_code == 200, answer.text
    validate("ProDeadLetterJob", answer.json())
    found = {name: answer.json()[name] for name in ("id", "kind", "state", "attempt", "errors")}
    assert found == {
        "id": str(free),
        "kind": "mail",
        "state": "available",
        "attempt": 0,
        "errors": [],
    }
    for job_id, status in ((blocked, 409), (free, 404), ("x", 400)):
        answer = await client.post(f"{RIVER_UI}/{job_id}/retry")
        assert (answer.status_code, list(answer.json())) == (status, ["message"]), job_id
    assert await left(connection) == [blocked]
