"""Queues whose finished jobs are kept for other periods than the rest."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.retention import Retention
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError
from riverui.features.retention.engine import QueueRetention
from riverui.storage.interface import Driver
from tests.engine.conftest import Playground, Task
from tests.engine.ticking import Ticking
from tests.factory import job

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STATES = ("completed", "cancelled", "discarded")


async def cleaned(
    driver: Driver, retention: QueueRetention, *, config: ClientConfig | None = None
) -> int:
    """Return what the feature's own service removes."""
    config = config or ClientConfig()
    context = ServiceContext(
        driver=driver,
        clock=Ticking().now,
        logger=logging.getLogger("riverui.engine"),
        retention=config.retention,
    )
    return sum([await service.run_once() for service in retention.services(context)])


async def left(connection: AsyncConnection[Any]) -> set[tuple[str, str]]:
    rows = await connection.execute("select queue, state::text as state from river_job")
    return {(row["queue"], row["state"]) for row in await rows.fetchall()}


@pytest.mark.parametrize("state", STATES)
async def test_each_state_has_its_own_period(
    driver: Driver, connection: AsyncConnection[Any], state: str
) -> None:
    now = Ticking().now()
    for queue in ("mail", "other"):
        for other in STATES:
            await job(connection, other, queue=queue, finalized_at=now - 2 * MINUTE)
    assert await cleaned(driver, QueueRetention({"mail": Retention(**{state: MINUTE})})) == 1
    everything = {
        (q, s) for q in ("mail", "other") for s in ("completed", "cancelled", "discarded")
    }
    assert await left(connection) == everything - {("mail", state)}


async def test_a_period_left_open_is_the_clients(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    now = Ticking().now()
    await job(connection, "completed", queue="mail", finalized_at=now - 2 * HOUR)
    await job(connection, "cancelled", queue="mail", finalized_at=now - 2 * HOUR)
    retention = QueueRetention({"mail": Retention(completed=NO_LIMIT)})
    assert await cleaned(driver, retention) == 0
    config = ClientConfig(completed_job_retention_period=HOUR, cancelled_job_retention_period=HOUR)
    assert await cleaned(driver, retention, config=config) == 1
    assert await left(connection) == {("mail", "completed")}


async def test_queues_that_are_kept_alike_are_cleaned_together(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    now = Ticking().now()
    for queue in ("a", "b", "c"):
        await job(connection, "completed", queue=queue, finalized_at=now - 2 * HOUR)
    hourly, daily = Retention(completed=HOUR), Retention(completed=DAY)
    retention = QueueRetention({"a": hourly, "b": daily, "c": Retention(completed=HOUR)})
    assert await cleaned(driver, retention) == 2
    assert await left(connection) == {("b", "completed")}


async def test_the_leader_keeps_longer_and_shorter_what_is_to_be_kept_so(
    play: Playground,
) -> None:
    async def work(job: Job[Task]) -> None: ...

    play.worker(work)
    ages = {"audit": 300, "mail": 0.2, "default": 2}
    for queue, days in ages.items():
        for age in (0.5, 1.5):
            at = Ticking().now() - timedelta(days=days * age)
            await play.insert(state="completed", queue=queue, finalized_at=at)
    retention = QueueRetention(
        {"audit": Retention(completed=300 * DAY), "mail": Retention(completed=DAY / 5)}
    )
    await play.start(
        features=[retention],
        leader_election_disabled=False,
        completed_job_retention_period=2 * DAY,
    )

    async def one_each() -> bool:
        rows = await play.rows("select queue from river_job order by queue")
        return [row["queue"] for row in rows] == ["audit", "default", "mail"]

    await play.until(one_each)


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ({"No Queue": Retention()}, "'No Queue' is not a valid queue name"),
        ({"mail": HOUR}, "'mail' needs a Retention"),
    ],
)
def test_what_cannot_be_kept(queues: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        QueueRetention(queues)


@pytest.mark.parametrize("period", [-HOUR, 5])
def test_invalid_periods(period: Any) -> None:
    with pytest.raises(ConfigError, match=r"^discarded must be"):
        Retention(discarded=period)


# Periods that stand with the queues


async def test_a_queue_s_own_periods_hold_and_the_rest_is_the_client_s(
    play: Playground, connection: AsyncConnection[Any], driver: Driver
) -> None:
    now = Ticking().now()
    for queue in ("mail", "other"):
        for state in STATES:
            await job(connection, state, queue=queue, finalized_at=now - 2 * DAY)
    mail = QueueConfig(
        max_workers=1,
        cancelled_job_retention_period=NO_LIMIT,
        discarded_job_retention_period=HOUR,
    )
    client = play.make(queues={"mail": mail, "other": QueueConfig(max_workers=1)})
    (retention,) = [one for one in client.pilot.features if isinstance(one, QueueRetention)]
    assert retention.queues == {"mail": Retention(cancelled=NO_LIMIT, discarded=HOUR)}
    assert client.pilot.queues_excluded_from_cleaning == ("mail",)
    assert await cleaned(driver, retention, config=client.config) == 2
    assert await left(connection) == {("mail", "cancelled"), *(("other", one) for one in STATES)}


async def test_queues_without_periods_need_no_service(play: Playground) -> None:
    client = play.make(queues={"mail": QueueConfig(max_workers=1)})
    assert not [one for one in client.pilot.features if isinstance(one, QueueRetention)]


@pytest.mark.parametrize("state", STATES)
def test_a_queue_s_periods_are_checked(state: str) -> None:
    name = f"{state}_job_retention_period"
    settings: dict[str, Any] = {name: -HOUR}
    with pytest.raises(ConfigError, match=f"{name} must be not negative, or NO_LIMIT"):
        QueueConfig(max_workers=1, **settings)


def test_one_queue_has_its_periods_in_one_place(play: Playground) -> None:
    mail = QueueConfig(max_workers=1, completed_job_retention_period=HOUR)
    twice = QueueRetention({"mail": Retention(completed=DAY)})
    with pytest.raises(ConfigError, match="'mail' has retention periods here, and in QueueRet"):
        play.make(queues={"mail": mail}, features=[twice])
    other = QueueRetention({"audit": Retention(completed=DAY)})
    client = play.make(queues={"mail": mail}, features=[other])
    assert client.pilot.queues_excluded_from_cleaning == ("audit", "mail")
