"""Logs of jobs are kept, and failures are logged, whatever the program's logging setup."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui import Retry, fixed
from riverui.engine.config import QueueConfig
from riverui.engine.work.log_capture import JobOfRecord
from riverui.engine.work.worker import ErrorResult, Job, JobCancel
from tests.engine.conftest import Playground, Task
from tests.engine.test_joblog import logs

log = logging.getLogger("bookshop.mail")
"""Like most loggers, without a level of its own."""


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """Yield the root logger as Python has it at first."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    before = root.level
    root.setLevel(logging.WARNING)
    yield root
    root.setLevel(before)


class Kept(logging.Handler):
    """Keeps what a program's own handler would print."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def work(job: Job[Task]) -> None:
    log.debug("a detail")
    log.info("in a job")
    await asyncio.to_thread(log.warning, "from a thread")


KEPT = "INFO bookshop.mail: in a job\nWARNING bookshop.mail: from a thread\n"

_PROGRAM = """
import asyncio, json, logging, logging.config, sys
from datetime import timedelta

mine = logging.getLogger("mine")
url, setup, when = sys.argv[1:]

def set_up():
    console = {"class": "logging.StreamHandler"}
    match setup:
        case "uvicorn":
            from uvicorn.config import Config
            Config("nothing:app")
        case "basicConfig":
            logging.basicConfig()
        case "django":
            logging.config.dictConfig({"version": 1, "disable_existing_loggers": False,
                "handlers": {"console": console},
                "root": {"handlers": ["console"], "level": "WARNING"}})
        case "own handlers":
            logging.config.dictConfig({"version": 1, "disable_existing_loggers": False,
                "handlers": {"c": console},
                "loggers": {"mine": {"handlers": ["c"], "level": "INFO", "propagate": False}}})
        case "quiet":
            mine.setLevel(logging.ERROR)
        case "disabled":
            logging.config.dictConfig({"version": 1})

import riverui
from riverui import ClientConfig, JsonArgs, QueueConfig

class Args:
    kind = "talk"
    @classmethod
    def from_json(cls, text):
        return cls()

    def to_json(self):
        return "{}"

workers = riverui.Workers()

@workers.work(Args)
async def talk(job):
    mine.info("something happened")
    if job.attempt == 1:
        raise ValueError("no such shelf")

async def main():
    client = riverui.Client(url, ClientConfig(
        fetch_poll_interval=timedelta(seconds=1), leader_election_disabled=True,
        queues={"default": QueueConfig(max_workers=1)}, workers=workers,
    ))
    if when == "before":
        set_up()
    await client.start()
    if when == "after":
        set_up()
    with client.subscribe("job_completed", "job_failed") as events:
        await client.insert(Args())
        event = await anext(events)
    await client.stop()
    mine.info("outside of any job")
    print(json.dumps(json.loads(event.job.metadata).get("river:log", [])))

asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("setup", "when", "kept", "logged", "printed"),
    [
        ("nothing", "before", True, True, False),
        ("uvicorn", "before", True, True, False),
        ("uvicorn", "after", True, True, False),
        ("basicConfig", "before", True, True, False),
        ("basicConfig", "after", True, True, False),
        ("django", "before", True, True, False),
        ("own handlers", "before", True, True, True),
        # A logger's own settings in the program apply in jobs too.
        ("quiet", "before", False, True, False),
        ("disabled", "before", False, False, False),
    ],
)
def test_whatever_the_host(
    database_url: str, setup: str, when: str, kept: bool, logged: bool, printed: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, database_url, setup, when],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    entries = json.loads(done.stdout)
    assert [entry["log"].split("Z ")[1] for entry in entries] == (
        ["INFO mine: something happened\n"] if kept else []
    )
    assert ("something happened" in done.stderr) is printed
    assert done.stderr.count("ValueError: no such shelf") == (2 if logged else 0), (
        "in the line and in its traceback"
    )
    if logged:
        assert (
            "(talk) in queue default failed at attempt 1 of 25 and will be retried in"
            in done.stderr
        )
        assert "Traceback (most recent call last):" in done.stderr


async def test_the_hosts_handlers_get_no_more_than_before(
    play: Playground, root: logging.Logger
) -> None:
    kept = Kept()
    root.addHandler(kept)
    assert logs(await play.work(work)) == [(1, KEPT)]
    assert kept.lines == ["from a thread"]
    assert not log.isEnabledFor(logging.INFO), "outside of a job"


@pytest.mark.usefixtures("root")
async def test_code_that_asks_first_finds_the_level_enabled(play: Playground) -> None:
    """As structlog and careful programs do."""
    answers: list[bool] = []

    async def asks(job: Job[Task]) -> None:
        answers.extend(
            log.isEnabledFor(level) for level in (logging.DEBUG, logging.INFO, logging.ERROR)
        )
        logging.disable(logging.INFO)
        answers.append(log.isEnabledFor(logging.INFO))
        logging.disable(logging.NOTSET)

    await play.work(asks)
    assert answers == [False, True, True, False]


