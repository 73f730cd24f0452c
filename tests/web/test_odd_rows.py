"""Every address over the whole corpus of odd rows at once: each answers, and no answer grows with a
row.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.features.operations.runner import OPERATIONS
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from tests.cases import cases
from tests.conftest import create_database, drop_database, with_database
from tests.factory import Make
from tests.odd_rows import ODD_ROWS, STATES, insert_odd_rows
from tests.operations import idle
from tests.pro_tables import PRO_TABLES
from tests.web.html import Element, parse
from tests.web.stand_ins import browser

Connection = AsyncConnection[dict[str, Any]]

pytestmark = pytest.mark.xdist_group("odd rows")
"""All in one process, as the corpus takes longer to write than most of these tests."""

PAGE = 1_500_000
"""Bytes of HTML that any page may have."""
ANSWER = 25_000_000
"""Bytes of JSON that any answer of the API but an export may have."""
ORDERS = ("id", "-id", "time", "-time")
FRAGMENT = {
    "HX-Request": "true",
    "HX-Target": "section#job",
    "HX-Current-URL": "http://river.test/jobs",
}


class Corpus(NamedTuple):
    """A database with every odd row, from which the tests' own are cloned."""

    database: str
    ids: dict[tuple[str, str], int]


@pytest.fixture(scope="module")
def corpus(admin_url: str, template_database: str) -> Iterator[Corpus]:
    """Yield the corpus in every state; its large rows only in two, of which one has ended."""
    name = create_database(admin_url, template=template_database)

    async def fill() -> dict[tuple[str, str], int]:
        url = with_database(admin_url, name)
        async with await AsyncConnection.connect(url, autocommit=True) as connection:
            return await insert_odd_rows(connection, large_in=("running", "discarded"))

    yield Corpus(name, asyncio.run(fill()))
    drop_database(admin_url, name)


@pytest.fixture
def changes() -> None:
    """Let this test have a copy of the corpus, as it changes it."""


