"""The limits of a queue on its page, and the form that sets them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from httpx2 import AsyncClient

from riverui.domain.partitions import Partition
from riverui.domain.queues import QueueTerms
from riverui.features.heartbeats.store import ClientParams, ClientStatus, ClientStore
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.interface import Driver
from riverui.web.auth.rights import Access
from tests.cases import cases
from tests.factory import Make
from tests.own_tables import OWN_TABLES
from tests.web.html import Element, get, parse
from tests.web.stand_ins import dashboard

LIMITS = {"global_limit": 10, "local_limit": 3, "partition": {"by_args": ["a"], "by_kind": True}}


async def metadata(make: Make) -> Any:
    (row,) = await make.rows("select metadata from river_queue where name = 'hooks'")
    return row["metadata"]


def card(page: Element) -> str:
    return " ".join(page.one("section", aria_labelledby="limits-title").text.split())


async def test_a_queue_without_limits_offers_to_set_some(client: AsyncClient, make: Make) -> None:
    await make.queue("hooks")
    page = await get(client, "/queues/hooks")
    assert "No client reports how many jobs it works at once." in card(page)
    form = await get(client, "/queue-limits?name=hooks")
    assert form.one("input", name="global_limit").attributes["value"] == ""
    assert not form.all("button", name="remove")


async def test_limits_are_set_and_removed_and_all_else_stays(
    client: AsyncClient, make: Make
) -> None:
    await make.queue("hooks", metadata={"team": "mail"})
    posted = {"name": "hooks", "global_limit": "10", "local_limit": "3", "by_args": "b, a,b"}
    answer = await client.post("/queue-limits", data={**posted, "by_kind": "1"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/queues/hooks"
    stands = LIMITS | {"partition": {"by_args": ["a", "b"], "by_kind": True}}
    assert await metadata(make) == {"team": "mail", "concurrency": stands}

    page = await get(client, "/queues/hooks")
    told = card(page)
    assert "10 at once in all clients, 3 in each client, for each value of kind and a, b" in told
    assert "Set in the dashboard" in told
    form = await get(client, "/queue-limits?name=hooks")
    assert form.one("input", name="by_args").attributes["value"] == "a, b"
    assert "checked" in form.one("input", name="by_kind").attributes

    answer = await client.post("/queue-limits", data={"name": "hooks", "remove": "1"})
    assert answer.status_code == 303
    assert await metadata(make) == {"team": "mail"}


async def test_invalid_limits_stay_in_the_form(client: AsyncClient, make: Make) -> None:
    await make.queue("hooks")
    with cases() as case:
        for posted, words in (
            ({}, "Give at least one limit"),
            ({"global_limit": "0"}, "Give at least one limit"),
            ({"global_limit": "-1"}, "All clients together: a whole number"),
            ({"local_limit": "ten"}, "Each client: a whole number"),
            ({"global_limit": "9999999999"}, "from 0 (no limit) on"),
            ({"global_limit": "1", "by_args": "a", "all_args": "1"}, "not both"),
            ({"global_limit": "1", "by_args": "a\u0007b"}, "is not a name of an arg"),
            ({"global_limit": "1", "by_args": ",".join(map(str, range(11)))}, "at most 10 names"),
        ):
            with case((posted, words)):
                answer = await client.post("/queue-limits", data={"name": "hooks", **posted})
                assert answer.status_code == 400
                page = parse(answer.text)
                assert words in page.one(id="limits-problem").text
                assert page.one("input", name="by_args").attributes["value"] == posted.get(
                    "by_args", ""
                )
                assert await metadata(make) == {}


async def test_slots_and_rates_are_shown(client: AsyncClient, make: Make) -> None:
    await make.execute(OWN_TABLES)
    await make.queue("hooks")
    await make.execute(
        "insert into riverui_producer (client_id, queue, max_workers, concurrency)"
        " values ('a', 'hooks', 5, %s), ('b', 'hooks', 5, %s), ('c', 'hooks', 5, '{\"x\": 1}')",
        [json.dumps(LIMITS), json.dumps(LIMITS | {"local_limit": 4})],
    )
    await make.execute(
        "insert into riverui_limit (queue, key, taken, leases, wanted)"
        " values ('hooks', %s, 7, '{}', true)",
        ['{"a": "<b>"}'],
    )
    await make.execute(
        "insert into riverui_rate (queue, key, full_at, limited_to, per, burst, pace, spent_at)"
        " values ('hooks', '', now() - interval '1 h', 90, '1 minute', 10, 0.5, now())"
    )
    told = card(await get(client, "/queues/hooks"))
    assert "As its clients are configured." in told
    assert "Its clients have different limits." in told
    assert '{"a": "<b>"} others wait 7 of 10' in told
    assert "1.5/s 10 of 10" in told


async def test_rates_are_told_in_words_for_people(client: AsyncClient, make: Make) -> None:
    await make.execute(OWN_TABLES)
    with cases() as case:
        for limit, per, pace, told in (
            (90, "1 minute", 1e-229, "0/s 1.5/s"),
            (2_000_000, "1 second", 1_234_567.891, "1,234,567.89/s 2,000,000/s"),
            (3, "1 hour", 1 / 3600, "1/h 3/h"),
            (1, "30 days", 0, "0/day 0.03/day"),
        ):
            with case(told):
                await make.execute("delete from riverui_rate")
                await make.execute("delete from river_queue")
                await make.queue("hooks")
                await make.execute(
                    "insert into riverui_rate"
                    " (queue, key, full_at, limited_to, per, burst, pace, spent_at) values"
                    " ('hooks', '', now(), %s, %s::interval, 10, %s, now() + interval '1 min')",
                    [limit, per, pace],
                )
                assert f"all jobs {told}" in card(await get(client, "/queues/hooks"))


async def test_unreadable_limits_can_be_removed(client: AsyncClient, make: Make) -> None:
    with cases() as case:
        for found in ("5", "[]", '{"global_limit": "x"}', '{"partition": 3}'):
            with case(found):
                await make.execute("delete from river_queue")
                await make.queue("hooks", metadata={"concurrency": json.loads(found)})
                assert "must be" in card(await get(client, "/queues/hooks"))
                form = await get(client, "/queue-limits?name=hooks")
                assert form.one("button", name="remove")


async def test_only_who_may_change_limits_is_offered_to(driver: Driver, make: Make) -> None:
    await make.queue("hooks", metadata={"concurrency": LIMITS})
    reader = Access(user="reader", rights=frozenset({"queues.read", "jobs.read"}))
    async with dashboard(driver, access=reader) as client:
        page = await get(client, "/queues/hooks")
        assert "10 at once in all clients" in card(page)
        assert not [link for link in page.all("a") if "queue-limits" in link.attributes["href"]]
        form = await get(client, "/queue-limits?name=hooks")
        assert "You may not change limits here" in form.text
        assert not form.all("input", name="global_limit")
        posted = await client.post("/queue-limits", data={"name": "hooks", "remove": "1"})
        assert posted.status_code == 403
    assert await metadata(make) == {"concurrency": LIMITS}


async def test_a_queue_that_is_not_there(client: AsyncClient) -> None:
    for name in ("gone", "", "a/b"):
        path = f"/queue-limits?name={quote(name, safe='')}"
        assert (await client.get(path)).status_code == 404
    posted = {"name": "gone", "global_limit": "1"}
    assert (await client.post("/queue-limits", data=posted)).status_code == 404


# Rates


async def told_rate(driver: Driver, queue_name: str = "hooks", **rate: Any) -> None:
    """Have a client tell that it works the queue with a rate limit."""
    params = ClientParams(
        id="web-1_2026",
        started_at=datetime.now(UTC),
        heartbeat_interval=timedelta(minutes=10),
        host="web-1",
        pid=7,
        language="Python",
        version="1",
        release="",
    )
    terms = QueueTerms(rate_limit=RateLimit(**rate).as_terms())
    status = ClientStatus(queues={queue_name: (8, 3)}, terms={queue_name: terms})
    async with driver.autocommit() as executor:
        await ClientStore(executor).client_register(params, status)


@pytest.fixture
async def limited(driver: Driver, make: Make, own_tables: None) -> Make:
    """Write the rows of a client that works a queue with a rate limit."""
    await make.queue("hooks", metadata={"team": "mail"})
    await told_rate(
        driver, limit=90, per=timedelta(minutes=1), burst=20, partition=Partition(by_args=("to",))
    )
    return make


async def test_a_rate_limit_and_its_clients(client: AsyncClient, limited: Make) -> None:
    page = await get(client, "/queues/hooks")
    told = card(page)
    assert "90 a minute begin at most, 20 at once after an idle time, for each value of to" in told
    assert "As its clients are configured." in told
    assert "web-1" in told
    assert "3 of 8" in told
    assert "0 running of 8 slots" in page.one(class_="counts").text


async def test_a_rate_limit_is_set_and_removed(client: AsyncClient, limited: Make) -> None:
    form = await get(client, "/queue-limits?name=hooks")
    assert form.one("input", name="limit").attributes["value"] == "90"
    assert form.one("input", name="burst").attributes["value"] == "20"
    posted = {"name": "hooks", "of": "rate", "limit": "0.5", "per": "3600", "burst": "2"}
    answer = await client.post("/queue-limits", data=posted)
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues/hooks")
    stands = {"limit": 0.5, "per_seconds": 3600.0, "burst": 2.0}
    assert await metadata(limited) == {"team": "mail", "riverui:rate_limit": stands}
    told = card(await get(client, "/queues/hooks"))
    assert "0.5 an hour begin at most, 2 at once" in told
    assert "Set in the dashboard" in told
    form = await get(client, "/queue-limits?name=hooks")
    assert form.one("input", name="limit").attributes["value"] == "0.5"
    (chosen,) = [each for each in form.all("option") if "selected" in each.attributes]
    assert chosen.attributes["value"] == "3600"
    remove = {"name": "hooks", "of": "rate", "remove": "1"}
    assert (await client.post("/queue-limits", data=remove)).status_code == 303
    assert await metadata(limited) == {"team": "mail"}


async def test_invalid_rates_stay_in_the_form(client: AsyncClient, limited: Make) -> None:
    with cases() as case:
        for posted, words in (
            ({}, "give a number"),
            ({"limit": "0"}, "Limit must be above 0"),
            ({"limit": "-1"}, "Jobs that may begin: a number"),
            ({"limit": "1e5"}, "Jobs that may begin: a number"),
            ({"limit": "1000001"}, "At most 1,000,000 a second"),
            ({"limit": "5", "burst": "0.5"}, "Burst must be from 1"),
            ({"limit": "5", "burst": "x"}, "Burst after an idle time: a number"),
            ({"limit": "5", "per": "7"}, "choose a second"),
        ):
            with case((posted, words)):
                sent = {"name": "hooks", "of": "rate", "per": "1"} | posted
                answer = await client.post("/queue-limits", data=sent)
                assert answer.status_code == 400
                page = parse(answer.text)
                assert words in page.one(id="limits-problem").text
                assert page.one("input", name="limit").attributes["value"] == posted.get(
                    "limit", ""
                )
                assert await metadata(limited) == {"team": "mail"}


async def test_a_rate_that_counts_for_nobody_says_so(client: AsyncClient, make: Make) -> None:
    await make.queue("hooks")
    form = await get(client, "/queue-limits?name=hooks")
    assert "No client of this queue is known to have a configured rate limit" in form.text
    posted = {"name": "hooks", "of": "rate", "limit": "5", "per": "1"}
    assert (await client.post("/queue-limits", data=posted)).status_code == 303
    assert "it has no effect" in card(await get(client, "/queues/hooks"))


async def test_unreadable_rates_can_be_removed(client: AsyncClient, limited: Make) -> None:
    with cases() as case:
        for found in ("5", "[]", '{"limit": "x"}', '{"per_seconds": -1}'):
            with case(found):
                await limited.execute(
                    "update river_queue"
                    " set metadata = jsonb_build_object('riverui:rate_limit', %s::jsonb)",
                    [found],
                )
                told = card(await get(client, "/queues/hooks"))
                assert "must be" in told
                assert "90 a minute" in told
                form = await get(client, "/queue-limits?name=hooks")
                assert form.one("button", name="remove")
