"""Settings of a client, valid and invalid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

import riverui
from riverui.domain.values import is_kind, is_queue_name
from riverui.engine.client import Client
from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.storage.connect import connect
from tests.engine.conftest import Task

SECOND = timedelta(seconds=1)


def workers(kind: str = "task") -> Workers:
    @dataclass
    class Some:
        pass

    Some.kind = kind  # type: ignore[attr-defined]
    found = Workers()
    found.work(Some)(print)
    return found


def test_a_client_without_queues_only_inserts() -> None:
    none: Any = None
    assert ClientConfig(queues=none).queues == {}
    names: Any = ["default"]
    with pytest.raises(ConfigError, match=r"^queues must map names to QueueConfigs, not a list\.$"):
        ClientConfig(queues=names)


ONE = QueueConfig(max_workers=1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cancelled_job_retention_period": -2 * SECOND}, "cancelled_job_retention_period"),
        ({"completed_job_retention_period": -2 * SECOND}, "completed_job_retention_period"),
        ({"discarded_job_retention_period": -2 * SECOND}, "discarded_job_retention_period"),
        ({"fetch_cooldown": timedelta(0)}, "fetch_cooldown must be at least 1 ms"),
        ({"fetch_poll_interval": timedelta(0)}, "fetch_poll_interval"),
        (
            {"fetch_cooldown": 3 * SECOND},
            "fetch_poll_interval must not be shorter than fetch_cooldown",
        ),
        ({"fetch_cooldown": 5}, "fetch_cooldown must be a timedelta"),
        ({"id": ""}, "id"),
        ({"id": "x" * 101}, "id"),
        ({"job_timeout": -2 * SECOND}, "job_timeout"),
        ({"job_timeout": timedelta(0)}, "job_timeout"),
        ({"job_stuck_threshold": -SECOND}, "job_stuck_threshold"),
        ({"soft_stop_timeout": -SECOND}, "soft_stop_timeout"),
        ({"reindexer_timeout": -2 * SECOND}, "reindexer_timeout"),
        ({"job_cleaner_timeout": timedelta(0)}, "job_cleaner_timeout"),
        ({"rescue_stuck_jobs_after": -SECOND}, "rescue_stuck_jobs_after"),
        ({"rescue_stuck_jobs_after": SECOND}, "shorter than job_timeout"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": "25"}, "max_attempts"),
        ({"threads": 0}, "threads"),
        ({"job_log_bytes": 0}, "job_log_bytes"),
        ({"job_log_total_bytes": 65 * 1024 * 1024}, "job_log_total_bytes"),
        ({"periodic_jobs": [object()], "leader_election_disabled": True}, "periodic_jobs"),
        ({"schema": "no schema"}, "schema"),
        ({"schema": "x" * 47}, "schema"),
        ({"queues": {"default": ONE}}, "workers"),
        ({"queues": {"No": ONE}, "workers": workers()}, "'No' is not a valid queue name"),
        ({"queues": {"default": 5}, "workers": workers()}, "QueueConfig"),
        (
            {
                "queues": {"default": QueueConfig(max_workers=1, fetch_cooldown=2 * SECOND)},
                "workers": workers(),
            },
            "'default'",
        ),
        ({"workers": workers("no kind")}, "'no kind' is not a job kind"),
        ({"workers": workers("x")}, "job kind"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClientConfig(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_workers": 0},
        {"max_workers": 10_001},
        {"max_workers": 1.5},
        {"max_workers": 1, "fetch_cooldown": timedelta(0)},
        {"max_workers": 1, "fetch_poll_interval": -SECOND},
    ],
)
def test_queue_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=list(settings)[-1]):
        QueueConfig(**settings)


def test_settings_that_can_be() -> None:
    config = ClientConfig(
        job_timeout=NO_LIMIT,
        completed_job_retention_period=NO_LIMIT,
        reindexer_timeout=NO_LIMIT,
        workers=workers("any kind"),
        skip_kind_validation=True,
    )
    assert (
        replace(config, queues={"a": QueueConfig(max_workers=10_000)}).queues["a"].max_workers
        == 10_000
    )


@pytest.mark.parametrize(
    ("settings", "hours"),
    [
        ({}, 1),
        ({"job_timeout": NO_LIMIT}, 1),
        ({"job_timeout": timedelta(hours=2)}, 3),
        ({"rescue_stuck_jobs_after": timedelta(hours=5)}, 5),
    ],
)
def test_when_jobs_are_rescued(settings: dict[str, Any], hours: int) -> None:
    assert ClientConfig(**settings).rescue_after == timedelta(hours=hours)


def test_queue_names() -> None:
    for name in ("default", "a", "9", "a_b-c|d", "x" * 64):
        assert is_queue_name(name), name
    for name in ("", "x" * 65, "A", "a__b", "_a", "a-", "a b", "a\n", "é", "a" * 63 + "!"):
        assert not is_queue_name(name), name


def test_kinds() -> None:
    for name in ("task", "Mail.Send:v2/[x]<y>+·", "_x"):
        assert is_kind(name), name
    for name in ("x", "", "a,b", "-a", "a b", "ab\n", "éé", "x" * 128):
        assert not is_kind(name), name


@dataclass
class Mail:
    """Args with a past."""

    kind: ClassVar[str] = "mail"
    kind_aliases: ClassVar[Sequence[str]] = ("send_mail", "email")


class MailWorker(Worker[Mail]):
    """Of its own kind."""

    async def work(self, job: Job[Mail]) -> None: ...


def test_workers_by_kind_and_alias() -> None:
    found = Workers()
    found.add(MailWorker())
    found.work(Task, timeout=SECOND)(print)
    assert found.kinds == ("mail", "send_mail", "email", "task")
    mail, task = found.get("email"), found.get("task")
    assert mail is not None
    assert task is not None
    assert (mail.kind, mail.args_type, mail.is_async) == ("email", Mail, True)
    assert (task.args_type, task.is_async, task.worker.timeout) == (Task, False, SECOND)
    assert found.get("other") is None


def test_decorated_function_stays_what_it_is() -> None:
    def function(job: Job[Task]) -> None: ...

    assert Workers().work(Task)(function) is function


def annotated(job: Job[Task]) -> None: ...


def annotated_by_name(job: riverui.Job[Task]) -> None: ...


def untold(job: Any) -> None: ...


def nothing() -> None: ...


def unknown(job: Job[Nowhere]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [annotated, annotated_by_name])
def test_the_annotation_decides_which_jobs_a_function_works(function: Any) -> None:
    bare, called, limited = Workers(), Workers(), Workers()
    assert bare.work(function) is function
    assert called.work()(function) is function
    assert limited.work(timeout=SECOND)(function) is function
    for found, limit in ((bare, None), (called, None), (limited, SECOND)):
        unit = found.get("task")
        assert unit is not None
        assert unit.args_type is Task
        assert unit.worker.timeout == limit


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            untold,
            (
                r"untold does not say which jobs it works: annotate it as `def untold\(job:"
                r" Job\[ArgsType"
            ),
        ),
        (nothing, r"write `@workers.work\(ArgsType\)`"),
        (unknown, "name 'Nowhere' is not defined"),
        ("sort", "not a function that can work jobs"),
    ],
)
def test_a_function_that_does_not_say_which_jobs_it_works_is_refused_at_once(
    function: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Workers().work(function)


class Calling:
    """An object that is called like a coroutine function."""

    async def __call__(self, job: Job[Task]) -> None: ...


def test_objects_may_work_too() -> None:
    found = Workers()
    found.work(Task)(Calling())
    unit = found.get("task")
    assert unit is not None
    assert unit.is_async


def test_kind_through_generic_classes() -> None:
    from typing import Generic, TypeVar

    from riverui.engine.work.worker import A

    other = TypeVar("other")

    class Logged(Worker[A], Generic[A]): ...

    class Tagged(Logged[A], Generic[other, A]): ...

    class Real(Tagged[int, Mail]): ...

    found = Workers()
    found.add(Real())
    assert "mail" in found.kinds


def test_workers_that_cannot_be_added() -> None:
    found = Workers()
    found.add(MailWorker())
    before = found.kinds
    with pytest.raises(ConfigError, match="'mail' already has a worker"):
        found.add(MailWorker())

    @dataclass
    class Alias:
        kind: ClassVar[str] = "new"
        kind_aliases: ClassVar[Sequence[str]] = ("newer", "email")

    with pytest.raises(ConfigError, match="'email'"):
        found.work(Alias)(print)
    with pytest.raises(ConfigError, match="does not say which jobs"):
        found.add(type("Plain", (Worker,), {})())
    with pytest.raises(ConfigError, match="is not a Worker"):
        found.add(print)  # type: ignore[arg-type]
    assert found.kinds == before
    found.add(type("Plain", (Worker,), {})(), args_type=Task)


def test_client_takes_a_driver(database_url: str) -> None:
    driver = connect(database_url, schema="mine")
    assert Client(driver).driver is driver
    assert Client(driver, ClientConfig(schema="mine")).driver is driver
    with pytest.raises(ConfigError, match="schema"):
        Client(driver, ClientConfig(schema="yours"))
    with pytest.raises(ConfigError, match="pool"):
        Client(object())  # type: ignore[arg-type]
