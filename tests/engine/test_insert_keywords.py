"""Options as keywords of everything that inserts, and delays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, get_type_hints

import psycopg
import pytest

from riverui import InsertKeywords, InsertManyParams, InsertOpts, JobState, SyncClient, UniqueOpts
from riverui.domain.jobs import JobRow
from riverui.engine.client import Client
from riverui.errors import InsertError
from riverui.storage.interface import Driver

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
KEYWORDS: InsertKeywords = {
    "max_attempts": 3,
    "metadata": {"request": "a81f"},
    "priority": 2,
    "queue": "mail",
    "scheduled_at": LATER,
    "tags": ["checkout"],
    "unique_opts": UniqueOpts(by_args=True),
}


@dataclass
class Mail:
    kind: ClassVar[str] = "mail"

    to: str = ""


@dataclass
class Patient:
    kind: ClassVar[str] = "patient"

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(delay=timedelta(hours=1), queue="patient")


@pytest.fixture
def client(driver: Driver) -> Client:
    return Client(driver, clock=lambda: NOW)


def said(job: JobRow) -> dict[str, Any]:
    return {
        "delay": job.scheduled_at - job.created_at,
        "max_attempts": job.max_attempts,
        "metadata": job.metadata_dict,
        "priority": job.priority,
        "queue": job.queue,
        "state": job.state,
        "tags": list(job.tags),
        "unique": job.unique_key is not None,
    }


ALL_SAID = {
    "delay": timedelta(hours=2),
    "max_attempts": 3,
    "metadata": {"request": "a81f"},
    "priority": 2,
    "queue": "mail",
    "state": JobState.SCHEDULED,
    "tags": ["checkout"],
    "unique": True,
}


def test_every_option_is_a_keyword() -> None:
    hints = get_type_hints(InsertOpts)
    assert get_type_hints(InsertKeywords) == {
        field.name: hints[field.name] for field in fields(InsertOpts)
    }


async def test_each_way_in_takes_keywords(client: Client, database_url: str) -> None:
    jobs = [(await client.insert(Mail("insert"), **KEYWORDS)).job]
    many = [InsertManyParams(Mail("many"), **KEYWORDS)]
    jobs += [result.job for result in await client.insert_many(many)]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        jobs.append((await client.insert_tx(connection, Mail("tx"), **KEYWORDS)).job)

    with SyncClient(database_url, clock=lambda: NOW) as river:
        jobs.append(river.insert(Mail("sync"), **KEYWORDS).job)
        with psycopg.connect(database_url) as connection_of_mine:
            jobs.append(river.insert_tx(connection_of_mine, Mail("sync tx"), **KEYWORDS).job)

    assert [said(job) for job in jobs] == [ALL_SAID] * 5


def test_tasks_of_workflows_take_keywords(client: Client) -> None:
    workflow = client.workflows.new("checkout")
    workflow.add("mail", Mail("add"), **KEYWORDS)
    workflow.map("each", [Mail("map")], InsertOpts(**KEYWORDS), queue="slow")
    added, mapped = (params.insert_opts for params in workflow.prepare())
    assert added is not None
    assert mapped is not None
    metadata = KEYWORDS["metadata"] or {}
    assert metadata.items() <= (added.metadata or {}).items()
    assert replace(added, metadata=metadata) == InsertOpts(**KEYWORDS)
    assert replace(mapped, metadata=metadata) == replace(InsertOpts(**KEYWORDS), queue="slow")


async def test_pending_is_a_keyword_too(client: Client) -> None:
    pending = await client.insert(Mail(), pending=True)
    assert pending.job.state == JobState.PENDING


async def test_keywords_win_over_options_beside_them_and_none_leaves_them(client: Client) -> None:
    common = InsertOpts(**KEYWORDS)
    changed = await client.insert(Mail("a"), common, queue="slow", priority=None)
    assert said(changed.job) == ALL_SAID | {"queue": "slow"}
    assert common == InsertOpts(**KEYWORDS)

    later = InsertOpts(scheduled_at=LATER, pending=True)
    sooner = await client.insert(Mail("b"), later, delay=timedelta(minutes=5), pending=False)
    assert said(sooner.job)["delay"] == timedelta(minutes=5)
    assert sooner.job.state == JobState.SCHEDULED
    delayed = InsertOpts(delay=timedelta(minutes=5))
    at = await client.insert(Mail("c"), delayed, scheduled_at=LATER)
    assert said(at.job)["delay"] == timedelta(hours=2)


@dataclass
class OfficialOpts:
    """As those of River's own Python client, which know fewer."""

    max_attempts: int | None = None
    priority: int | None = 3
    queue: str | None = "theirs"
    scheduled_at: datetime | None = None
    tags: list[str] | None = None
    unique_opts: Any = None


async def test_keywords_beside_options_of_the_official_client(client: Client) -> None:
    official: Any = OfficialOpts()
    job = (await client.insert(Mail(), official, delay=timedelta(hours=2))).job
    assert (job.queue, job.priority, job.scheduled_at) == ("theirs", 3, LATER)


async def test_a_delay_counts_from_the_clock_of_the_client(client: Client) -> None:
    job = (await client.insert(Mail(), delay=timedelta(minutes=5))).job
    assert (job.state, job.created_at) == (JobState.SCHEDULED, NOW)
    assert job.scheduled_at == NOW + timedelta(minutes=5)

    of_args, at_once, of_call, at = (
        result.job
        for result in await client.insert_many(
            [
                Patient(),
                InsertManyParams(Patient(), delay=timedelta(0)),
                InsertManyParams(Patient(), delay=timedelta(minutes=1)),
                InsertManyParams(Patient(), scheduled_at=LATER),
            ]
        )
    )
    assert of_args.scheduled_at == NOW + timedelta(hours=1)
    assert (at_once.state, at_once.scheduled_at) == (JobState.AVAILABLE, NOW)
    assert of_call.scheduled_at == NOW + timedelta(minutes=1)
    assert at.scheduled_at == LATER
    assert {job.queue for job in (of_args, at_once, of_call, at)} == {"patient"}


async def test_hooks_see_a_delay_as_a_time(client: Client) -> None:
    request = client.prepare_insert(Mail(), InsertOpts(delay=timedelta(minutes=5)))
    assert request.scheduled_at == NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delay": timedelta(1), "scheduled_at": LATER}, "either delay or scheduled_at, not both"),
        ({"delay": timedelta(seconds=-1)}, "delay must not be negative"),
        ({"delay": 300}, r"delay must be a timedelta, such as timedelta\(minutes=5\), not 300"),
        ({"delay": timedelta.max}, "delay is too long"),
    ],
)
async def test_delays_that_are_none(client: Client, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InsertError, match=words):
        await client.insert(Mail(), **change)
    with pytest.raises(InsertError, match=words):
        await client.insert(Mail(), replace(InsertOpts(), **change))


async def test_a_keyword_that_is_not_an_option_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match=r"there is no option 'que': use delay, max_attempts, .*"):
        await client.insert(Mail(), que="mail")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="there is no option 'que'"):
        InsertManyParams(Mail(), que="mail")  # type: ignore[call-arg]


def test_params_are_compared_and_replaced_as_before() -> None:
    params = InsertManyParams(Mail("a"), InsertOpts(queue="mail"))
    assert params == InsertManyParams(Mail("a"), queue="mail")
    assert replace(params, args=Mail("b")) == InsertManyParams(Mail("b"), queue="mail")
    assert InsertManyParams(Mail("a")).insert_opts is None
