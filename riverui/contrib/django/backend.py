"""A backend for Django's tasks (`django.tasks`, from Django 6.0 on), which become River jobs.

    TASKS = {"default": {"BACKEND": "riverui.contrib.django.backend.RiverBackend"}}

A task's kind is its dotted path. Its return value is the job's output.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, ClassVar

from django.core.checks import Error, Warning as CheckWarning
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.utils import timezone
from django.utils.json import normalize_json
from django.utils.module_loading import import_string

from riverui.contrib.django.client import insert, sync_client, workers
from riverui.contrib.django.config import river_settings
from riverui.domain.jobs import JobRow, JobState
from riverui.domain.values import is_queue_name
from riverui.engine.work.context import metadata_set, record_output
from riverui.engine.work.worker import Job, Worker
from riverui.errors import ConfigError, NotFound

_ERRORS = "django_errors"
"""The metadata key with the classes of the exceptions of a job's attempts."""
_MAX_ERRORS = 100
"""Maximum classes that are stored: four times River's default of attempts."""

_OPTIONS = frozenset({"max_attempts", "tags"})
"""Allowed keys of OPTIONS, which apply to all jobs of a backend."""


class RiverTask(Task):  # type: ignore[misc]  # Django comes without types
    """A task that is added to the project's workers when it is defined."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if workers.get(self.module_path) is None:
            made: type[_TaskWorker] = _AsyncTask if iscoroutinefunction(self.func) else _TaskWorker
            workers.add(made(self), args_type=_args_type(self))


class RiverBackend(BaseTaskBackend):  # type: ignore[misc]  # Django comes without types
    """Inserts Django's tasks as River jobs, inside the open transaction."""

    task_class = RiverTask
    supports_async_task = True
    supports_defer = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Insert a job that calls the task."""
        self.validate_task(task)
        inserted = insert(
            _args_type(task)(normalize_json(list(args)), normalize_json(dict(kwargs))),
            priority=_priority(task.priority),
            queue=task.queue_name,
            scheduled_at=task.run_after,
            **self.options,
        )
        result = _result(task, inserted.job)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return a task's result; raise TaskResultDoesNotExist if its job does not exist."""
        try:
            row = sync_client().job_get(int(result_id))
            task = import_string(row.kind)
        except (ImportError, NotFound, ValueError) as error:
            raise TaskResultDoesNotExist(result_id) from error
        if not isinstance(task, Task):
            raise TaskResultDoesNotExist(result_id)
        return _result(task.using(backend=self.alias), row)

    def check(self, **given: object) -> Sequence[Any]:
        """Return the errors in the settings of the backend."""
        found: list[Any] = []
        for option in sorted(set(self.options) - _OPTIONS):
            words = f"TASKS: {self.alias!r}: unknown option {option!r}: use max_attempts or tags"
            found.append(Error(words, id="riverui.E002"))
        try:
            worked = river_settings().queues
        except ConfigError:
            # Reported by the check of these settings.
            return found
        for queue in sorted(self.queues):
            if not is_queue_name(queue):
                words = f"TASKS: {self.alias!r}: {queue!r} is not a valid name of a queue"
                found.append(Error(words, id="riverui.E003"))
            elif queue not in worked:
                words = f"TASKS: {self.alias!r}: RIVERUI has no queue {queue!r}: no client works it"
                found.append(CheckWarning(words, id="riverui.W002"))
        return found


@dataclass
class _Call:
    """The args of a task's job."""

    kind: ClassVar[str]

    args: list[Any]
    kwargs: dict[str, Any]


class _TaskWorker(Worker[Any]):
    """Calls a synchronous task."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def work(self, job: Job[Any]) -> Any:
        """Call the task and record its return value."""
        result = self._started(job)
        try:
            self._returned(result, self.task.func(*self._arguments(result), **job.args.kwargs))
        except Exception as error:
            self._raised(result, job, error)
            raise

    def _started(self, job: Job[Any]) -> Any:
        result = _result(self.task, job.row)
        task_started.send(RiverBackend, task_result=result)
        return result

    def _arguments(self, result: Any) -> Sequence[Any]:
        context = [TaskContext(task_result=result)] if self.task.takes_context else []
        return [*context, *result.args]

    def _returned(self, result: Any, value: Any) -> None:
        found = normalize_json(value)
        if found is not None:
            record_output(found)
        self._finished(result, TaskResultStatus.SUCCESSFUL, found)

    def _raised(self, result: Any, job: Job[Any], error: Exception) -> None:
        kind = type(error)
        before = job.metadata_dict.get(_ERRORS)
        classes = dict(before) if isinstance(before, dict) else {}
        classes[str(job.attempt)] = f"{kind.__module__}.{kind.__qualname__}"
        metadata_set(_ERRORS, dict(list(classes.items())[-_MAX_ERRORS:]))
        self._finished(result, TaskResultStatus.FAILED, None)

    def _finished(self, result: Any, status: Any, value: Any) -> None:
        for name, found in (
            ("status", status),
            ("finished_at", timezone.now()),
            ("_return_value", value),
        ):
            # Frozen, but not for backends.
            object.__setattr__(result, name, found)
        task_finished.send(RiverBackend, task_result=result)


class _AsyncTask(_TaskWorker):
    """Calls an asynchronous task."""

    async def work(self, job: Job[Any]) -> None:
        """Call the task and record its return value."""
        result = self._started(job)
        try:
            called = await self.task.func(*self._arguments(result), **job.args.kwargs)
            self._returned(result, called)
        except Exception as error:
            self._raised(result, job, error)
            raise


def _args_type(task: Any) -> type[_Call]:
    """Return the type of a task's args, which has its kind."""
    return dataclass(type("TaskCall", (_Call,), {"kind": task.module_path}))


def _priority(priority: int) -> int:
    """Return River's priority (1 is the highest) for Django's (100 is the highest)."""
    if priority > 0:
        return 1
    return 2 if priority == 0 else 3 if priority >= -50 else 4


_STATUS = {
    JobState.CANCELLED: TaskResultStatus.FAILED,
    JobState.COMPLETED: TaskResultStatus.SUCCESSFUL,
    JobState.DISCARDED: TaskResultStatus.FAILED,
    JobState.RUNNING: TaskResultStatus.RUNNING,
}
"""All other states are waiting for an attempt."""


def _result(task: Any, row: JobRow) -> Any:
    called = row.args_dict
    classes = row.metadata_dict.get(_ERRORS)
    result = TaskResult(
        task=task,
        id=str(row.id),
        status=_STATUS.get(row.state, TaskResultStatus.READY),
        enqueued_at=row.created_at,
        started_at=row.errors[0].at if row.errors else row.attempted_at,
        finished_at=row.finalized_at,
        last_attempted_at=row.attempted_at,
        args=called.get("args", []),
        kwargs=called.get("kwargs", {}),
        backend=task.backend,
        errors=[
            TaskError(
                exception_class_path=_class_path(classes, error.attempt, error.error),
                traceback=error.trace,
            )
            for error in row.errors
        ],
        worker_ids=list(row.attempted_by),
    )
    object.__setattr__(result, "_return_value", row.output)
    return result


def _class_path(classes: object, attempt: int, words: str) -> str:
    """Return the dotted path of the class of an attempt's exception, if known."""
    found = classes.get(str(attempt)) if isinstance(classes, dict) else None
    if isinstance(found, str):
        return found
    name = words.partition(":")[0]
    known = getattr(builtins, name, None)
    is_error = isinstance(known, type) and issubclass(known, BaseException)
    return f"builtins.{name}" if is_error else "builtins.Exception"