@pytest.fixture
def database_url(admin_url: str, corpus: Corpus, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a database with the corpus in it; for a test that asks for `changes`, one of its own,
    since copying it takes longer than most tests.
    """
    if "changes" not in request.fixturenames:
        yield with_database(admin_url, corpus.database)
        return
    name = create_database(admin_url, template=corpus.database)
    yield with_database(admin_url, name)
    drop_database(admin_url, name)


async def page(client: AsyncClient, path: str, **given: Any) -> Element:
    """Return the page at an address, once it is there and of bounded size."""
    answer = await client.get(path, **given)
    assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
    assert len(answer.content) <= PAGE, (path, len(answer.content))
    return parse(answer.text)


async def told(client: AsyncClient, path: str, **given: Any) -> str:
    """Return what the API answers, once it is there and of bounded size."""
    answer = await client.get(path, **given)
    assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
    assert len(answer.content) <= ANSWER, (path, len(answer.content))
    return answer.text


@pytest.mark.parametrize("state", STATES)
async def test_every_job_has_a_page(state: str, client: AsyncClient, corpus: Corpus) -> None:
    ids = {name: job_id for (name, where), job_id in corpus.ids.items() if where == state}
    assert ids
    links: dict[str, str] = {}
    with cases() as case:
        for name, job_id in ids.items():
            with case(name):
                job = (await page(client, f"/jobs/{job_id}")).one(id="job")
                assert job.attributes["aria-label"] == f"Job {job_id}"
                # What a page refreshes, and its links, are the same in most states.
                if state == "running":
                    await page(client, f"/jobs/{job_id}", headers=FRAGMENT)
                if state in ("running", "completed"):
                    links |= {link.attributes["href"]: name for link in job.all("a")}
        for address, name in links.items():
            if not address.startswith("#"):
                with case((name, address)):
                    answer = await client.get(address)
                    assert answer.status_code == 200, answer.text[:500]
    assert len(links) > 10 or state not in ("running", "completed")


async def test_the_links_of_an_odd_name_find_its_job(client: AsyncClient, corpus: Corpus) -> None:
    with cases() as case:
        for name in [row.name for row in ODD_ROWS if {"kind", "queue"} & row.columns.keys()]:
            with case(name):
                job_id = corpus.ids[name, "completed"]
                shown = await page(client, f"/jobs/{job_id}")
                kind = shown.link("Jobs of this kind")
                assert f'id="job-{job_id}"' in (await client.get(f"{kind}&state=completed")).text
                queue = next(
                    link.attributes["href"]
                    for link in shown.all("a")
                    if link.attributes["href"].startswith("/queues/")
                )
                found = await page(client, queue)
                assert "failures-title" in {
                    element.attributes.get("id") for element in found.walk()
                }


async def test_every_raw_text_is_whole(client: AsyncClient, make: Make, corpus: Corpus) -> None:
    texts = "args::text as args, metadata::text as metadata, (metadata -> 'output')::text as output"
    for (name, state), job_id in corpus.ids.items():
        if state != "running":
            continue
        (row,) = await make.rows(f"select {texts} from river_job where id = {job_id}")
        for field, text in row.items():
            answer = await client.get(f"/jobs/{job_id}/raw/{field}")
            assert answer.status_code == (404 if text is None else 200), (name, field)
            assert text is None or answer.text == text, (name, field)
        for field in ("errors", "job"):
            answer = await client.get(f"/jobs/{job_id}/raw/{field}")
            assert answer.status_code == 200, (name, field)
            assert int(answer.headers["content-length"]) == len(answer.content), (name, field)


async def test_a_list_shows_every_job_once(client: AsyncClient, corpus: Corpus) -> None:
    with cases() as case:
        for state in STATES:
            for order in ORDERS:
                with case((state, order)):
                    there = {job_id for (_, where), job_id in corpus.ids.items() if where == state}
                    path: str | None = f"/jobs?state={state}&order={order}&limit=20"
                    seen: list[int] = []
                    while path:
                        found = await page(client, path)
                        rows = [row.attributes["id"] for row in found.all("tbody", class_="job")]
                        seen += [int(row.removeprefix("job-")) for row in rows]
                        assert len(seen) <= len(there), "the list goes in circles"
                        older = [
                            link.attributes["href"]
                            for link in found.all("a", class_="button")
                            if link.text == "Next"
                        ]
                        path = older[0] if older else None
                    assert sorted(seen) == sorted(there)


async def test_the_api_lists_every_job_once(client: AsyncClient, corpus: Corpus) -> None:
    with cases() as case:
        for order in ORDERS:
            with case(order):
                seen: list[int] = []
                cursor: str | None = ""
                while cursor is not None:
                    text = await told(
                        client,
                        "/api/jobs",
                        params={"order": order, "limit": "100", "cursor": cursor},
                    )
                    found = json.loads(text)
                    cursor = found["next_cursor"]
                    seen += [job["id"] for job in found["data"]]
                    assert len(seen) <= len(corpus.ids), "the list goes in circles"
                    for job in found["data"]:
                        assert len(job["tags"]) <= 100
                        assert len(job["attempted_by"]) <= 100
                        assert len(job["args"]) <= 100_000
                assert sorted(seen) == sorted(corpus.ids.values())


async def test_the_api_names_what_it_cut(client: AsyncClient, corpus: Corpus) -> None:
    cut = {
        name: json.loads(await told(client, f"/api/jobs/{corpus.ids[name, 'running']}")).get("cut")
        for name in (
            "many tags",
            "many workers",
            "many errors",
            "a long error",
            "workers with nulls",
        )
    }
    assert cut == {
        "many tags": ["tags"],
        "many workers": ["attempted_by"],
        "many errors": ["errors"],
        "a long error": ["errors"],
        "workers with nulls": None,
    }
    listed = json.loads(await told(client, "/api/jobs?state=running&limit=1000"))["data"]
    places = {job_id: name for (name, _), job_id in corpus.ids.items()}
    found = {places[job["id"]]: job["cut"] for job in listed if "cut" in job}
    assert found == {
        "many tags": ["tags"],
        "many workers": ["attempted_by"],
        "args of many keys": ["args"],
        "args of one long text": ["args"],
        "args of a long key": ["args"],
    }
    long = next(job for job in listed if places[job["id"]] == "args of one long text")
    assert json.loads(long["args"])["left_out"].endswith(f"see /jobs/{long['id']}/raw/args")


async def test_the_api_tells_every_job(client: AsyncClient, corpus: Corpus) -> None:
    unread = 0
    for (name, state), job_id in corpus.ids.items():
        text = await told(client, f"/api/jobs/{job_id}")
        try:
            found = json.loads(text)
        except (RecursionError, ValueError):
            # Python's own reader, not the answer: the metadata stands in it to the letter.
            unread += 1
            assert text.startswith(f'{{"id":{job_id},')
            continue
        assert (found["id"], found["state"]) == (job_id, state), name
        assert len(found["errors"]) <= 1_000
    assert unread <= 4 * len(STATES)


@pytest.mark.parametrize("order", ORDERS)
async def test_an_export_has_every_job_once(
    order: str, client: AsyncClient, corpus: Corpus
) -> None:
    there = sorted(corpus.ids.values())
    answer = await client.get(f"/api/jobs/export?order={order}")
    assert answer.status_code == 200
    lines = [json.loads(line) for line in answer.text.split("\n") if line]
    assert sorted(line["id"] for line in lines) == there
    long = corpus.ids["args of one long text", "running"]
    assert next(len(line["args"]) for line in lines if line["id"] == long) > 5_000_000


async def test_a_table_has_every_job_once(client: AsyncClient, corpus: Corpus) -> None:
    answer = await client.get("/api/jobs/export?format=csv")
    assert answer.status_code == 200
    csv.field_size_limit(100_000_000)
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert sorted(int(row["id"]) for row in rows) == sorted(corpus.ids.values())
    assert all(len(json.loads(row["tags"])) <= 100 for row in rows)


async def test_every_other_address_answers(client: AsyncClient) -> None:
    with cases() as case:
        for path in (
            "/queues",
            "/queues?order=oldest",
            "/queues/default",
            "/operations",
            "/about",
            "/help",
            "/api/queues",
            "/api/states",
            "/api/features",
            "/api/autocomplete?facet=job_kind",
            "/api/autocomplete?facet=queue_name",
            "/api/progress?tag=tag_7",
            "/api/progress?q=kind:odd",
            "/api/progress?metadata.snoozes=many",
            "/metrics",
            *(
                f"/suggest?q={typed}"
                for typed in ("odd", "kind:", "queue:", "tag:", "worker:", "args.")
            ),
            *(f"/jobs?q={q}" for q in ("tag:tag_7", "worker:client_5", "error:error", "kind:*d*")),
            *(
                f"/jobs/bulk?verb={verb}&q=kind:odd"
                for verb in ("cancel", "delete", "move", "retry")
            ),
        ):
            with case(path):
                answer = await client.get(path)
                assert answer.status_code == 200, answer.text[:500]
                assert len(answer.content) <= PAGE


MOVED = {"queue": "elsewhere", "priority": "2"}
"""What `move` takes besides; the other verbs pass over it."""


@pytest.mark.usefixtures("changes")
@pytest.mark.parametrize("verb", ["cancel", "retry", "move", "delete"])
async def test_an_action_on_all_of_them_leaves_none_behind(
    verb: str, app: Starlette, client: AsyncClient, make: Make, corpus: Corpus
) -> None:
    for state in STATES:
        asked = parse((await client.get(f"/jobs/bulk?verb={verb}&state={state}")).text)
        for form in asked.all("form", class_="ask"):
            await client.post(form.attributes["action"], data=dict(form.fields()) | MOVED)
            await idle(app.state.dashboard.get(OPERATIONS))
    operations = await app.state.dashboard.get(OPERATIONS).list(limit=99)
    assert operations
    assert {str(operation.status) for operation in operations} == {"done"}, [
        o.error for o in operations
    ]
    rows = await make.rows("select state::text, count(*)::int as n from river_job group by 1")
    left = {row["state"]: row["n"] for row in rows}
    # An attempt that is still to come looks like one that began after the action was asked for.
    later = ("times that never come", "times beyond the calendar")
    spared = {state: len(later) for state in STATES}
    spared["running"] = sum(1 for _, state in corpus.ids if state == "running")
    if verb == "delete":
        assert left == spared
    else:
        assert sum(left.values()) == len(corpus.ids)


@pytest.mark.usefixtures("changes")
async def test_actions_on_selected_jobs(client: AsyncClient, make: Make, corpus: Corpus) -> None:
    for verb, state in (
        ("cancel", "running"),
        ("retry", "discarded"),
        ("move", "pending"),
        ("delete", "completed"),
    ):
        for (name, where), job_id in corpus.ids.items():
            if where == state:
                data = {"ids": str(job_id), "confirmed": "1"} | MOVED
                answer = await client.post(f"/jobs/{verb}", data=data)
                assert answer.status_code == 303, (name, verb, answer.status_code)
    rows = await make.rows("select count(*)::int as n from river_job where state = 'completed'")
    assert rows == [{"n": 0}]


@pytest.mark.usefixtures("changes")
async def test_odd_metadata_of_queues(client: AsyncClient, make: Make) -> None:
    deep, digits = "repeat('[', 5000) || repeat(']', 5000)", "repeat('9', 5000)"
    values = {
        "deep": f"('{{\"concurrency\": ' || {deep} || '}}')::jsonb",
        "digits": f"('{{\"concurrency\": {{\"global_limit\": ' || {digits} || '}}}}')::jsonb",
        "null": "'null'::jsonb",
        "large": "jsonb_build_object('x', repeat('x', 5000000))",
        "controls": "jsonb_build_object('x', repeat(E'\\x01', 90000))",
        "never": "'{}'::jsonb",
    }
    for name, metadata in values.items():
        row = f"'{name}', {metadata}, now()"
        await make.execute(
            f"insert into river_queue (name, metadata, updated_at) values ({row})".encode()
        )
    await make.execute(
        "update river_queue set created_at = '-infinity', updated_at = 'infinity',"
        " paused_at = '0044-03-15 BC' where name = 'never'"
    )
    await page(client, "/queues")
    await told(client, "/api/queues")
    for name in values:
        await page(client, f"/queues/{name}")
        await told(client, f"/api/queues/{name}")


@pytest.mark.usefixtures("changes")
async def test_odd_tasks_of_a_workflow(client: AsyncClient, make: Make) -> None:
    await make.execute(PRO_TABLES)
    await make.execute(
        "update river_job set metadata = metadata || jsonb_build_object("
        "'workflow_id', 'w', 'task', id::text, 'deps', jsonb_build_array(1, '{}'::jsonb, null)"
        ") where jsonb_typeof(metadata) = 'object'"
    )
    await make.execute("insert into river_workflow (id, name) values ('w', 'odd')")
    await make.execute(
        "insert into river_producer (client_id, queue_name, max_workers, metadata) select 'c',"
        " 'default', 1, m from unnest(array['null', '7', '[]', '{\"concurrency\": {\"running\":"
        " [1]}}', repeat('[', 5000) || repeat(']', 5000), '{\"concurrency\": {\"running\": {\"a\":"
        " ' || repeat('9', 5000) || '}}}']::jsonb[]) m"
    )
    await told(client, "/api/pro/workflows")
    await told(client, "/api/pro/workflows/w")
    found = json.loads(await told(client, "/api/pro/producers?queue_name=default"))
    assert len(found["data"]) == 6
    for verb in ("cancel", "retry"):
        answer = await client.post(f"/api/pro/workflows/w/{verb}", json={})
        assert answer.status_code == 200, answer.text[:500]


async def test_out_of_range_times_are_words(client: AsyncClient, corpus: Corpus) -> None:
    shown = {
        name: (await page(client, f"/jobs/{corpus.ids[name, 'scheduled']}")).one(id="job").text
        for name in ("times that never come", "times that were always", "times before Christ")
    }
    assert "Next run never" in shown["times that never come"]
    assert "Created: done before 1 AD" in shown["times that were always"]
    assert "Created: done before 1 AD" in shown["times before Christ"]


@pytest.mark.usefixtures("changes")
async def test_a_page_holds_the_widest_text_there_is(client: AsyncClient, make: Make) -> None:
    wide = "E'\\x01'"
    job_id = await make.job("discarded", attempt=30_000, max_attempts=32_767)
    await make.execute(
        f"""update river_job set kind = repeat({wide}, 127), queue = repeat({wide}, 127),
        tags = (select array_agg(repeat({wide}, 250) || n) from generate_series(1, 1000) n),
        attempted_by = (select array_agg(repeat({wide}, 97) || n % 100) from generate_series(1,
        3000) n),
        errors = (select array_agg(jsonb_build_object('at', now(), 'attempt', 29000 + n, 'error',
          repeat({wide}, 9000), 'trace', repeat(E'\\x01\\n', 9000))) from generate_series(1, 300)
          n),
        args = (select jsonb_object_agg(repeat({wide}, 200) || n, repeat({wide}, 4500))
          from generate_series(1, 40) n),
        metadata = jsonb_build_object('wide', repeat({wide}, 190000),
          'output', (select jsonb_agg(repeat('<', 4500)) from generate_series(1, 40)),
          'river:log', (select jsonb_agg(jsonb_build_object('attempt', 29000 + n,
            'log', repeat(E'ERR\\n', 9000))) from generate_series(1, 300) n))
        where id = {job_id}""".encode()
    )
    await page(client, f"/jobs/{job_id}")
    await page(client, f"/jobs/{job_id}", headers=FRAGMENT)
    await page(client, "/jobs?state=discarded")


@pytest.mark.usefixtures("changes")
async def test_a_job_too_large_to_be_read_in_time_has_a_page(database_url: str, make: Make) -> None:
    job_id = await make.job("running", tags=["seen"])
    await make.execute(
        "update river_job set metadata = jsonb_build_object('river:log', (select jsonb_agg("
        "jsonb_build_object('attempt', 1, 'log', 'x')) from generate_series(1, 500000) n))"
        f" where id = {job_id}".encode()
    )
    # Reading them takes some 200 ms on an idle machine, the row without its JSON 2 ms.
    driver: Driver = connect(database_url, page_timeout=timedelta(milliseconds=100))
    app = create_app(driver, no_auth=True)
    async with browser(app) as client:
        found = await page(client, f"/jobs/{job_id}")
    assert "too large to load in time" in found.text
    assert "seen" in found.text
    await app.state.dashboard.close()
    await driver.close()


@pytest.mark.usefixtures("changes")
@pytest.mark.parametrize("order", ["time", "-time"])
async def test_lists_of_out_of_range_times(order: str, client: AsyncClient, make: Make) -> None:
    await make.execute(
        "insert into river_job (args, kind, max_attempts, state, scheduled_at) select '{}', 'far',"
        " 25, 'scheduled', case n % 3 when 0 then 'infinity'::timestamptz when 1 then"
        " '10000-01-01'::timestamptz + n * interval '1 day' else '0044-03-15 BC'::timestamptz + n *"
        " interval '1 day' end from generate_series(1, 60) n"
    )
    found = await make.rows("select id from river_job where kind = 'far'")
    there = {row["id"] for row in found}
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        asked = {
            "q": "kind:far",
            "state": "scheduled",
            "order": order,
            "limit": "7",
            "cursor": cursor,
        }
        answer = json.loads(await told(client, "/api/jobs", params=asked))
        cursor = answer["next_cursor"]
        seen += [job["id"] for job in answer["data"]]
        assert len(seen) <= len(there), "the list goes in circles"
    assert sorted(seen) == sorted(there)
