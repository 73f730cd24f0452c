"""Inserts jobs whose args are JSON text, as a client inserts args of its own types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from riverui.actions.new_jobs import NewJob, NewJobUnique
from riverui.domain.sealed_args import is_sealed
from riverui.engine.args.decoding import parse
from riverui.engine.args.gojson import Unfit
from riverui.engine.args.job_args import JsonText, kind_of, upgrades
from riverui.engine.client import Client
from riverui.engine.insert.insert_methods import only
from riverui.engine.insert.insert_opts import InsertOpts, InsertRequest, UniqueOpts
from riverui.engine.insert.job_builder import JobBuilder
from riverui.engine.work.worker import WorkUnit
from riverui.errors import ArgsError, InsertError, JobRefused
from riverui.storage.interface.engine_params import InsertResult


class JobInserter:
    """Inserts jobs through a client, with its defaults, hooks, middleware and features.

    Args of a kind that the client works are decoded as their type and encoded by it, so that its
    defaults and options apply. Args of other kinds are inserted unchanged; the client need not know
    them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # The dashboard of one program may insert jobs that another works.
        config = replace(client.config, skip_unknown_job_check=True)
        self._builder = JobBuilder(config, client.clock, client.notify_limiter)

    def check(self, job: NewJob) -> None:
        """Raise JobRefused if the job cannot be inserted."""
        self._request(job)

    async def insert(self, job: NewJob) -> InsertResult:
        """Insert a job, or return the existing one with its unique key."""
        request = self._request(job)
        try:
            return only(await self._client.insert_requests([request]))
        except ArgsError as error:
            raise JobRefused(str(error), field="args") from None
        except InsertError as error:
            raise JobRefused(str(error)) from None

    def _request(self, job: NewJob) -> InsertRequest:
        """Return the job as a client would prepare it; JobRefused if it cannot be inserted."""
        # Encrypted args have no type before they are decrypted.
        unit = None if is_sealed(job.args) else self._unit(job.kind)
        try:
            metadata = parse(job.metadata)
            args = JsonText(job.kind, job.args) if unit is None else _typed(unit, job.args)
            request = self._builder.prepare(args, _opts(job, metadata))
            if unit is None:
                request.encoded_args = job.args.strip()
            else:
                _check_kept(unit, job.args, request.encoded_args)
            self._builder.finish(request)
        except ArgsError as error:
            raise JobRefused(str(error), field="args") from None
        except InsertError as error:
            raise JobRefused(str(error)) from None
        except (Unfit, ValueError) as error:
            raise JobRefused(f"The job cannot be written as JSON: {error}.") from None
        except RecursionError:
            raise JobRefused("The args are nested too deeply.", field="args") from None
        return request

    def _unit(self, kind: str) -> WorkUnit | None:
        """Return the worker of a kind; None if there is none, or if the kind is only its alias."""
        workers = self._client.config.workers
        unit = None if workers is None else workers.get(kind)
        return unit if unit is not None and kind_of(unit.args_type) == kind else None


def _typed(unit: WorkUnit, text: str) -> Any:
    """Return the args as the type of the kind's worker; ArgsError if they do not fit."""
    try:
        return unit.decode(text)
    except (ArgsError, RecursionError):
        raise
    except Exception as error:
        # A type may decode its own JSON (`from_json`), and raise any error.
        name = getattr(unit.args_type, "__name__", unit.kind)
        raise ArgsError(f"the args do not fit {name}: {error}") from error


def _check_kept(unit: WorkUnit, given: str, kept: str) -> None:
    """Raise ArgsError for a key that the type has ignored, as it is probably misspelt."""
    cls = unit.args_type
    if hasattr(cls, "from_json") or hasattr(cls, "to_json") or upgrades(cls):
        return
    known = {key.casefold() for key in parse(kept)}
    for key in parse(given):
        if key.casefold() not in known:
            name = getattr(unit.args_type, "__name__", unit.kind)
            raise ArgsError(f"{name} has no field {key[:60]!r}")


def _opts(job: NewJob, metadata: dict[str, Any]) -> InsertOpts:
    return InsertOpts(
        max_attempts=job.max_attempts,
        metadata=metadata,
        priority=job.priority,
        queue=job.queue,
        scheduled_at=job.scheduled_at,
        tags=job.tags,
        unique_opts=None if job.unique is None else _unique_opts(job.unique),
    )


def _unique_opts(unique: NewJobUnique) -> UniqueOpts:
    return UniqueOpts(
        by_args=unique.by_args,
        by_period=unique.by_period,
        by_queue=unique.by_queue,
        by_state=unique.by_state,
    )
