"""Inserting, the settings, and the tests of a Django project."""

from __future__ import annotations

import pytest

from tests.contrib.django.conftest import RunDjango, database, django_process

_JOBS = """
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from riverui import Job as AtWork, JobCancel, JobSnooze
from riverui.contrib.django import workers
from riverui.contrib.django.models import Job

@dataclass
class Note:
    kind: ClassVar[str] = "note"
    text: str = ""
"""


@pytest.mark.parametrize("psycopg2", [False, True])
def test_jobs_come_with_the_rows_or_not_at_all(
    database_url: str, run_django: RunDjango, psycopg2: bool
) -> None:
    program = f"""{_JOBS}
import asyncio
from django.core.exceptions import SynchronousOnlyOperation
with transaction.atomic():
    inserted = river.insert(Note("kept"), queue="mail", delay=timedelta(hours=1))
try:
    with transaction.atomic():
        river.insert_many([Note("lost"), riverui.InsertManyParams(Note("lost too"), priority=2)])
        print(Job.objects.filter(kind="note").count())
        raise ValueError
except ValueError:
    pass
found = Job.objects.get()
print(found, found.queue, found.state, found.args, found.tags, found.errors)
asyncio.run(river.ainsert(Note("async"), tags=["abc"]))
asyncio.run(river.ainsert_many([Note("async too")]))
async def wrong():
    river.client.insert(Note("lost"))
try:
    asyncio.run(wrong())
except SynchronousOnlyOperation as error:
    print(error)
print(*Job.objects.filter(state="available").values_list("args__text", flat=True).order_by("id"))
with transaction.atomic():
    try:
        river.client.job_get(99)
    except riverui.errors.NotFound as error:
        print(error)
    river.client.job_cancel(inserted.job.id)
print(river.client.job_get(inserted.job.id).state.value)
try:
    with transaction.atomic():
        river.insert(Note("before"))
        try:
            with connection.cursor() as cursor:
                cursor.execute("alter table river_job rename to elsewhere")
            river.insert(Note("fails"))
        except riverui.errors.DatabaseError as error:
            print(type(error).__name__)
        Job.objects.count()
except transaction.TransactionManagementError as error:
    print("the transaction is broken")
print(Job.objects.filter(args__text="before").count())
for attempt in (found.save, found.delete):
    try:
        attempt()
    except TypeError:
        print("read only")
"""
    lines = run_django(program, database_url, psycopg2=psycopg2)
    assert lines == [
        "3",
        "note 1 mail scheduled {'text': 'kept'} [] None",
        "Django's connection cannot be used in asynchronous code: await ainsert(args), or call this"
        " by sync_to_async.",
        "async async too",
        "Job not found: 99.",
        "cancelled",
        "SchemaMissing",
        "the transaction is broken",
        "0",
        "read only",
        "read only",
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"QUEUE": {}}, "there is no setting 'QUEUE'; did you mean 'QUEUES'?\n"),
        ({"DATABASE": "other"}, "DATABASE: 'other' is not in DATABASES: 'default', 'lite'"),
        ({"DATABASE": "lite", "SCHEMA": "jobs"}, "SCHEMA: SQLite has no schemas"),
        ({"SCHEMA": "a.b"}, "SCHEMA: The schema name may hold only letters"),
        ({"QUEUES": {"mail": "x"}}, "QUEUES: 'mail': max_workers"),
        ({"QUEUES": {"mail": {"workers": 3}}}, "QUEUES: 'mail': "),
        ({"TASKS_MODULES": "tasks"}, "TASKS_MODULES: give a list"),
        (
            {"OPTIONS": {"job_timout": 3}},
            "OPTIONS: there is no setting 'job_timout'; did you mean 'job_timeout'?\n",
        ),
        ({"OPTIONS": {"retry_policy": "no.such"}}, "OPTIONS: retry_policy: No module named 'no'"),
        ({"OPTIONS": {"max_attempts": 0}}, "OPTIONS: max_attempts"),
        (
            {"OPTIONS": {"job_timeout": "30"}},
            "OPTIONS: job_timeout: a text is the dotted path of a value, and '30' is none: give the"
            " value itself, such as timedelta(seconds=30)\n",
        ),
        (
            {"API_TOKENS": f"ci:{'0' * 64}:jobs.canel"},
            "API_TOKENS: unknown right 'jobs.canel': use all, read, or any of",
        ),
        ({"OPTIONS": {"periodic_jobs": "no.such"}}, "OPTIONS: periodic_jobs: No module named"),
        ({"DASHBOARD": {"env_color": "pink"}}, "DASHBOARD: env_color is 'pink'"),
        ({"DASHBOARD_ACCESS": "no.such"}, "DASHBOARD_ACCESS: No module named 'no'"),
        ([], "must be a dict"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_in_words(settings: object, words: str) -> None:
    """By `manage.py check`, without a traceback and without a database."""
    url = "postgresql://nobody@/none?host=/nowhere"
    databases = {
        "default": database(url),
        "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    }
    done = django_process("call_command('check')", url, DATABASES=databases, RIVERUI=settings)
    assert done.returncode == 1
    assert "(riverui.E001) RIVERUI" in done.stderr
    assert words in done.stderr


def test_commands_refuse_wrong_settings_in_one_line() -> None:
    program = """
from riverui.contrib.django.management.commands.riverui_worker import Command
Command().run_from_argv(["manage.py", "riverui_worker", "--settings", "x"])
"""
    url = "postgresql://nobody@/none?host=/nowhere"
    for wrong in ({"DATABASE": "other"}, {"QUEUES": {"mail": "x"}}):
        done = django_process(program, url, RIVERUI=wrong)
        told = [line for line in done.stderr.splitlines() if "riverui: " in line]
        assert (done.returncode, len(told)) == (2, 1), done.stderr
        assert "Traceback" not in done.stderr


def test_settings_reach_clients(database_url: str, run_django: RunDjango) -> None:
    program = f"""{_JOBS}
def soon(job):
    return None
sys.modules["project"] = sys.modules["__main__"]
client = river.worker_client()
config = client.config
print({{name: queue.max_workers for name, queue in config.queues.items()}}, config.max_attempts)
print(config.retry_policy is soon, config.queues["slow"].fetch_poll_interval, config.workers)
print(river.client.config.queues, river.client.config.max_attempts)
"""
    settings = {
        "QUEUES": {"default": 4, "slow": {"max_workers": 1}},
        "OPTIONS": {"max_attempts": 5, "retry_policy": "project.soon"},
    }
    lines = run_django(program, database_url, RIVERUI=settings)
    assert lines == ["{'default': 4, 'slow': 1} 5", "True None <Workers: none>", "{} 5"]


def test_the_worker_keeps_the_log_handlers_of_the_project(
    database_url: str, run_django: RunDjango
) -> None:
    program = """
import logging
from riverui.contrib.django.client import command_client
logging.basicConfig(force=True, format="riverui's %(message)s", stream=sys.stdout)
log = logging.getLogger("riverui.engine")
command_client()
log.warning("told")
"""
    own = {
        "version": 1,
        "formatters": {"own": {"format": "own %(message)s"}},
        "handlers": {
            "own": {
                "class": "logging.StreamHandler",
                "formatter": "own",
                "stream": "ext://sys.stdout",
            }
        },
        "root": {"handlers": ["own"], "level": "INFO"},
    }
    assert run_django(program, database_url, LOGGING=own)[-1] == "own told"
    own.pop("root")
    assert run_django(program, database_url, LOGGING=own)[-1] == "riverui's told"


@pytest.mark.long
def test_the_worker_tells_what_django_logs_once(database_url: str) -> None:
    program = """
import logging
from riverui.contrib.django.client import command_client
logging.basicConfig(force=True, format="riverui's %(message)s", stream=sys.stdout)
command_client()
logging.getLogger("django.tasks").warning("told")
"""
    done = django_process(program, database_url, DEBUG=True)
    assert done.returncode == 0, done.stderr
    told = [line for line in (done.stdout + done.stderr).splitlines() if "told" in line]
    assert told == ["riverui's told"]
    own = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"own": {"class": "logging.StreamHandler"}},
        "loggers": {"django": {"handlers": ["own"], "propagate": False}},
    }
    done = django_process(program, database_url, DEBUG=True, LOGGING=own)
    assert done.returncode == 0, done.stderr
    told = [line for line in (done.stdout + done.stderr).splitlines() if "told" in line]
    assert told == ["told"], "the project's own handlers are left alone"


