"""Build rows from job args and options, for every client, by River's precedence, limits and checks
(River's client.go, `insertParamsFromConfigArgsAndOptions`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from riverui.domain.jobs import JobState
from riverui.domain.names import is_queue_name
from riverui.domain.numbers import MAX_SMALLINT
from riverui.engine.args import gojson
from riverui.engine.args.gojson import Unfit
from riverui.engine.args.job_args import (
    check_instance,
    check_object,
    encode,
    encoder,
    has_insert_opts,
    insert_opts_of,
    kind_of,
    unique_form,
    unwritable,
)
from riverui.engine.args.unique import Uniqueness, unique_args, unique_key, uniqueness
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import (
    InsertManyParams,
    InsertOpts,
    InsertRequest,
    UniqueOpts,
)
from riverui.errors import InsertError, UnknownJobKind
from riverui.storage.interface.params import JobInsertParams

_TAG = re.compile(r"\w[\w-]+\w", re.ASCII)
"""A tag: River's pattern."""
_LONGEST_TAG = 255
"""Characters in a tag: River's figure."""
_MOST_QUEUES = 1_000
"""Queues whose wake-ups are remembered before old ones are dropped: more than a program has, so
that only names made up without end are cleaned away.
"""


class NotifyLimiter:
    """Allows at most one wake-up for each queue in each `cooldown`, as River's clients do.

    What it holds back is not sent later: whoever waits for such a job finds it at the next poll.
    """

    def __init__(self, cooldown: timedelta, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cooldown = cooldown.total_seconds()
        self._clock = clock
        self._sent: dict[str, float] = {}

    def allow(self, queue: str) -> bool:
        """Return whether to send a wake-up now; if so, it counts as sent."""
        now = self._clock()
        sent = self._sent.get(queue)
        if sent is not None and now - sent <= self._cooldown:
            return False
        if len(self._sent) >= _MOST_QUEUES:
            self._sent = {name: at for name, at in self._sent.items() if now - at <= self._cooldown}
        self._sent[queue] = now
        return True

    def take_back(self, queues: Iterable[str]) -> None:
        """Forget wake-ups that were not sent after all."""
        for queue in queues:
            self._sent.pop(queue, None)


class Batch(NamedTuple):
    """Rows to insert together."""

    rows: Sequence[JobInsertParams]
    queues: Sequence[str]
    """Names of those that get an available job, each once."""


class _Resolved(NamedTuple):
    """The options of call, args and client put together, and checked."""

    max_attempts: int
    metadata: dict[str, Any]
    priority: int
    queue: str
    scheduled_at: datetime | None
    state: JobState
    tags: tuple[str, ...]
    unique: Uniqueness | None
    unique_opts: UniqueOpts | None


class JobBuilder:
    """Builds rows for one client; it neither calls hooks nor reaches the database."""

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
        kind = kind_of(args)
        self._check_known(kind)
        resolved = self._resolve(insert_opts, insert_opts_of(args))
        _metadata(resolved.metadata)
        encoded = encode(args)
        try:
            counted = _unique_args(args, encoded, resolved.unique)
        except Unfit as unfit:
            raise unwritable(args, unfit) from None
        return InsertRequest(
            args=args,
            kind=kind,
            encoded_args=encoded,
            created_at=self._clock(),
            scheduled_at=resolved.scheduled_at,
            max_attempts=resolved.max_attempts,
            metadata=dict(resolved.metadata),
            priority=resolved.priority,
            queue=resolved.queue,
            state=resolved.state,
            tags=list(resolved.tags),
            unique_opts=resolved.unique_opts,
            unique_args=counted,
        )

    def finish(self, request: InsertRequest) -> JobInsertParams:
        """Return the row of a request that hooks may have changed.

        InsertError or ArgsError where what they made of it cannot be inserted.
        """
        unique = uniqueness(request.unique_opts) if self._enforce_unique else None
        scheduled_at = _aware(request.scheduled_at) or request.created_at
        args = request.unique_args
        try:
            encoded = check_object(request.encoded_args)
            if unique and unique.by_args and args is None:
                args = unique_args(gojson.canonical(encoded), type(request.args), unique.keys)
        except Unfit as unfit:
            raise InsertError(f"the encoded args of the request: {unfit}") from None
        return JobInsertParams(
            kind=request.kind,
            args=encoded,
            created_at=request.created_at,
            scheduled_at=scheduled_at,
            state=JobState(request.state),
            max_attempts=_max_attempts(request.max_attempts),
            metadata=_metadata(request.metadata),
            priority=_priority(request.priority),
            queue=_queue(request.queue),
            tags=_tags(request.tags),
            unique_key=(
                unique_key(request.kind, unique, args or "", request.queue, scheduled_at)
                if unique
                else None
            ),
            unique_states=unique.states if unique else 0,
        )

    def batch(self, jobs: Iterable[object]) -> Batch:
        """Return the rows of args and InsertManyParams, without requests: the quick way where no
        hook or middleware looks at them.

        They equal those of `prepare` and `finish`. ArgsError, InsertError or UnknownJobKind.
        """
        now = self._clock()
        rows: list[JobInsertParams] = []
        queues: dict[str, None] = {}
        known: set[str] = set()
        cls: type | None = None
        last: tuple[InsertOpts | None, InsertOpts | None] | None = None
        args: object = None
        try:
            for job in jobs:
                args, call = (
                    (job.args, job.insert_opts)
                    if isinstance(job, InsertManyParams)
                    else (job, None)
                )
                if type(args) is not cls:
                    check_instance(args)
                kind = kind_of(args)
                if kind not in known:
                    self._check_known(kind)
                    known.add(kind)
                if type(args) is not cls:
                    cls = type(args)
                    encode, opinionated = encoder(cls), has_insert_opts(cls)
                own = insert_opts_of(args) if opinionated else None
                if last is None or call is not last[0] or own is not last[1]:
                    last = (call, own)
                    resolved = self._resolve(call, own)
                    attempts, _, priority, queue, at, state, tags, unique, _ = resolved
                    metadata, scheduled_at = _metadata(resolved.metadata), at or now
                    if state is JobState.AVAILABLE:
                        queues[queue] = None
                encoded, key, states = encode(args), None, 0
                if unique is not None:
                    counted = _unique_args(args, encoded, unique) or ""
                    key, states = (
                        unique_key(kind, unique, counted, queue, scheduled_at),
                        unique.states,
                    )
                rows.append(
                    _new(
                        JobInsertParams,
                        (
                            kind, encoded, now, scheduled_at, state, attempts,
                            metadata, priority, queue, tags, key, states,
                        ),
                    )
                )  # fmt: skip
        except (Unfit, RecursionError) as error:
            raise unwritable(args, error) from None
        return Batch(rows, list(queues))

    def finished(self, requests: Sequence[InsertRequest]) -> Batch:
        """Return the rows of requests; see `finish`."""
        rows = [self.finish(request) for request in requests]
        return Batch(
            rows, list(dict.fromkeys(row.queue for row in rows if row.state is JobState.AVAILABLE))
        )

    def _check_known(self, kind: str) -> None:
        workers = self.config.workers
        if (
            workers is not None
            and not self.config.skip_unknown_job_check
            and workers.get(kind) is None
        ):
            raise UnknownJobKind(kind)

    def _resolve(self, call: InsertOpts | None, own: InsertOpts | None) -> _Resolved:
        call, own = call or _NONE, own or _NONE
        unique_opts = call.unique_opts
        unique = uniqueness(unique_opts)
        if unique is None:
            unique_opts = own.unique_opts
            unique = uniqueness(unique_opts)
        scheduled_at = _aware(call.scheduled_at or own.scheduled_at)
        state = JobState.AVAILABLE if scheduled_at is None else JobState.SCHEDULED
        # The official client's options, and those of its args, know no metadata and no pending.
        return _Resolved(
            max_attempts=_max_attempts(
                _first(call.max_attempts, own.max_attempts, self.config.max_attempts)
            ),
            metadata=getattr(call, "metadata", None) or {},
            priority=_priority(_first(call.priority, own.priority, 1)),
            queue=_queue(_first(call.queue, own.queue, "default")),
            scheduled_at=scheduled_at,
            state=JobState.PENDING if getattr(call, "pending", False) else state,
            tags=_tags(_first(call.tags, own.tags, ())),
            unique=unique if self._enforce_unique else None,
            unique_opts=unique_opts if self._enforce_unique else None,
        )


_NONE = InsertOpts()
_new = tuple.__new__


def _first(call: Any, own: Any, default: Any) -> Any:
    return call if call is not None else own if own is not None else default


def _unique_args(args: object, encoded: str, unique: Uniqueness | None) -> str | None:
    if unique is None or not unique.by_args:
        return None
    return unique_args(unique_form(args, encoded), type(args), unique.keys)


def _max_attempts(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return min(value, MAX_SMALLINT)
    raise InsertError(f"max_attempts must be a whole number of at least 1, not {value!r}")


def _priority(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4:
        return value
    raise InsertError(f"priority must be 1, 2, 3 or 4, not {value!r}")


def _queue(name: object) -> str:
    if isinstance(name, str) and _fits(name):
        return name
    allowed = "use up to 64 lower-case letters and digits, with single _, - or | between them"
    raise InsertError(f"{name!r} is not a valid queue name: {allowed}")


_fits = lru_cache(maxsize=1024)(is_queue_name)


def _tags(values: Sequence[str]) -> tuple[str, ...]:
    if not values:
        return ()
    if isinstance(values, str):
        raise InsertError("tags must be a list of strings, not one string")
    for tag in values:
        if not isinstance(tag, str) or len(tag) > _LONGEST_TAG or not _TAG.fullmatch(tag):
            raise InsertError(
                f"{tag!r} is not a valid tag: use 3 to {_LONGEST_TAG} of A–Z, a–z, 0–9, _, and -"
                " inside"
            )
    return tuple(values)


def _aware(at: datetime | None) -> datetime | None:
    if at is None:
        return None
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InsertError(f"scheduled_at must be a time with a time zone, not {at!r}")
    return at.astimezone(UTC)


def _metadata(metadata: Any) -> str:
    if not metadata:
        return "{}"
    if not isinstance(metadata, dict):
        raise InsertError(f"metadata must be a dict, not {type(metadata).__name__}")
    try:
        return gojson.dump(metadata)
    except Unfit as unfit:
        raise InsertError(f"metadata cannot be written as JSON: {unfit}") from None