async def test_more_is_kept_where_the_program_logs_more(
    play: Playground, root: logging.Logger
) -> None:
    root.setLevel(logging.DEBUG)
    assert logs(await play.work(work)) == [(1, f"DEBUG bookshop.mail: a detail\n{KEPT}")]


async def test_logging_is_as_before_once_all_clients_have_stopped(play: Playground) -> None:
    def methods() -> tuple[Any, ...]:
        return (logging.Logger.isEnabledFor, logging.Logger.callHandlers)

    before, handlers = methods(), list(logging.getLogger().handlers)
    first, second = (
        await play.start(),
        await play.start(queues={"other": QueueConfig(max_workers=1)}),
    )
    assert methods() != before
    assert logging.getLogger().handlers == handlers
    await first.stop()
    assert methods() != before
    await second.stop()
    assert methods() == before


@pytest.mark.usefixtures("root")
async def test_a_patch_made_in_between_stays(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentry does the same to `callHandlers`, and may be set up before or after us."""
    play.worker(work)
    client = await play.start()
    ours, heard = logging.Logger.callHandlers, []

    def theirs(logger: logging.Logger, record: logging.LogRecord) -> None:
        heard.append(record.getMessage())
        ours(logger, record)

    # What they have done ends before the client does, so that all is as it was.
    with monkeypatch.context() as program:
        program.setattr(logging.Logger, "callHandlers", theirs)
        await client.stop()
        assert logging.Logger.callHandlers is theirs
        log.warning("outside")
        await play.start()
        assert logs(await play.work()) == [(1, KEPT)], "once, and not twice"
    assert heard.count("in a job") == 1


async def failures(
    play: Playground,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    attempt: int = 0,
    **settings: Any,
) -> tuple[logging.LogRecord, Any]:
    async def fails(job: Job[Task]) -> None:
        raise error

    play.worker(fails)
    await play.start(**settings)
    with caplog.at_level(logging.INFO, "riverui.engine"):
        row = await play.work(attempt=attempt)
    (record,) = (record for record in caplog.records if hasattr(record, "job_id"))
    return record, row


async def test_a_failure_is_a_warning_that_says_when_it_is_tried_again(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    record, row = await failures(
        play, caplog, ValueError("no\nsuch shelf"), retry_policy=lambda job: at, attempt=2
    )
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(
        f"job {row['id']} (task) in queue default failed at attempt 3 of 25 and will be retried in "
    )
    assert record.getMessage().endswith(
        f" s, at {at:%Y-%m-%d %H:%M:%S} UTC: ValueError: no such shelf"
    )
    assert vars(record).items() >= {
        "job_id": row["id"], "job_kind": "task", "queue": "default", "attempt": 3
    }.items()  # fmt: skip
    assert "in fails\n" in caplog.text
    assert "pipeline.py" not in caplog.text, "the traceback begins in the program's own code"
    assert "river:log" not in row["metadata"], "the job has its error already"


async def test_a_failure_that_is_soon_tried_again_does_not_say_0_s(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    soon = Retry(wait=fixed(timedelta(seconds=0.2)))
    record, _ = await failures(play, caplog, ValueError("no"), retry=soon)
    assert "will be retried in 0.2 s, at" in record.getMessage()


async def test_a_discard_is_an_error(play: Playground, caplog: pytest.LogCaptureFixture) -> None:
    record, row = await failures(play, caplog, ValueError("x" * 2000), attempt=24)
    assert row["state"] == "discarded"
    assert record.levelname == "ERROR"
    assert "failed at attempt 25 of 25 and was discarded: ValueError: xxx" in record.getMessage()
    assert len(record.getMessage()) < 700


async def test_what_an_error_handler_cancels(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    record, _ = await failures(
        play,
        caplog,
        ValueError("x"),
        error_handler=lambda job, error: ErrorResult(set_cancelled=True),
    )
    assert record.levelname == "WARNING"
    assert "and was cancelled by the error handler: ValueError: x" in record.getMessage()


async def test_a_cancellation_is_no_failure(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    record, _ = await failures(play, caplog, JobCancel("there is no such order"))
    assert record.levelname == "INFO"
    assert record.exc_info is None
    assert record.getMessage().endswith("was cancelled at attempt 1: there is no such order")


async def test_lines_say_which_job_they_are_from(play: Playground) -> None:
    kept: list[tuple[object, object]] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append((getattr(record, "job_id", None), getattr(record, "job_kind", None)))

    handler = Noting()
    handler.addFilter(JobOfRecord())
    log.addHandler(handler)
    try:
        row = await play.work(lambda job: log.warning("in a thread"))
        log.warning("outside")
    finally:
        log.removeHandler(handler)
    assert kept == [(row["id"], "task"), (None, None)]
