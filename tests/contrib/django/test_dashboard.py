"""The dashboard as a view of Django's: who may see and do what, signing in and out."""

from __future__ import annotations

import re

import pytest

from riverui.contrib.django.access import permission
from riverui.web.auth.rights import RIGHTS
from riverui.web.auth.tokens import new_token
from tests.contrib.django.conftest import RunDjango

APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
]

_DASHBOARD = """
from dataclasses import dataclass
from typing import ClassVar

from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.test.utils import setup_test_environment
from django.urls import include, path
from django.utils.http import urlencode

urlpatterns += [
    path("admin/", admin.site.urls),
    path("ops/river/", include("riverui.contrib.django.urls")),
]
call_command("migrate", verbosity=0)
setup_test_environment()


@dataclass
class Note:
    kind: ClassVar[str] = "note"


def visitor(*permissions, staff=True):
    client = Client()
    user = User.objects.create_user(f"user{User.objects.count()}", is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


def told(response):
    return response.status_code, response.headers.get("Location")

def post(client, path, data, **headers):
    kind = "application/x-www-form-urlencoded"
    return client.post(path, urlencode(data, doseq=True), content_type=kind, **headers)


HERE = {"HTTP_SEC_FETCH_SITE": "same-origin"}
ELSEWHERE = {"HTTP_SEC_FETCH_SITE": "cross-site"}
"""


def test_every_right_comes_with_a_permission() -> None:
    given = {right: permission(right).removeprefix("riverui.") for right in RIGHTS}
    assert set(given.values()) == {
        "view_job",
        "add_job",
        "change_job",
        "delete_job",
        "decrypt_job",
    }
    assert {right for right in given if given[right] == "view_job"} == {
        right for right in RIGHTS if right.endswith(".read")
    }
    assert given["jobs.cancel"] == given["queues.pause"] == "change_job"
    assert given["jobs.insert"] == "add_job"
    assert given["jobs.delete"] == "delete_job"
    assert given["jobs.decrypt"] == "decrypt_job"


def test_who_may_see_and_do_what(empty_database_url: str, run_django: RunDjango) -> None:
    program = f"""{_DASHBOARD}
job = river.insert(Note()).job
print(*told(Client().get("/ops/river/jobs?state=available")))
print(*told(post(Client(), "/ops/river/jobs/cancel", {{"ids": job.id}}, **HERE)))
print(*told(Client().get("/ops/river/api/jobs")))
print(*told(visitor("view_job", staff=False).get("/ops/river/jobs")))
refused = visitor().get("/ops/river/jobs")
print(*told(refused), "riverui.view_job" in refused.text)
print(visitor().get("/ops/river/api/jobs").json()["message"])
reader = visitor("view_job")
page = reader.get("/ops/river/jobs")
print(*told(page), "note" in page.text)
print(*told(post(reader, "/ops/river/jobs/cancel", {{"ids": job.id}}, **HERE)))
worker = visitor("view_job", "change_job")
print(*told(post(worker, "/ops/river/jobs/cancel", {{"ids": job.id}}, **ELSEWHERE)))
strict = Client(enforce_csrf_checks=True)
strict.force_login(User.objects.get(username="user4"))
print(*told(post(strict, "/ops/river/jobs/cancel", {{"ids": job.id}}, **HERE)))
print(river.client.job_get(job.id).state.value)
print(*told(post(worker, "/ops/river/jobs/delete", {{"ids": job.id}}, **HERE)))
style = re.search('href="([^"]+/app.css)"', page.text)[1]
print(*told(Client().get(style)))
"""
    lines = run_django(f"import re\n{program}", empty_database_url, apps=APPS)
    assert lines == [
        "302 /admin/login/?next=%2Fops%2Friver%2Fjobs%3Fstate%3Davailable",
        "302 /admin/login/?next=%2Fops%2Friver%2F",
        "403 None",
        "403 None",
        "403 None True",
        "You may not use this dashboard without the permission riverui.view_job.",
        "200 None True",
        "403 None",
        "403 None",
        "303 /ops/river/jobs",
        "cancelled",
        "403 None",
        "200 None",
    ]


