"""Surround code with what it finds inside a job, for tests that call it directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.stored_json import read_object
from riverui.engine.args.job_args import encode, kind_of
from riverui.engine.client import Client
from riverui.engine.work import attempt as at_work
from riverui.engine.work.worker import Job
from riverui.testing.working import Slot

if TYPE_CHECKING:
    from riverui.engine.work.attempt import Attempt


class WorkContext:
    """What surrounds a job's code that a test calls directly, and what that code set."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def job(self) -> Job[Any]:
        """Return the job that `current_job()` returns, to be handed to the code."""
        assert self._attempt.job is not None
        return self._attempt.job

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return what was set so far (`metadata_set`), the output (`record_output`) under the key
        `output`.
        """
        return read_object(self._attempt.metadata())


@contextmanager
def work_context(client: Client, args: object = None) -> Iterator[WorkContext]:
    """Surround code with what it finds inside a job, for tests that call it directly: River's
    WorkContext.

    `client_from_context()` gives `client`, `current_job()` a first attempt at a job with `args`.
    Nothing is written to the database but what the code writes itself.
    """
    now = client.clock()
    row = JobRow(
        id=1,
        state=JobState.RUNNING,
        attempt=1,
        max_attempts=client.config.max_attempts,
        attempted_at=now,
        created_at=now,
        finalized_at=None,
        scheduled_at=now,
        priority=1,
        args="{}" if args is None else encode(args),
        attempted_by=(client.id,),
        errors=(),
        kind="" if args is None else kind_of(args),
        metadata="{}",
        queue="default",
        tags=(),
        unique_key=None,
        unique_states=None,
    )
    attempt = at_work.Attempt(row, None, Slot())
    attempt.job = Job(row, args)
    attempt_set, client_set = at_work.running.set(attempt), at_work.client.set(client)
    try:
        yield WorkContext(attempt)
    finally:
        attempt.done = True
        at_work.running.reset(attempt_set)
        at_work.client.reset(client_set)
