"""Django's own tasks, worked as River jobs: where Django has them, from 6.0 on."""

from __future__ import annotations

from tests.contrib.django.conftest import RunDjango

TASKS = {
    "default": {
        "BACKEND": "riverui.contrib.django.backend.RiverBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"max_attempts": 2},
    }
}

_TASKS = """
import asyncio
from datetime import timedelta
from django.tasks import task, signals
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.utils import timezone
from riverui.contrib.django.models import Job
from riverui.contrib.django.testing import work_jobs

# Tasks are found by their modules' names.
import types
module = sys.modules["shop_tasks"] = types.ModuleType("shop_tasks")
exec('''
from django.tasks import task

@task
def add(a, b=0):
    return a + b

@task(queue_name="mail", priority=7, takes_context=True)
async def attempt(context, name):
    return [name, context.attempt, context.task_result.id]

class Odd(Exception):
    pass

@task
def fail():
    raise Odd("never")
''', module.__dict__)
add, attempt, fail = module.add, module.attempt, module.fail
heard = []
for name in ("task_enqueued", "task_started", "task_finished"):
    def hear(sender, task_result, name=name, **given):
        heard.append((name[5:], task_result.task.name, task_result.status.value))
    getattr(signals, name).connect(hear, weak=False)
"""


def test_tasks_are_jobs(database_url: str, run_django: RunDjango) -> None:
    program = f"""{_TASKS}
with transaction.atomic():
    result = add.enqueue(3, b=4)
try:
    with transaction.atomic():
        add.enqueue(1)
        raise ValueError
except ValueError:
    pass
job = Job.objects.get()
print(job.kind, job.queue, job.priority, job.max_attempts, job.args)
print(result.status.value, result.args, result.kwargs, result.attempts)
work_jobs()
result.refresh()
print(result.status.value, result.return_value, result.attempts, result.is_finished)
print(add.get_result(result.id).return_value)
other = asyncio.run(attempt.aenqueue("ann"))
print(Job.objects.get(id=other.id).queue, Job.objects.get(id=other.id).priority)
work_jobs()
print(asyncio.run(attempt.aget_result(other.id)).return_value == ["ann", 1, other.id])
later = add.using(run_after=timezone.now() + timedelta(hours=1), priority=-60).enqueue(1)
print(Job.objects.get(id=later.id).state, Job.objects.get(id=later.id).priority)
for wrong in ("99", "x"):
    try:
        add.get_result(wrong)
    except TaskResultDoesNotExist:
        print("gone")
try:
    add.using(queue_name="nowhere")
except InvalidTask:
    print("invalid")
print(*heard)
"""
    lines = run_django(program, database_url, TASKS=TASKS)
    assert lines == [
        "shop_tasks.add default 2 2 {'args': [3], 'kwargs': {'b': 4}}",
        "READY [3] {'b': 4} 0",
        "SUCCESSFUL 7 1 True",
        "7",
        "mail 1",
        "True",
        "scheduled 4",
        "gone",
        "gone",
        "invalid",
        "('enqueued', 'add', 'READY') ('enqueued', 'add', 'READY') ('started', 'add', 'RUNNING')"
        " ('finished', 'add', 'SUCCESSFUL') ('enqueued', 'attempt', 'READY')"
        " ('started', 'attempt', 'RUNNING') ('finished', 'attempt', 'SUCCESSFUL')"
        " ('enqueued', 'add', 'READY')",
    ]


def test_tasks_that_fail(database_url: str, run_django: RunDjango) -> None:
    program = f"""{_TASKS}
result = fail.enqueue()
for _ in range(2):
    print([each.event.value for each in work_jobs(raise_errors=False)])
    result.refresh()
    print(result.status.value, result.attempts, [each.exception_class for each in result.errors])
    river.client.job_retry(int(result.id))
print("Odd: never" in result.errors[0].traceback)
"""
    lines = run_django(program, database_url, TASKS=TASKS)
    odd = "<class 'shop_tasks.Odd'>"
    assert lines == [
        "['job_failed']",
        f"READY 1 [{odd}]",
        "['job_failed']",
        f"FAILED 2 [{odd}, {odd}]",
        "True",
    ]


def test_settings_are_checked(database_url: str, run_django: RunDjango) -> None:
    program = """
from django.tasks import default_task_backend
print(*(each.id for each in default_task_backend.check()))
"""
    tasks = {"default": {**TASKS["default"], "QUEUES": ["a b"], "OPTIONS": {"attempts": 3}}}
    assert run_django(program, database_url, TASKS=tasks) == ["riverui.E002 riverui.E003"]
    assert run_django(program, database_url, TASKS=TASKS) == ["riverui.W002"]