def test_signing_in_and_out(empty_database_url: str, run_django: RunDjango) -> None:
    program = f"""{_DASHBOARD}
User.objects.create_superuser("ann", password="pw")
client = Client()
sign_in, _, query = client.get("/ops/river/queues").headers["Location"].partition("?")
form = {{"username": "ann", "password": "pw", "next": "/ops/river/queues"}}
print(*told(client.post(sign_in, form)))
page = client.get("/ops/river/queues").text
print(">ann<" in page)
where = re.search('class="sign-out" method="post" action="([^"]+)"', page)[1]
print(*told(client.get(where)))
print(*told(client.post(where, **ELSEWHERE)))
print(*told(client.post(where, HTTP_ORIGIN="http://evil.example")))
print(*told(client.get("/ops/river/queues")))
print(*told(client.post(where, HTTP_ORIGIN="http://testserver")))
print(*told(client.get("/ops/river/queues")))
print(*told(client.post(where, **HERE)))
"""
    program = f"import re\n{program}"
    settings = {"LOGIN_URL": "/welcome/", "LOGOUT_REDIRECT_URL": "/bye/"}
    own = run_django(program.replace("sign_in, form", '"/admin/login/", form'), empty_database_url,
        apps=APPS, **settings)  # fmt: skip
    assert own == [
        "302 /ops/river/queues",
        "True",
        "405 None",
        "403 None",
        "403 None",
        "200 None",
        "302 /bye/",
        "302 /welcome/?next=%2Fops%2Friver%2Fqueues",
        "302 /bye/",
    ]


def test_what_a_project_decides_itself(empty_database_url: str, run_django: RunDjango) -> None:
    """DASHBOARD_ACCESS is a function of the request: Access, None, or a response of Django's."""
    program = f"""
import sys
sys.modules["project"] = sys.modules["__main__"]

def access(request):
    from django.http import HttpResponse
    name = request.GET.get("who")
    if name == "odd":
        return HttpResponse("No, no.", status=418)
    return riverui.Access(user=name, rights=frozenset({{"jobs.read"}})) if name else None
{_DASHBOARD}
for who in ("ann", "odd", ""):
    print(*told(Client().get("/ops/river/jobs/1", {{"who": who}})))
print("Sign out" in Client().get("/ops/river/jobs/1?who=ann").text)
"""
    settings = {"DASHBOARD_ACCESS": "project.access", "DASHBOARD": {"env_name": "tests"}}
    lines = run_django(program, empty_database_url, apps=APPS, RIVERUI=settings)
    assert lines == [
        "404 None",
        "418 None",
        "302 /admin/login/?next=%2Fops%2Friver%2Fjobs%2F1%3Fwho%3D",
        "True",
    ]


def test_all_staff_may_do_everything_where_the_settings_say_so(
    empty_database_url: str, run_django: RunDjango
) -> None:
    program = f"""{_DASHBOARD}
for visit in (visitor(), visitor(staff=False)):
    print(*told(visit.get("/ops/river/jobs")))
    print(*told(post(visit, "/ops/river/jobs/cancel", {{"ids": 1}}, **HERE)))
from riverui.contrib.django.access import all_staff
from types import SimpleNamespace
plain = all_staff(SimpleNamespace(user=User.objects.get(username="user0")))
print(plain.user, sorted(riverui.Access().rights - plain.rights))
"""
    settings = {"DASHBOARD_ACCESS": "riverui.contrib.django.access.all_staff"}
    lines = run_django(program, empty_database_url, apps=APPS, RIVERUI=settings)
    assert lines == [
        "200 None",
        "303 /ops/river/jobs",
        "403 None",
        "403 None",
        "user0 ['jobs.decrypt']",
    ]


