"""Which workers can be isolated, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from riverui.engine.config import ClientConfig
from riverui.engine.work.processes import transfer
from riverui.engine.work.worker import BatchWorker, Job, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.testing import work
from tests.engine.conftest import Playground, Task
from tests.engine.processes import jobs
from tests.engine.processes.jobs import Act, Counting, WithLock


def isolate(function: Callable[..., Any], args_type: type[Any] = Act, **settings: Any) -> Workers:
    workers = Workers()
    workers.work(args_type, isolation="process", **settings)(function)
    return workers


def of_main(job: Job[Act]) -> None: ...


of_main.__module__ = "__main__"


def test_what_no_other_process_can_find_is_refused() -> None:
    def local(job: Job[Act]) -> None: ...

    @dataclass
    class LocalArgs:
        kind: ClassVar[str] = "local"

    with pytest.raises(
        ConfigError, match=r"local is made inside a function.*top level of a module"
    ):
        isolate(local)
    with pytest.raises(ConfigError, match="<lambda> is made inside a function"):
        isolate(lambda job: None)
    with pytest.raises(ConfigError, match="of_main is in the program's main module"):
        isolate(of_main)
    with pytest.raises(ConfigError, match="LocalArgs is made inside"):
        isolate(jobs.act, LocalArgs)


def test_what_cannot_be_killed_has_no_hard_time_limit() -> None:
    with pytest.raises(ConfigError, match=r'act.hard_timeout needs isolation="process"'):
        Workers().work(Act, hard_timeout=timedelta(seconds=1))(jobs.act)
    with pytest.raises(ConfigError, match=r"act.hard_timeout must be .* not 5"):
        isolate(jobs.act, hard_timeout=5)


def test_only_plain_functions_are_isolated() -> None:
    with pytest.raises(ConfigError, match=r"asynchronous is asynchronous: .* write `def`"):
        isolate(jobs.asynchronous)
    with pytest.raises(ConfigError, match="isolation must be \"process\" or None, not 'thread'"):
        Workers().work(Act, isolation="thread")(jobs.act)  # type: ignore[call-overload]

    class Together(BatchWorker[Act]):
        isolation = "process"

        def work_many(self, jobs: Any) -> None: ...

    with pytest.raises(ConfigError, match="Together works batches, which cannot be isolated"):
        Workers().add(Together())


async def test_a_worker_that_cannot_be_pickled_fails_the_start(play: Playground) -> None:
    play.worker(WithLock())
    client = play.make()
    with pytest.raises(ConfigError, match=r"WithLock cannot be sent .*'_thread.lock'"):
        await client.start()
    assert not client.started


def test_a_function_under_another_s_name_is_refused() -> None:
    def other(job: Job[Act]) -> None: ...

    other.__module__, other.__qualname__ = jobs.__name__, "act"
    (unit,) = isolate(other).isolated
    with pytest.raises(ConfigError, match=r"act cannot be sent .*not the same object"):
        transfer.pickled(unit)


def test_workers_and_functions_come_back_from_where_they_are_sent() -> None:
    (unit,) = isolate(jobs.act).isolated
    run, decode = transfer.loaded(transfer.pickled(unit))
    assert run is jobs.act
    assert decode('{"what": "a"}') == Act(what="a")
    workers = Workers()
    workers.add(Counting(5))
    (unit,) = workers.isolated
    found = transfer.loaded(transfer.pickled(unit))
    assert found.run.__self__.count == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["isolation_processes", "isolation_max_jobs", "isolation_max_memory"]
)
def test_settings_of_the_processes_are_checked(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ClientConfig(**{name: 0})  # type: ignore[arg-type]


def test_the_time_until_a_kill_is_checked() -> None:
    with pytest.raises(ConfigError, match="isolation_kill_after"):
        ClientConfig(isolation_kill_after=timedelta(seconds=-1))


async def test_a_client_without_isolated_workers_makes_no_processes(play: Playground) -> None:
    class Plain(Worker[Task]):
        def work(self, job: Job[Task]) -> None: ...

    assert (await play.work(Plain()))["state"] == "completed"
    runtime = play.client.runtime
    assert runtime is not None
    assert runtime.runner.processes().pids == ()


async def test_in_tests_isolated_jobs_are_worked_in_a_thread(
    database_url: str, tmp_path: Path
) -> None:
    result = await work(database_url, Counting(0), Act(folder=str(tmp_path)), config=ClientConfig())
    assert (result.event, result.job.output) == ("job_completed", 1)
