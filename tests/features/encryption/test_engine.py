"""Jobs whose args are encrypted in the database."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

import pytest
from psycopg import AsyncConnection
from pydantic import BaseModel

from riverui import SyncClient
from riverui.domain.jobs import JobRow
from riverui.domain.sealed_args import is_sealed
from riverui.engine.args.job_args import Unique
from riverui.engine.config import QueueConfig
from riverui.engine.events import EventKind
from riverui.engine.hooks import DoInner, Middleware
from riverui.engine.insert.insert_opts import InsertOpts, UniqueOpts
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.retention import Retention
from riverui.engine.work.worker import Job, Worker
from riverui.errors import ConfigError
from riverui.features.encryption.domain import ArgsKeys
from riverui.features.encryption.engine import Encryption
from tests.engine.conftest import Playground, Task

LOG = logging.getLogger("tests.encryption")
OLD, NEW = b"o" * 32, b"n" * 32
SECRET = "4242-4242"


@dataclass
class Charge:
    """Something with a secret in it."""

    kind: ClassVar[str] = "charge"
    card: Annotated[str, Unique] = SECRET
    amount: int = 7


@dataclass
class Public:
    """Something without."""

    kind: ClassVar[str] = "public"
    text: str = ""


async def texts(play: Playground) -> list[str]:
    """Return all rows of jobs as text."""
    return [row["text"] for row in await play.rows("select j::text as text from river_job j")]


async def sealed(play: Playground) -> list[bool]:
    """Return for each job, by id, whether its args are encrypted."""
    rows = await play.rows("select args::text as args from river_job order by id")
    return [is_sealed(row["args"]) for row in rows]


class Till:
    """Records which args are worked."""

    def __init__(self, play: Playground) -> None:
        self.args: list[Any] = []
        play.worker(self._work, Charge)
        play.worker(self._work, Public)
        play.worker(self._work, Task)

    async def _work(self, job: Job[Any]) -> None:
        self.args.append(job.args)


async def test_args_are_encrypted_in_the_database_and_plain_at_work(play: Playground) -> None:
    till = Till(play)
    client = await play.start(plugins=[Encryption([OLD])])
    result = await client.insert(Charge())
    assert is_sealed(result.job.args)
    await play.event(result.job.id)
    many = await client.insert_many([Charge(amount=8), Public("x")])
    for inserted in many:
        await play.event(inserted.job.id)
    fast = await client.insert_many_fast([Charge(amount=9), Charge(amount=10)])
    assert fast == 2
    await play.until(lambda: len(till.args) == 5)
    assert till.args[0] == Charge()
    assert {args.amount for args in till.args if isinstance(args, Charge)} == {7, 8, 9, 10}
    assert await sealed(play) == [True] * 5
    assert not any(SECRET in text for text in await texts(play))


async def test_both_clients_encrypt_in_transactions_too(play: Playground) -> None:
    plugins = [Encryption([OLD])]
    till = Till(play)
    with SyncClient(play.database_url, play.config(plugins=plugins)) as client:
        client.insert(Charge())
        client.insert_many([Charge(), Charge()])
    client_async = play.make(plugins=plugins)
    async with await AsyncConnection.connect(play.database_url) as tx:
        await client_async.insert_tx(tx, Charge())
    assert await sealed(play) == [True] * 4
    await play.start(plugins=plugins)
    await play.until(lambda: till.args == [Charge()] * 4)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, [True, True]),
        ({"include_kinds": ["charge"]}, [True, False]),
        ({"exclude_kinds": ["charge"]}, [False, True]),
        ({"decrypt_only": True}, [False, False]),
        ({"include_kinds": []}, [False, False]),
    ],
)
async def test_kinds_are_chosen(
    play: Playground, settings: dict[str, Any], wanted: list[bool]
) -> None:
    till = Till(play)
    client = play.make(plugins=[Encryption([OLD])])
    # What is encrypted already is worked whatever the settings say.
    await client.insert(Charge(amount=1))
    client = await play.start(plugins=[Encryption([OLD], **settings)])
    await client.insert(Charge(amount=2))
    await client.insert(Public())
    assert await sealed(play) == [True, *wanted]
    await play.until(lambda: len(till.args) == 3)
    assert {args.amount for args in till.args if isinstance(args, Charge)} == {1, 2}


async def test_jobs_that_are_not_encrypted_are_worked(play: Playground) -> None:
    till = Till(play)
    plain = play.make()
    await plain.insert(Charge(amount=1))
    client = await play.start(plugins=[Encryption([OLD])])
    await client.insert(Charge(amount=2))
    assert await sealed(play) == [False, True]
    await play.until(lambda: len(till.args) == 2)
    assert {args.amount for args in till.args} == {1, 2}


async def test_keys_are_rotated(play: Playground) -> None:
    till = Till(play)
    old, new = Encryption([OLD]), Encryption([NEW, OLD])
    await play.make(plugins=[old]).insert(Charge(amount=1))
    client = await play.start(plugins=[new])
    await client.insert(Charge(amount=2))
    await play.until(lambda: len(till.args) == 2)
    rows = await play.rows("select args ->> 'river_encrypt' as sealed from river_job order by id")
    assert [row["sealed"][:8] for row in rows] == [old.key_ids[0], new.key_ids[0]]
    assert new.key_ids[1] == old.key_ids[0], "so that the jobs of a key can be counted"


async def test_an_unknown_key_is_the_attempts_error(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    till = Till(play)
    await play.make(plugins=[Encryption([OLD])]).insert(Charge(), InsertOpts(max_attempts=1))
    await play.start(plugins=[Encryption([NEW])])
    event = await play.event(1)
    assert event.kind is EventKind.JOB_FAILED
    row = await play.row(1)
    assert row["errors"][0]["error"].startswith("DecryptionError: The args are encrypted with the")
    assert till.args == []
    shown = caplog.text + json.dumps(row["errors"], default=str)
    assert SECRET not in shown
    assert "ooo" not in shown
    assert "nnn" not in shown


async def test_without_the_plugin_encrypted_args_do_not_fit(play: Playground) -> None:
    Till(play)
    await play.make(plugins=[Encryption([OLD])]).insert(Charge(), InsertOpts(max_attempts=1))
    await play.start()
    await play.event(1)
    assert (await play.row(1))["state"] in ("discarded", "completed")
    assert not any(SECRET in text for text in await texts(play))


class Refund(BaseModel):
    """A type whose error message quotes a wrong value."""

    kind: ClassVar[str] = "refund"
    card: int


async def test_what_does_not_fit_is_not_quoted(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(job: Job[Refund]) -> None: ...

    play.workers.work(Refund)(work)
    args = ArgsKeys([OLD]).seal(json.dumps({"card": SECRET}))
    await play.connection.execute(
        "insert into river_job (kind, args, max_attempts) values ('refund', %s, 1)", [args]
    )
    await play.start(plugins=[Encryption([OLD])])
    await play.event(1)
    errors = (await play.row(1))["errors"]
    assert "ArgsError: the args do not fit Refund; as they were encrypted" in errors[0]["error"]
    assert SECRET not in json.dumps(errors, default=str) + caplog.text


class Nosy(Middleware):
    """Logs the rows that it is given."""

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        logging.getLogger("tests").info("working %r", job)
        await do_inner()


async def test_rows_that_are_logged_do_not_show_them(play: Playground) -> None:
    till = Till(play)
    client = await play.start(plugins=[Encryption([OLD])], middleware=[Nosy()])
    await client.insert(Charge())
    await play.event(1)
    assert till.args == [Charge()]
    row = await play.row(1)
    assert "(opened args)" in json.dumps(row["metadata"])
    assert SECRET not in json.dumps(row, default=str)


async def test_unique_keys_use_the_plain_args(play: Playground) -> None:
    Till(play)
    unique = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    plain, encrypting = play.make(), play.make(plugins=[Encryption([OLD])])
    first = await encrypting.insert(Charge(), unique)
    again = await encrypting.insert(Charge(), unique)
    other = await encrypting.insert(Charge(card="other"), unique)
    beside = await plain.insert(Charge(), unique)
    assert again.unique_skipped_as_duplicate
    assert again.job.id == first.job.id
    assert beside.unique_skipped_as_duplicate
    assert beside.job.id == first.job.id
    assert not other.unique_skipped_as_duplicate
    assert is_sealed(first.job.args)


async def test_args_are_not_encrypted_twice(play: Playground) -> None:
    Till(play)
    client = play.make(plugins=[Encryption([OLD]), Encryption([NEW])])
    inserted = await client.insert(Charge())
    assert ArgsKeys([OLD]).open(inserted.job.args) == '{"card":"4242-4242","amount":7}'


async def test_batches_of_encrypted_jobs(play: Playground) -> None:
    batches: list[list[int]] = []

    @play.workers.work_many(Charge, max_count=3, max_delay=timedelta(seconds=20), by_args=["card"])
    async def charge(jobs: Sequence[Job[Charge]]) -> None:
        assert len({job.args.card for job in jobs}) == 1
        batches.append(sorted(job.args.amount for job in jobs))

    plugins = [Encryption([OLD])]
    client = play.make(plugins=plugins)
    for amount in range(3):
        await client.insert_many([Charge("a", amount), Charge("b", amount)])
    await play.start(plugins=plugins, queues={"default": QueueConfig(max_workers=6)})
    await play.until(lambda: len(batches) == 2)
    assert batches == [[0, 1, 2]] * 2


@dataclass
class Slow(Worker[Charge]):
    """Works for long, where its args say so."""

    def timeout(self, job: Job[Charge]) -> timedelta:
        return timedelta(hours=job.args.amount)


async def test_a_job_within_the_time_limit_that_its_args_give_is_not_rescued(
    play: Playground,
) -> None:
    play.worker(Slow())
    client = play.make(plugins=[Encryption([OLD])])
    await client.insert(Charge(amount=7))
    await client.insert(Charge(amount=1))
    await play.connection.execute(
        "update river_job set state = 'running', attempt = 1,"
        " attempted_at = now() - interval '2 hours'"
    )
    context = ServiceContext(
        driver=client.driver, clock=client.clock, logger=LOG, retention=Retention()
    )
    await JobRescuer(context, client.config, pilot=client.pilot).run_once()
    rows = await play.rows("select state::text from river_job order by id")
    assert [row["state"] for row in rows] == ["running", "retryable"]


def test_settings_that_cannot_be_used_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="not both"):
        Encryption([OLD], include_kinds=["a"], exclude_kinds=["b"])
    with pytest.raises(ConfigError, match="must be a list"):
        Encryption([OLD], include_kinds="charge")
    assert "ooo" not in repr(Encryption([OLD]))
    monkeypatch.setitem(sys.modules, "nacl.secret", None)
    with pytest.raises(ConfigError, match=r"install riverui\[crypto\]"):
        Encryption([OLD])