@pytest.mark.long
def test_programs_with_tokens(empty_database_url: str, run_django: RunDjango) -> None:
    token, line = new_token("deploy", "read")
    program = f"""{_DASHBOARD}
river.insert(Note())
for token in ("{token}", "{token[:-4]}none", ""):
    headers = {{"HTTP_AUTHORIZATION": f"Bearer {{token}}"}} if token else {{}}
    answer = Client().get("/ops/river/api/jobs?state=available", **headers)
    print(answer.status_code, len(answer.json().get("data", [])))
"""
    lines = run_django(program, empty_database_url, apps=APPS, RIVERUI={"API_TOKENS": line})
    assert lines == ["200 1", "401 0", "403 0"]


@pytest.mark.long
def test_the_admin_leads_to_the_dashboard(empty_database_url: str, run_django: RunDjango) -> None:
    program = f"""{_DASHBOARD}
reader = visitor("view_job")
index = reader.get("/admin/").text
print("River jobs" in index, '/admin/riverui/job/"' in index)
print(*told(reader.get("/admin/riverui/job/")))
print("River jobs" in visitor().get("/admin/").text)
del urlpatterns[-1]
from django.urls import clear_url_caches
clear_url_caches()
answer = reader.get("/admin/riverui/job/", follow=True)
print("include riverui.contrib.django.urls" in answer.text)
"""
    lines = run_django(program, empty_database_url, apps=APPS)
    assert lines == ["True True", "302 /ops/river/", "False", "True"]


@pytest.mark.long
def test_long_answers_and_bodies_pass_whole(empty_database_url: str, run_django: RunDjango) -> None:
    """An export of many jobs, and a form that is longer than one read."""
    program = f"""import time
{_DASHBOARD}
river.insert_many([Note()] * 3000)
User.objects.create_superuser("ann", password="pw")
client = Client()
client.force_login(User.objects.get())
answer = client.get("/ops/river/api/jobs/export?format=csv")
print(answer.status_code, answer.headers["Content-Type"], len(answer.content.splitlines()))
ids = [str(id) for id, in rows("select id from river_job order by id")]
form = {{"ids": ids[:500], "x": "y" * 200_000}}
print(*told(post(client, "/ops/river/jobs/cancel", form, **HERE)))
print(*rows("select count(*) from river_job where state = 'cancelled'"))
left = "select count(*) from pg_stat_activity where application_name like 'riverui%%'"
deadline = time.monotonic() + 20
while list(rows(left)) != [(0,)]:
    # A connection that was closed is there a moment longer.
    assert time.monotonic() < deadline, rows(left)
    time.sleep(0.02)
"""
    lines = run_django(program, empty_database_url, apps=APPS)
    assert re.fullmatch(r"200 text/csv; charset=utf-8 3001", lines[0])
    assert lines[1:] == ["303 /ops/river/jobs", "(500,)"]


@pytest.mark.long
def test_nobody_reads_on(database_url: str, run_django: RunDjango) -> None:
    """An answer that is left in the middle, or not even begun, ends what writes it."""
    program = """
import asyncio, threading
from django.test import AsyncRequestFactory, RequestFactory
from riverui.contrib.django.views import answer
from riverui.contrib.wsgi import AppThread

ended = threading.Event()

async def endless(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    try:
        while True:
            await send({"type": "http.response.body", "body": b"more", "more_body": True})
    finally:
        ended.set()

thread = AppThread(endless)

async def read(response):
    return await anext(aiter(response))

for factory in (RequestFactory(), AsyncRequestFactory()):
    for reads in (True, False):
        ended.clear()
        response = answer(thread, factory.get("/x"), "x", None)
        if reads:
            first = asyncio.run(read(response)) if response.is_async else next(iter(response))
            assert first == b"more"
        assert not ended.is_set()
        response.close()
        assert ended.wait(30)
"""
    assert run_django(program, database_url) == []