def test_how_tests_work_jobs(database_url: str, run_django: RunDjango) -> None:
    program = f"""{_JOBS}
from asgiref.sync import sync_to_async
from riverui.contrib.django.testing import (
    Expected, require_inserted, require_many_inserted, require_not_inserted, work_jobs,
)

def at_once(job):
    return datetime.now(UTC) + timedelta(milliseconds=1)

sys.modules["project"] = sys.modules["__main__"]

@dataclass
class Ask:
    kind: ClassVar[str] = "ask"
    what: str

@workers.work
def note(job: AtWork[Note]):
    river.insert(Ask("the database"), riverui.InsertOpts(queue="other"))
    riverui.record_output(job.args.text)

@workers.work
async def ask(job: AtWork[Ask]):
    match job.args.what:
        case "the database":
            riverui.record_output(await sync_to_async(rows)("select count(*) from river_job"))
        case "nonsense":
            await sync_to_async(rows)("select nonsense")
        case "later":
            raise JobSnooze(timedelta(hours=1))
        case "never":
            raise JobCancel("no")

def told(results):
    return [(result.event.value, result.job.output, str(result.error)[:20]) for result in results]

for open_transaction in (transaction.atomic, None):
    if open_transaction:
        block = open_transaction()
        block.__enter__()
    river.insert(Note("hello"))
    river.insert(Note("another day"), delay=timedelta(days=1))
    river.insert(riverui.JsonArgs("unknown", {{}}))
    require_not_inserted(Ask)
    require_not_inserted(Note("hello"), queue="mail")
    require_many_inserted([Note("hello"), Expected(Note("another day"), state="scheduled")])
    try:
        require_inserted(Ask)
    except AssertionError as error:
        print(error)
    print(told(work_jobs()))
    print(require_inserted(Ask("the database"), queue="other").args.what)
    for what in ("nonsense", "later", "never"):
        river.insert(Ask(what))
    print(told(work_jobs(raise_errors=False)))
    print(rows("select 1"))
    river.insert(Ask("nonsense"))
    print(told(work_jobs(queues=["other"])), told(work_jobs(kinds=["note"])))
    try:
        work_jobs()
    except django.db.Error as error:
        print(type(error).__name__)
    if open_transaction:
        transaction.set_rollback(True)
        block.__exit__(None, None, None)
        print(Job.objects.count())
"""
    # What fails is due again at once.
    settings = {"OPTIONS": {"retry_policy": "project.at_once"}}
    lines = run_django(program, database_url, RIVERUI=settings)
    each = [
        "River: no job of kind 'ask' was inserted.",
        "[('job_completed', 'hello', 'None'), ('job_completed', [[4]], 'None')]",
        "the database",
        "[('job_failed', None, 'column \"nonsense\" do'), ('job_snoozed', None, 'None'),"
        " ('job_cancelled', None, 'None')]",
        "[(1,)]",
        "[] []",
        "ProgrammingError",
    ]
    assert lines == [*each, "0", *each]


@pytest.mark.long
def test_a_project_whose_tests_do_without_migrations(
    empty_database_url: str, run_django: RunDjango
) -> None:
    """MIGRATION_MODULES = {{"riverui": None}}: the tables are there all the same."""
    program = f"""{_JOBS}
from django.test.utils import setup_test_environment
setup_test_environment()
call_command("migrate", run_syncdb=True, verbosity=0)
river.insert(Note())
print(rows("select line, max(version) from river_migration group by line order by line"))
print(Job.objects.count())
call_command("flush", interactive=False, verbosity=0)
print(Job.objects.count())
"""
    lines = run_django(
        program,
        empty_database_url,
        apps=["django.contrib.contenttypes"],
        MIGRATION_MODULES={"riverui": None},
    )
    assert lines == ["[('main', 8), ('riverui', 17)]", "1", "0"]
