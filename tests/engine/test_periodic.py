"""The bundle of a client's periodic jobs: ids, handles, and results of constructors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, cast

import pytest

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.lead.periodic import CronSchedule, PeriodicInterval, PeriodicJob, PeriodicJobs
from riverui.errors import ConfigError

HOURLY = PeriodicInterval(timedelta(hours=1))
OPTS = InsertOpts(queue="reports")


@dataclass
class Report:
    kind: ClassVar[str] = "report"


class Pair(NamedTuple):
    """Args that are a tuple themselves."""

    left: int
    right: int


PAIR: Any = Pair(1, 2)


def periodic(id: str | None = None) -> PeriodicJob:
    return PeriodicJob(HOURLY, Report, id=id)


@pytest.mark.parametrize(
    "name",
    [
        "daily",
        "ab",
        "Reports/daily-1",
        "a[b]<c>",
        "mail·daily:2+3.x",
        "_x",
        "9 lives".replace(" ", "_"),
    ],
)
def test_ids_are_those_that_river_takes(name: str) -> None:
    assert periodic(name).id == name


@pytest.mark.parametrize(
    "name", ["", "a", "-ab", "two words", "ümlaut", "daily\n", "a" * 128, "a,b", "a'b"]
)
def test_other_ids_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a valid periodic job id"):
        periodic(name)


def test_the_longest_id_is_taken() -> None:
    assert periodic("a" * 127).id


@pytest.mark.parametrize(
    ("schedule", "constructor"),
    [(None, Report), (HOURLY, None), ("0 0 * * *", Report), (HOURLY, Report())],
)
def test_a_schedule_and_a_constructor_are_needed(schedule: Any, constructor: Any) -> None:
    with pytest.raises(ConfigError, match="a schedule and a function"):
        PeriodicJob(schedule, constructor)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (None, None),
        ((None, OPTS), None),
        (Report(), InsertManyParams(Report())),
        ((Report(), OPTS), InsertManyParams(Report(), OPTS)),
        ((Report(), None), InsertManyParams(Report(), None)),
        (InsertManyParams(Report(), OPTS), InsertManyParams(Report(), OPTS)),
        (Pair(1, 2), InsertManyParams(PAIR)),
        ((Pair(1, 2), OPTS), InsertManyParams(PAIR, OPTS)),
    ],
)
def test_constructors_give_args_a_pair_or_nothing(
    made: Any, expected: InsertManyParams | None
) -> None:
    assert PeriodicJob(HOURLY, lambda: made).construct() == expected


def test_each_call_makes_another_job() -> None:
    job = PeriodicJob(CronSchedule("@daily"), Report)
    first, second = job.construct(), job.construct()
    assert first
    assert second
    assert first.args is not second.args


def test_handles_are_never_used_again() -> None:
    jobs = PeriodicJobs([periodic(), periodic()])
    assert list(jobs.by_handle()) == [0, 1]
    assert jobs.add(periodic()) == 2
    assert jobs.remove(2)
    assert not jobs.remove(2)
    assert jobs.add_many([periodic(), periodic()]) == [3, 4]
    jobs.clear()
    assert jobs.add(periodic()) == 5
    assert list(jobs.by_handle()) == [5]


def test_an_id_is_taken_while_its_job_is_there() -> None:
    jobs = PeriodicJobs([periodic("one"), periodic(), periodic()])
    with pytest.raises(ConfigError, match="“one”"):
        jobs.add(periodic("one"))
    with pytest.raises(ConfigError, match="“two”"):
        jobs.add_many([periodic("two"), periodic("two")])
    assert len(jobs.by_handle()) == 3
    for make_room in (lambda: jobs.remove_by_id("one"), lambda: jobs.remove(0), jobs.clear):
        cast("Callable[[], object]", make_room)()
        jobs.remove_by_id("one")
        jobs.add(periodic("one"))


def test_jobs_are_removed_by_handle_and_id_alone_and_together() -> None:
    jobs = PeriodicJobs([periodic(name) for name in ("aa", "bb", "cc", "dd", "ee")])
    assert jobs.remove_by_id("aa")
    assert not jobs.remove_by_id("aa")
    jobs.remove_many_by_id(["bb", "nowhere", "cc"])
    jobs.remove_many([3, 99])
    assert [job.id for job in jobs.by_handle().values()] == ["ee"]


def test_a_watcher_is_called_for_additions_while_it_watches() -> None:
    jobs = PeriodicJobs()
    called: list[str] = []
    with jobs.watched(lambda: called.append("once more")):
        jobs.add(periodic())
        jobs.add_many([periodic(), periodic()])
        jobs.clear()
    jobs.add(periodic())
    assert called == ["once more", "once more"]


def test_a_client_has_those_of_its_config() -> None:
    client = Client("postgresql://nowhere", ClientConfig(periodic_jobs=[periodic("one")]))
    assert [job.id for job in client.periodic_jobs.by_handle().values()] == ["one"]
    with pytest.raises(ConfigError, match="“one”"):
        Client(
            "postgresql://nowhere", ClientConfig(periodic_jobs=[periodic("one"), periodic("one")])
        )
