"""The limits of a queue: those in effect, their use, and the form that sets others."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.actions import queues as actions
from riverui.actions.queue_clients import queue_clients
from riverui.domain.partitions import PartitionConfig
from riverui.domain.queues import QueueRow
from riverui.errors import BadRequest, ConfigError, DatabaseError
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.concurrency.store import LimitRow
from riverui.features.rate_limits import verbs as rate_actions
from riverui.features.rate_limits.buckets import RateRow
from riverui.features.rate_limits.domain import SPANS, RateLimit, RateOverride, number
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import Form, form
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.queues.index import short_name
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

RIGHT = "queues.update"
"""The right to change limits."""
_KEYS = 10
"""Most partitions that the page lists."""
_CLIENTS = 20
"""Most clients that the page lists."""
_MOST_TEXT = 3_000
"""Longest text read from a posted field, in characters."""
_NUMBER = 20
"""Longest text read from a posted number, in characters."""
_DECIMALS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")
"""A posted number, with or without decimals."""
_SPANS = {int(span.total_seconds()): words.split()[1] for span, words in SPANS.items()}
"""Spans of a rate limit that the form offers: seconds → word."""
_UNITS = (("s", 1), ("min", 60), ("h", 3600), ("day", 86_400))
"""Units for rates, with their seconds: the page uses the first that gives at least 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLine:
    """One bucket of a rate limit, as the page shows it."""

    key: str
    pace: str
    """How fast jobs begin at present."""
    limit: str
    """How fast they may begin."""
    tokens: int
    burst: int

    @classmethod
    def from_bucket(cls, row: RateRow, effective: RateLimit | None) -> RateLine:
        """Return the line of a bucket, by the limit in effect if known, else its own."""
        rate = row.rate if effective is None else effective.rate
        limit = rate.per_second
        unit, seconds = next(
            ((name, span) for name, span in _UNITS if limit * span >= 1), _UNITS[-1]
        )
        return cls(
            key=row.key,
            pace=f"{number(row.pace * seconds)}/{unit}",
            limit=f"{number(limit * seconds)}/{unit}",
            tokens=max(0, floor(min(row.tokens, rate.burst))),
            burst=floor(rate.burst),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientLine:
    """A client that works the queue."""

    id: str
    host: str
    pid: int
    taken: int
    most: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """The limits on how many jobs of a queue run at once and how fast they begin, and their use."""

    holds: ConcurrencyConfig | None
    """The limits in effect; None if there are none."""
    override: ConcurrencyConfig | None = None
    """The limits set in the queue's metadata."""
    problem: str = ""
    """Why the override is not in effect, or why the limits could not be read."""
    disagree: bool = False
    """Whether clients are configured with different limits."""
    keys: Sequence[LimitRow] = ()
    more: bool = False
    """Whether there are more partitions than `keys`."""
    rates: Sequence[RateLine] = ()
    rate: RateLimit | None = None
    """The rate limit in effect; None if no client is known to have one."""
    rate_override: RateOverride | None = None
    """The rate limit set in the queue's metadata."""
    rate_problem: str = ""
    """Why that override is not in effect."""
    rates_disagree: bool = False
    """Whether clients are configured with different rate limits."""
    clients: Sequence[ClientLine] = ()
    """Clients of riverui that work the queue, by name."""
    slots: int | None = None
    """Jobs that its clients work at once; None if unknown."""
    edit_url: str = ""
    """Address of the form; empty for viewers without the right, or if no client serves the queue.
    """


async def read_limits(request: Request, queue: QueueRow) -> QueueLimits:
    """Return a queue's limits and their use, as far as riverui's tables exist."""
    board = dashboard(request)
    may = access(request).may(RIGHT) and queue.served
    address = f"{url(request, 'queues.limits')}?{urlencode({'name': queue.name})}" if may else ""
    try:
        async with board.driver.reading() as executor:
            clients = await queue_clients(executor, queue.name)
            found = await concurrency.read(executor, queue, now=datetime.now(UTC), limit=_KEYS)
            rates = await rate_actions.read(executor, queue, clients, limit=_KEYS)
    except DatabaseError as error:
        return QueueLimits(holds=None, problem=str(error), edit_url=address)
    holds, slots = found.effective, clients.slots(queue.name)
    return QueueLimits(
        holds=holds if holds is not None and holds.limits else None,
        override=found.override,
        problem=found.problem,
        disagree=len(found.configured) > 1,
        keys=found.partitions,
        more=found.more,
        rates=[RateLine.from_bucket(row, rates.effective) for row in rates.buckets],
        rate=rates.effective,
        rate_override=rates.override,
        rate_problem=rates.problem,
        rates_disagree=rates.disagree,
        clients=[
            ClientLine(
                id=row.id,
                host=row.host,
                pid=row.pid,
                most=row.queues[queue.name][0],
                taken=row.queues[queue.name][1],
            )
            for row in sorted(clients.rows, key=lambda row: (row.host, row.id))[:_CLIENTS]
        ],
        slots=slots.most if slots else None,
        edit_url=address,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitForm:
    """The fields of the form, as text."""

    global_limit: str = ""
    local_limit: str = ""
    by_args: str = ""
    by_kind: bool = False
    all_args: bool = False

    @classmethod
    def from_config(cls, limits: ConcurrencyConfig) -> LimitForm:
        """Return the form with these limits filled in."""
        by_args = limits.partition.by_args
        return cls(
            global_limit=str(limits.global_limit or ""),
            local_limit=str(limits.local_limit or ""),
            by_args=", ".join(by_args or ()),
            by_kind=limits.partition.by_kind,
            all_args=by_args is not None and not by_args,
        )

    @classmethod
    def posted(cls, fields: Form) -> LimitForm:
        """Return the form with the posted fields."""

        def text(name: str) -> str:
            return fields.get(name, "").strip()[:_MOST_TEXT]

        return cls(
            global_limit=text("global_limit"),
            local_limit=text("local_limit"),
            by_args=text("by_args"),
            by_kind=fields.get("by_kind") == "1",
            all_args=fields.get("all_args") == "1",
        )

    def read(self) -> ConcurrencyConfig:
        """Return the limits. Raises ConfigError, with a message for the viewer, if they are
        invalid.
        """
        names = [name for part in self.by_args.split(",") if (name := part.strip())]
        if names and self.all_args:
            raise ConfigError("Name args, or take all of them: not both.")
        limits = ConcurrencyConfig(
            global_limit=_number("All clients together", self.global_limit),
            local_limit=_number("Each client", self.local_limit),
            partition=PartitionConfig(
                by_args=names or ([] if self.all_args else None), by_kind=self.by_kind
            ),
        )
        if not limits.limits:
            raise ConfigError("Give at least one limit; to have none, remove the override.")
        return limits


@dataclass(frozen=True, kw_only=True, slots=True)
class RateForm:
    """The fields of the form of the rate limit, as text."""

    limit: str = ""
    per: str = "1"
    """Seconds, one of `_SPANS`."""
    burst: str = ""

    @classmethod
    def from_rate_limit(cls, rate: RateLimit) -> RateForm:
        """Return the form of a limit, per second if the form does not offer its span."""
        seconds, per = rate.per.total_seconds(), 1
        if seconds in _SPANS:
            per = int(seconds)
        limit = rate.limit * per / seconds
        return cls(
            limit=_plain(limit),
            per=str(per),
            burst="" if rate.burst is None else _plain(rate.burst),
        )

    @classmethod
    def posted(cls, fields: Form) -> RateForm:
        """Return the form with the posted fields."""
        found = {name: fields.get(name, "").strip()[:_NUMBER] for name in ("limit", "per", "burst")}
        return cls(**found)

    def read(self) -> RateOverride:
        """Return the numbers. Raises ConfigError, with a message for the viewer, if they are
        invalid.
        """
        if not self.limit:
            raise ConfigError(
                "Jobs that may begin: give a number; to have none, remove the override."
            )
        if self.per not in map(str, _SPANS):
            raise ConfigError("In each: choose a second, a minute, an hour or a day.")
        return RateOverride(
            limit=_float("Jobs that may begin", self.limit),
            per=timedelta(seconds=int(self.per)),
            burst=_float("Burst after an idle time", self.burst) if self.burst else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesLimits:
    """The form of a queue's limits."""

    template: ClassVar[str] = "queues/limits.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    queue: QueueRow
    form: LimitForm
    limits: QueueLimits
    rate_form: RateForm
    spans: ClassVar[Mapping[int, str]] = _SPANS
    problem: str
    """Why nothing was changed."""
    rate_refused: bool
    """Whether `problem` is about the rate limit."""
    allowed: bool
    """Whether the viewer may change limits; if not, the page says so."""
    back_url: str


async def edit(request: Request) -> Response:
    """Answer with the form, filled in with the limits in effect; viewers without the right to
    change them see a note instead. Raises NotFound if there is no such queue; redirects to all
    queues without a name.
    """
    only(request, "name")
    name = request.query_params.get("name")
    if name is None:
        return RedirectResponse(url(request, "queues.index"))
    return respond(request, await _page(request, name))


async def update(request: Request) -> Response:
    """Set the limits of a queue, or remove the override; answer an invalid form with the problem
    (400).
    """
    board, posted = dashboard(request), await form(request)
    name = posted.get("name", "")
    next_url = url(request, "queues.show", name=name) if name else ""
    if not name:
        raise BadRequest("Choose a queue.")
    limit = board.config.action_timeout
    if posted.get("of") == "rate":
        return await _update_rate(request, name, posted, next_url)
    if posted.get("remove") == "1":
        await concurrency.remove_override(board.driver, name, time_limit=limit)
        title = f"Limits of queue {short_name(name)} removed"
        detail = "Each client uses its own configuration again."
    else:
        filled = LimitForm.posted(posted)
        try:
            limits = filled.read()
        except ConfigError as error:
            page = await _page(request, name, filled=filled, problem=str(error))
            return respond(request, page, status=400)
        await concurrency.set_override(board.driver, name, limits, time_limit=limit)
        title = f"Limits of queue {short_name(name)} set"
        detail = "They replace the limits that its clients are configured with, at once."
    log.info("%s by %r", title, access(request).user)
    notice = Notice(level="success", title=title, details=(detail,))
    return done(request, notice, next=next_url, changed="queues")


async def _update_rate(request: Request, name: str, posted: Form, next_url: str) -> Response:
    """Set the rate limit of a queue, or remove the override."""
    board = dashboard(request)
    limit = board.config.action_timeout
    if posted.get("remove") == "1":
        await rate_actions.remove_override(board.driver, name, time_limit=limit)
        title = f"Rate limit of queue {short_name(name)} removed"
        detail = "Its clients use their own configuration again."
        log.info("%s by %r", title, access(request).user)
    else:
        filled = RateForm.posted(posted)
        try:
            override = filled.read()
        except ConfigError as error:
            words = str(error).removeprefix("rate_limit: ")
            problem = words[0].upper() + words[1:]
            page = await _page(request, name, filled_rate=filled, problem=problem)
            return respond(request, page, status=400)
        await rate_actions.set_override(board.driver, name, override, time_limit=limit)
        title = f"Rate limit of queue {short_name(name)} set"
        detail = "It replaces the rate limit that its clients are configured with, at once."
        log.info("%s by %r: %s", title, access(request).user, override.as_json())
    notice = Notice(level="success", title=title, details=(detail,))
    return done(request, notice, next=next_url, changed="queues")


ROUTES = (
    GuardedRoute("GET", "/queue-limits", "queues.limits", "queues.read", edit),
    GuardedRoute("POST", "/queue-limits", "queues.set_limits", RIGHT, update),
)


async def _page(
    request: Request,
    name: str,
    *,
    filled: LimitForm | None = None,
    filled_rate: RateForm | None = None,
    problem: str = "",
) -> QueuesLimits:
    async with dashboard(request).driver.reading() as executor:
        queue = await actions.get(executor, name)
    limits = await read_limits(request, queue)
    holds = limits.holds
    if filled is None:
        filled = LimitForm.from_config(holds) if holds else LimitForm()
    return QueuesLimits(
        queue=queue,
        form=filled,
        rate_form=filled_rate
        or (RateForm.from_rate_limit(limits.rate) if limits.rate else RateForm()),
        rate_refused=filled_rate is not None,
        limits=limits,
        problem=problem,
        allowed=access(request).may(RIGHT),
        back_url=url(request, "queues.show", name=queue.name),
    )


def _plain(value: float) -> str:
    """Return a number without exponent and without thousands separators."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _float(label: str, text: str) -> float:
    """Return a number with or without decimals. Raises ConfigError if it is invalid."""
    if not _DECIMALS.fullmatch(text):
        raise ConfigError(f"{label}: a number, such as 100 or 0.5.")
    return float(text)


def _number(label: str, text: str) -> int:
    """Return a limit; 0 for an empty text. Raises ConfigError if it is not a whole number."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ConfigError(f"{label}: a whole number, or nothing for no limit.")
    return int(text)
