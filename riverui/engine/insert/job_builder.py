"""Build rows from job args and options, for every client, by River's precedence, limits and checks
(River's client.go, `insertParamsFromConfigArgsAndOptions`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from riverui.domain.jobs import JobState
from riverui.engine.args import gojson
from riverui.engine.args.gojson import Unfit
from riverui.engine.args.job_args import (
    check_instance,
    check_object,
    encode,
    encoder,
    insert_opts_of,
    insert_opts_vary,
    kind_of,
    retry_of,
    unique_form,
    unwritable,
)
from riverui.engine.args.unique import Uniqueness, unique_args, unique_key, uniqueness
from riverui.engine.config import FETCH_COOLDOWN, ClientConfig
from riverui.engine.insert.checks import (
    checked_max_attempts,
    checked_priority,
    checked_queue,
    checked_scheduled_at,
    checked_tags,
    checked_time,
)
from riverui.engine.insert.insert_opts import (
    InsertOpts,
    InsertRequest,
    SequenceOption,
    params_types,
)
from riverui.errors import InsertError, UnknownJobKind
from riverui.storage.interface.engine_params import JobInsertParams
from riverui.storage.interface.insert_rows import rows_like, unique_rows_like

_MAX_QUEUES = 1_000
"""Queues whose wake-ups are remembered before old ones are dropped: more than programs have, unless
they generate names.
"""


class NotifyLimiter:
    """Allows at most one wake-up per queue in each `cooldown`, as River's clients do.

    A suppressed wake-up is not sent later: the next poll finds such jobs.
    """

    def __init__(
        self, cooldown: timedelta | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cooldown = (cooldown or FETCH_COOLDOWN).total_seconds()
        self._clock = clock
        self._sent: dict[str, float] = {}

    def allow(self, queue: str) -> bool:
        """Return whether to send a wake-up now, which then counts as sent."""
        now = self._clock()
        sent = self._sent.get(queue)
        if sent is not None and now - sent <= self._cooldown:
            return False
        if len(self._sent) >= _MAX_QUEUES:
            # A copy, as other threads of a SyncClient may add to it.
            sent_so_far = list(self._sent.items())
            self._sent = {name: at for name, at in sent_so_far if now - at <= self._cooldown}
        self._sent[queue] = now
        return True

    def take_back(self, queues: Iterable[str]) -> None:
        """Forget wake-ups that were not sent."""
        for queue in queues:
            self._sent.pop(queue, None)


class JobBuilder:
    """Builds rows for one client; it neither calls hooks nor uses the database.

    `prepare` makes a request from args and options, `finish` a row from a request that hooks have
    seen. `rows` does both if no hook sees requests.
    """

    def __init__(
        self,
        config: ClientConfig,
        clock: Callable[[], datetime],
        limiter: NotifyLimiter,
        *,
        enforce_unique: bool = True,
    ) -> None:
        self.config = config
        self.limiter = limiter
        self._clock = clock
        self._enforce_unique = enforce_unique

    def prepare(self, args: object, insert_opts: InsertOpts | None = None) -> InsertRequest:
        """Return one job with all options resolved; ArgsError, InsertError or UnknownJobKind."""
        check_instance(args)
        return self._resolve(args, insert_opts, self._clock()).request

    def finish(self, request: InsertRequest) -> JobInsertParams:
        """Return the row of a request that hooks may have changed; InsertError or ArgsError if
        invalid.
        """
        unique = uniqueness(request.unique_opts) if self._enforce_unique else None
        counted = request.unique_args
        try:
            encoded = check_object(request.encoded_args)
            if unique and unique.by_args and counted is None:
                counted = unique_args(gojson.canonical(encoded), type(request.args), unique.keys)
        except Unfit as unfit:
            raise InsertError(f"the encoded args of the request: {unfit}") from None
        checked = replace(
            request,
            encoded_args=encoded,
            max_attempts=checked_max_attempts(request.max_attempts),
            priority=checked_priority(request.priority),
            queue=checked_queue(request.queue),
            scheduled_at=checked_time(request.scheduled_at),
            state=JobState(request.state),
            tags=list(checked_tags(request.tags)),
            unique_args=counted,
        )
        return _row(checked, unique, _metadata(checked.metadata))

    def rows(self, jobs: Sequence[object]) -> list[JobInsertParams]:
        """Return the rows of args and InsertManyParams; ArgsError, InsertError or
        UnknownJobKind.

        Options are resolved once for all args of a type that are given with the same options.
        """
        now, params = self._clock(), params_types()
        rows: list[JobInsertParams] = []
        instances: set[type] = set()
        more: dict[tuple[type, str, int], _Resolved | Callable[[Any], JobInsertParams]] = {}
        args: object = None
        try:
            for job in jobs:
                args, call = (job.args, job.insert_opts) if isinstance(job, params) else (job, None)
                cls = type(args)
                if cls not in instances:
                    check_instance(args)
                    instances.add(cls)
                # Options are compared by identity, which is safe while the list holds them.
                alike = cls, kind_of(args), id(call)
                make = more.get(alike)
                if make is None:
                    first = self._resolve(args, call, now)
                    rows.append(_row(first.request, first.unique, first.metadata))
                    if not insert_opts_vary(cls):
                        more[alike] = first
                    continue
                if isinstance(make, _Resolved):
                    # Only now, as options may be new objects for each job.
                    make = more[alike] = _more_like(make, encoder(cls))
                rows.append(make(args))
        except (Unfit, RecursionError) as error:
            raise unwritable(args, error) from None
        return rows

    def _resolve(self, args: object, call: InsertOpts | None, now: datetime) -> _Resolved:
        """Resolve the options of the call, the args and the client."""
        kind = kind_of(args)
        self._check_known(kind)
        # The official client's options lack metadata, sequence and pending.
        metadata = getattr(call, "metadata", None) or {}
        text = _metadata(metadata)
        call, own = call or _NONE, insert_opts_of(args) or _NONE
        unique_opts = call.unique_opts
        if (unique := uniqueness(unique_opts)) is None:
            unique_opts = own.unique_opts
            unique = uniqueness(unique_opts)
        if not self._enforce_unique:
            unique_opts = unique = None
        scheduled_at = checked_scheduled_at((call, own), now)
        state = JobState.AVAILABLE if scheduled_at is None else JobState.SCHEDULED
        encoded = encode(args)
        queue = checked_queue(_first(call.queue, own.queue, "default"))
        sequence: SequenceOption | None = getattr(call, "sequence", None)
        sequence = sequence or getattr(own, "sequence", None)
        if sequence is not None:
            sequence.check()
        if getattr(call, "pending", False):
            if sequence is not None:
                raise InsertError("a job of a sequence cannot be inserted as pending")
            state = JobState.PENDING
        try:
            counted = _unique_args(args, encoded, unique)
            if sequence is not None:
                metadata = metadata | sequence.metadata(args, encoded, kind, queue)
                text = _metadata(metadata)
        except Unfit as unfit:
            raise unwritable(args, unfit) from None
        request = InsertRequest(
            args=args,
            kind=kind,
            encoded_args=encoded,
            created_at=now,
            scheduled_at=scheduled_at,
            max_attempts=checked_max_attempts(
                _first(call.max_attempts, own.max_attempts, self._usual_max_attempts(args, kind))
            ),
            metadata=dict(metadata),
            priority=checked_priority(_first(call.priority, own.priority, 1)),
            queue=queue,
            state=state,
            tags=list(checked_tags(_first(call.tags, own.tags, ()))),
            unique_opts=unique_opts,
            unique_args=counted,
        )
        return _Resolved(request, text, unique, sequence)

    def _usual_max_attempts(self, args: object, kind: str) -> int:
        """Return the default of `max_attempts`, for jobs without one in the call or the args."""
        unit = None if self.config.workers is None else self.config.workers.get(kind)
        retry = (unit and unit.retry) or retry_of(type(args)) or self.config.retry
        return (retry and retry.max_attempts) or self.config.max_attempts

    def _check_known(self, kind: str) -> None:
        workers = self.config.workers
        if (
            workers is not None
            and not self.config.skip_unknown_job_check
            and workers.get(kind) is None
        ):
            raise UnknownJobKind(kind)


class _Resolved(NamedTuple):
    """A job with resolved options, before hooks see it."""

    request: InsertRequest
    metadata: str
    """The request's metadata as JSON."""
    unique: Uniqueness | None
    sequence: SequenceOption | None


