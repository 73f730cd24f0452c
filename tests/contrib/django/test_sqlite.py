"""A Django project on SQLite: its tables, its jobs, its worker, its tests."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from riverui import connect
from riverui.storage.migrations import migrate
from tests.contrib.django.conftest import RunDjango

_NOTES = """
import os, signal
from dataclasses import dataclass
from typing import ClassVar
from riverui.contrib.django import workers
from riverui.contrib.django.models import Job

@dataclass
class Note:
    kind: ClassVar[str] = "note"
    text: str

@workers.work
def note(job: riverui.Job[Note]) -> None:
    if job.args.text == "fails":
        raise ValueError("no")
    if job.args.text == "stops":
        os.kill(os.getpid(), signal.SIGTERM)
"""


def tables(path: Path) -> list[tuple[str, str]]:
    """Return the SQL of River's tables and indexes."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "select name, sql from sqlite_master where name glob 'river*' order by name"
        ).fetchall()
        found += connection.execute(
            "select line, version from river_migration order by line, version"
        )
    return [(name, re.sub(r"\s+", " ", str(sql))) for name, sql in found]


async def test_the_tables_are_those_of_migrate_up(tmp_path: Path, run_django: RunDjango) -> None:
    program = """
def all():
    return rows("select name from sqlite_master where name glob 'river*'")

call_command("migrate", verbosity=0)
call_command("migrate", "riverui", "zero", verbosity=0)
print(all())
call_command("migrate", "riverui", "0001", verbosity=0)
print(rows("select line, max(version) from river_migration group by line"))
call_command("migrate", verbosity=0)
call_command("migrate", "riverui", "0003", verbosity=0)
call_command("migrate", verbosity=0)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
call_command("check", databases=["default"])
"""
    made, shown, wanted = (tmp_path / name for name in ("the site?.db", "shown.db", "wanted.db"))
    lines = run_django(program, f"sqlite:///{made}")
    assert lines == ["[]", "[('main', 5)]", "System check identified no issues (0 silenced)."]
    program = """
from io import StringIO
sql = StringIO()
for name in ("0001", "0002", "0003", "0004", "0005"):
    call_command("sqlmigrate", "riverui", name, stdout=sql)
connection.connection.executescript(sql.getvalue())
"""
    run_django(program, f"sqlite:///{shown}")
    driver = connect(f"sqlite:///{wanted}")
    for line in ("main", "riverui"):
        await migrate(driver, line=line)
    await driver.close()
    assert tables(made) == tables(shown) == tables(wanted)


def test_jobs_are_part_of_the_transaction_and_worked(tmp_path: Path, run_django: RunDjango) -> None:
    url = f"sqlite:///{tmp_path / 'site.db'}"
    program = f"""{_NOTES}
call_command("migrate", verbosity=0)
with transaction.atomic():
    river.insert(Note("kept"), tags=["abc"])
    river.insert(Note("fails"))
try:
    with transaction.atomic():
        river.insert_many([Note("lost")])
        raise ValueError
except ValueError:
    pass
found = Job.objects.get(args__text="kept")
print(found.args, found.tags, found.errors, found.attempted_by, found.created_at.tzinfo)
river.insert(Note("stops"))
print(*Job.objects.values_list("args__text", flat=True).order_by("id"))

from riverui.contrib.django.management.commands.riverui_worker import Command
try:
    Command().run_from_argv(["manage.py", "riverui_worker"])
except SystemExit as ended:
    assert not ended.code
for job in Job.objects.order_by("id"):
    told = [error["error"] for error in job.errors or ()]
    print(job.finalized_at is not None, told, len(job.attempted_by))
"""
    lines = run_django(program, url, RIVERUI={"QUEUES": {"default": 1}})
    assert lines[:2] + lines[-3:] == [
        "{'text': 'kept'} ['abc'] None None UTC",
        "kept fails stops",
        "True [] 1",
        "False ['ValueError: no'] 1",
        "True [] 1",
    ]


def test_a_project_s_tests_in_memory(tmp_path: Path, run_django: RunDjango) -> None:
    """In a database that Django's test runner makes."""
    program = f"""{_NOTES}
import unittest
from django.test import RequestFactory, TestCase, TransactionTestCase
from django.test.runner import DiscoverRunner
from riverui.contrib.django.testing import require_inserted, work_jobs
from riverui.contrib.django.views import dashboard

class InTransaction(TestCase):
    def test_fails_and_succeeds(self):
        river.insert_many([Note("fails"), Note("kept")])
        told = [result.event.value for result in work_jobs(raise_errors=False)]
        self.assertEqual(told, ["job_failed", "job_completed"])

class Committed(TransactionTestCase):
    def test_first(self):
        self.assertEqual(Job.objects.count(), 0)
        river.insert(Note("kept"))
        self.assertEqual(require_inserted(Note).args.text, "kept")

    test_second = test_first

    def test_the_dashboard_needs_a_file(self):
        with self.assertRaisesMessage(riverui.errors.ConfigError, "a database in memory"):
            dashboard(RequestFactory().get("/static/app.css"), "static/app.css")

suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
runner = DiscoverRunner(verbosity=0)
runner.setup_test_environment()
old = runner.setup_databases()
print(connection.settings_dict["NAME"])
print(runner.run_suite(suite).wasSuccessful())
runner.teardown_databases(old)
"""
    # Django empties tables only if there are some of its own.
    apps = ["django.contrib.contenttypes"]
    lines = run_django(program, f"sqlite:///{tmp_path / 'site.db'}", apps=apps)
    assert lines == ["file:memorydb_default?mode=memory&cache=shared", "True"]


def test_the_dashboard(tmp_path: Path, run_django: RunDjango) -> None:
    program = f"""{_NOTES}
from django.contrib.auth.models import User
from django.test import Client
from django.urls import include, path

urlpatterns += [path("river/", include("riverui.contrib.django.urls"))]
call_command("migrate", verbosity=0)
job = river.insert(Note("hello")).job
client = Client(HTTP_SEC_FETCH_SITE="same-origin")
client.force_login(User.objects.create_superuser("ann"))
for page in ("", "jobs", f"jobs/{{job.id}}", "queues/default"):
    found = client.get(f"/river/{{page}}")
    print(found.status_code, "note" in b"".join(found).decode())
done = client.post(f"/river/jobs/cancel", f"ids={{job.id}}",
    content_type="application/x-www-form-urlencoded")
print(done.status_code, Job.objects.get().state)
"""
    apps = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
    lines = run_django(program, f"sqlite:///{tmp_path / 'site.db'}", apps=apps)
    assert lines == ["200 True", "200 True", "200 True", "200 True", "303 cancelled"]
