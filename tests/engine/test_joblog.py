"""What jobs log, kept with them: by attempt, within limits, and while they still run."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from datetime import timedelta
from typing import Any

import pytest

from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import Job, JobSnooze, Worker
from riverui.storage.connect import connect
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging

log = logging.getLogger("shop.mail")
log.setLevel(logging.INFO)


def logs(row: Any) -> list[tuple[int, str]]:
    """Return the attempts' logs, without the times of their lines."""
    found = row["metadata"].get("river:log", [])
    assert all(entry.keys() == {"attempt", "log"} for entry in found)
    time = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", re.MULTILINE)
    return [(entry["attempt"], time.sub("", entry["log"])) for entry in found]


async def test_lines_of_coroutines_and_threads(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("begins with %s", job.args.value)
        log.debug("not heard at this level")
        await asyncio.to_thread(log.warning, "from a thread")
        await asyncio.create_task(_child())

    row = await play.work(work, Task(value="ann"))
    assert logs(row) == [
        (
            1,
            "INFO shop.mail: begins with ann\n"
            "WARNING shop.mail: from a thread\n"
            "INFO shop.mail: from a task\n",
        )
    ]


async def _child() -> None:
    log.info("from a task")


async def test_synchronous_jobs_log_too(play: Playground) -> None:
    def work(job: Job[Task]) -> None:
        try:
            raise ValueError("x")
        except ValueError:
            log.exception("it broke")

    ((attempt, text),) = logs(await play.work(work))
    assert attempt == 1
    assert text.startswith("ERROR shop.mail: it broke\nTraceback")
    assert text.endswith("ValueError: x\n")


async def test_a_job_that_logs_nothing_leaves_nothing(play: Playground) -> None:
    log.warning("outside of any job")

    async def work(job: Job[Task]) -> None:
        pass

    assert (await play.work(work))["metadata"] == {}


async def test_each_job_has_its_own(play: Playground) -> None:
    both = asyncio.Barrier(2)

    async def work(job: Job[Task]) -> None:
        log.info("one of %s", job.args.value)
        await both.wait()
        log.info("two of %s", job.args.value)

    play.worker(work)
    ids = [await play.insert(Task(value=value)) for value in ("a", "b")]
    await play.start()
    for job_id, value in zip(ids, "ab", strict=True):
        await play.event(job_id)
        text = f"INFO shop.mail: one of {value}\nINFO shop.mail: two of {value}\n"
        assert logs(await play.row(job_id)) == [(1, text)]


@pytest.mark.parametrize("error", [ValueError("x"), JobSnooze(timedelta(hours=1)), SystemExit(1)])
async def test_log_is_kept_however_the_attempt_ends(play: Playground, error: BaseException) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("trying")
        raise error

    earlier = {"river:log": [{"attempt": 1, "log": "earlier\n"}], "other": 1}
    row = await play.work(work, attempt=1, metadata=earlier)
    assert logs(row) == [(1, "earlier\n"), (2, "INFO shop.mail: trying\n")]
    assert row["metadata"]["other"] == 1


async def test_log_of_an_interrupted_attempt(play: Playground) -> None:
    class Logging(Hanging):
        async def work(self, job: Job[Task]) -> None:
            log.info("trying")
            await super().work(job)

    worker = Logging()
    play.worker(worker)
    client = await play.start()
    job_id = await play.insert()
    await worker.begun.wait()
    await client.stop_and_cancel()
    assert logs(await play.row(job_id)) == [(1, "INFO shop.mail: trying\n")]


async def test_log_by_another_formatter(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("hello")

    play.worker(work)
    await play.start(job_log_formatter=logging.Formatter("%(message)s!"))
    assert logs(await play.work()) == [(1, "hello!\n")]


async def test_no_log_where_none_is_wanted(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("hello")

    play.worker(work)
    await play.start(log_jobs=False)
    assert (await play.work())["metadata"] == {}


async def test_one_attempt_is_cut(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        for _ in range(100):
            log.info("ééééé")

    play.worker(work)
    await play.start(job_log_bytes=1002, job_log_formatter=logging.Formatter("%(message)s"))
    ((_, text),) = logs(await play.work())
    assert len(text.encode()) == 1001, "no half character is left at the end"
    assert text.startswith("ééééé\nééééé\n")


async def test_oldest_attempts_go_first(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("n" * job.args.number)

    play.worker(work)
    await play.start(job_log_total_bytes=490, job_log_formatter=logging.Formatter("%(message)s"))
    earlier = {"river:log": [{"attempt": n, "log": str(n) * 100} for n in (1, 2, 3)]}
    row = await play.work(args=Task(number=100), attempt=3, metadata=earlier)
    assert [attempt for attempt, _ in logs(row)] == [2, 3, 4]
    assert len(json.dumps(row["metadata"]["river:log"], separators=(",", ":"))) <= 490
    row = await play.work(args=Task(number=1000), attempt=3, metadata=earlier)
    assert [attempt for attempt, _ in logs(row)] == [4], "the newest stays, however long"


async def test_what_is_no_log_is_left_alone(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("hello")

    row = await play.work(work, metadata={"river:log": "mine"})
    assert row["metadata"] == {"river:log": "mine"}


async def test_odd_characters(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        log.info("a NUL \0, half a pair \ud800, \u2028 and \U0001f600")

    ((_, text),) = logs(await play.work(work))
    assert text == "INFO shop.mail: a NUL \ufffd, half a pair \ufffd, \u2028 and \U0001f600\n"


async def test_a_record_that_cannot_be_formatted(
    play: Playground, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    async def work(job: Job[Task]) -> None:
        log.info("%d things", "many")
        log.info("goes on")

    row = await play.work(work)
    assert row["state"] == "completed"
    assert logs(row) == [(1, "INFO shop.mail: goes on\n")]


async def test_log_can_be_read_while_the_job_runs(play: Playground) -> None:
    say = asyncio.Event()
    in_thread = threading.Event()

    class Talking(Worker[Task]):
        async def work(self, job: Job[Task]) -> None:
            log.info("first")
            await say.wait()
            await asyncio.to_thread(log.info, "second")
            in_thread.set()
            await done.wait()
            log.info("third")

    done = asyncio.Event()
    play.worker(Talking())
    await play.start(limits=EngineLimits(log_seconds=0.02, log_gap_seconds=0.0))
    job_id = await play.insert(metadata={"river:log": [{"attempt": 0, "log": "zeroth\n"}]})

    async def reads(*lines: str) -> None:
        expected = "".join(f"INFO shop.mail: {line}\n" for line in lines)

        async def there() -> bool:
            return logs(await play.row(job_id))[1:] == [(1, expected)]

        await play.until(there)

    await reads("first")
    assert (await play.row(job_id))["state"] == "running"
    say.set()
    await reads("first", "second")
    done.set()
    await play.event(job_id)
    await reads("first", "second", "third")
    assert logs(await play.row(job_id))[0] == (0, "zeroth\n")


async def test_short_jobs_are_written_once(play: Playground) -> None:
    """No statement beyond the one for the outcome, however many there are."""

    async def work(job: Job[Task]) -> None:
        log.info("hello")

    statements: list[str] = []
    play.worker(work)
    await play.start(
        database=connect(
            play.database_url, watch=lambda block, sql, values: statements.append(block)
        )
    )
    for _ in range(20):
        await play.work()
    assert statements.count("job_set_state_many") == 20
    assert "job_update" not in statements


async def test_write_under_way_does_not_overtake_the_end(play: Playground) -> None:
    worker = Hanging(lambda: log.info("last"))
    original, locked = worker.work, asyncio.Event()

    class Logging(Worker[Task]):
        timeout = timedelta(seconds=60)

        async def work(self, job: Job[Task]) -> None:
            await locked.wait()
            log.info("first")
            await original(job)

    play.worker(Logging())
    await play.start(limits=EngineLimits(log_seconds=0.01))
    job_id = await play.insert()
    await play.in_state(job_id, "running")
    async with play.connection.transaction():
        await play.rows("select 1 from river_job where id = %s for update", job_id)
        locked.set()
        # The write of the log waits for this lock.
        await play.until_waited_for()
        worker.let_go.set()
        log_line = "INFO shop.mail: first\n"
    await play.event(job_id)
    assert logs(await play.row(job_id)) == [(1, log_line)]


async def test_python_still_prints_records_without_a_handler(
    play: Playground, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])

    async def work(job: Job[Task]) -> None:
        log.warning("in a job")
        log.info("too quiet to print")

    try:
        row = await play.work(work)
        log.warning("outside")
        mine = logging.getLogger("has.its.own")
        mine.addHandler(logging.NullHandler())
        mine.warning("silenced")
    finally:
        await play.client.stop()
    assert root.handlers == []
    assert capsys.readouterr().err == "in a job\noutside\n"
    assert "in a job" in logs(row)[0][1]