def available_queues(rows: Iterable[JobInsertParams]) -> list[str]:
    """Return the queues that get an available job, without duplicates."""
    return list(dict.fromkeys([row.queue for row in rows if row.state is JobState.AVAILABLE]))


def _row(request: InsertRequest, unique: Uniqueness | None, metadata: str) -> JobInsertParams:
    """Return the row of a validated request."""
    kind, queue = request.kind, request.queue
    scheduled_at = request.scheduled_at or request.created_at
    key, states = None, 0
    if unique is not None:
        key = unique_key(kind, unique, request.unique_args or "", queue, scheduled_at)
        states = unique.states
    return JobInsertParams(
        kind=kind,
        args=request.encoded_args,
        created_at=request.created_at,
        scheduled_at=scheduled_at,
        state=request.state,
        max_attempts=request.max_attempts,
        metadata=metadata,
        priority=request.priority,
        queue=queue,
        tags=tuple(request.tags),
        unique_key=key,
        unique_states=states,
    )


def _more_like(first: _Resolved, encode: Callable[[Any], str]) -> Callable[[Any], JobInsertParams]:
    """Return a function that makes rows of other args of that type with the same options."""
    request, unique, sequence = first.request, first.unique, first.sequence
    row = _row(request, unique, first.metadata)
    if sequence is not None and not sequence.by_args:
        sequence = None  # The same for all, and in the metadata already.
    if unique is None and sequence is None:
        return rows_like(row, encode)
    like = unique_rows_like(row)

    def make(args: object) -> JobInsertParams:
        encoded, key = encode(args), None
        if unique is not None:
            counted = _unique_args(args, encoded, unique)
            key = unique_key(row.kind, unique, counted or "", row.queue, row.scheduled_at)
        made = like(encoded, key)
        if sequence is None:
            return made
        own = sequence.metadata(args, encoded, row.kind, row.queue)
        return made._replace(metadata=_metadata(request.metadata | own))

    return make


_NONE = InsertOpts()


def _first(call: Any, own: Any, default: Any) -> Any:
    return call if call is not None else own if own is not None else default


def _unique_args(args: object, encoded: str, unique: Uniqueness | None) -> str | None:
    if unique is None or not unique.by_args:
        return None
    return unique_args(unique_form(args, encoded), type(args), unique.keys)


def _metadata(metadata: Any) -> str:
    if not metadata:
        return "{}"
    if not isinstance(metadata, dict):
        raise InsertError(f"metadata must be a dict, not {type(metadata).__name__}")
    try:
        return gojson.dump(metadata)
    except Unfit as unfit:
        raise InsertError(f"metadata cannot be written as JSON: {unfit}") from None
