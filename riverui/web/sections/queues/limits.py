"""The limits of a queue: what holds and who keeps to it, and the form that sets others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import floor
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.actions import queues as actions
from riverui.domain.concurrency import ConcurrencyConfig, override_of
from riverui.domain.partitions import PartitionConfig
from riverui.domain.queues import QueueRow
from riverui.domain.rates import RateRow
from riverui.domain.stored_json import read_object
from riverui.errors import BadRequest, ConfigError, DatabaseError
from riverui.storage.interface import LIMITS, OWN_TABLES, RATES, Driver
from riverui.storage.interface.limits import LIMIT_TABLE, LimitedProducer, LimitRow
from riverui.storage.interface.rates import RATE_TABLE
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.forms import Form, form
from riverui.web.http.routes import GuardedRoute
from riverui.web.http.urls import only, url
from riverui.web.live.notices import Notice
from riverui.web.sections.queues.index import short_name
from riverui.web.view.render import done, respond

log = logging.getLogger("riverui.actions")

RIGHT = "queues.update"
"""The right that it takes to change limits."""
_CLIENTS = 100
"""Clients whose limits are looked at."""
_KEYS = 10
"""Partitions that the page lists."""
_LOOKED_AT = 1_000
"""Rows of partitions that are looked at for these: some milliseconds."""
_MOST_TEXT = 3_000
"""Characters of a posted field that are shown again."""
_UNITS = (("s", 1), ("min", 60), ("h", 3600), ("day", 86_400))
"""In which rates are told, in seconds: the first in which there is at least one."""
_SILENT = timedelta(minutes=5)
"""Since when a client must have told of itself: River UI's figure for producers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLine:
    """One bucket of a rate limit, as the page tells it."""

    key: str
    pace: str
    """How fast jobs begin at present."""
    limit: str
    """How fast they may begin."""
    tokens: int
    burst: int

    @classmethod
    def of(cls, row: RateRow) -> RateLine:
        """Return the line of a bucket."""
        limit = row.limit / row.per.total_seconds()
        unit, seconds = next(
            ((name, span) for name, span in _UNITS if limit * span >= 1), _UNITS[-1]
        )
        return cls(
            key=row.key,
            pace=f"{row.pace * seconds:,.3g}/{unit}",
            limit=f"{limit * seconds:,.6g}/{unit}",
            tokens=max(0, floor(row.tokens)),
            burst=floor(row.burst),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """How many jobs of a queue may run at once and how fast they may begin, and how it stands."""

    clients: Sequence[ConcurrencyConfig]
    """What the clients keep to by their own configuration or by what is set here, each once."""
    override: ConcurrencyConfig | None
    """What is set in the queue's metadata."""
    problem: str
    """Why what is set there cannot be read."""
    keys: Sequence[LimitRow]
    rates: Sequence[RateLine]
    edit_url: str
    """The form; empty for who may not use it, and where no client serves the queue."""

    @property
    def holds(self) -> ConcurrencyConfig | None:
        """Return the limits that count; None where there are none."""
        found = self.override or (self.clients[0] if self.clients else None)
        return found if found is not None and found.limits else None

    @property
    def disagree(self) -> bool:
        """Whether clients keep to different limits."""
        return len(self.clients) > 1


async def limits_of(request: Request, queue: QueueRow) -> QueueLimits:
    """Return a queue's limits, as far as there are tables that tell of them."""
    board = dashboard(request)
    override, problem = None, ""
    try:
        override = override_of(queue.metadata)
    except ConfigError as error:
        problem = str(error)
    kept = _Kept()
    try:
        kept = await _kept(board.driver, queue.name)
    except DatabaseError as error:
        problem = problem or str(error)
    may = access(request).may(RIGHT) and queue.served
    return QueueLimits(
        clients=_told(kept.clients),
        override=override,
        problem=problem,
        keys=kept.keys,
        rates=[RateLine.of(row) for row in kept.rates],
        edit_url=f"{url(request, 'queues.limits')}?{urlencode({'name': queue.name})}"
        if may
        else "",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """What riverui's own tables tell of a queue."""

    clients: Sequence[LimitedProducer] = ()
    keys: Sequence[LimitRow] = ()
    rates: Sequence[RateRow] = ()


async def _kept(driver: Driver, name: str) -> _Kept:
    """Return what the tables tell that are there."""
    if not {LIMITS, OWN_TABLES, RATES}.issubset(driver.capabilities):
        return _Kept()
    async with driver.reading() as executor:
        tables = await OWN_TABLES.on(executor).own_table_list()
        found = _Kept()
        if LIMIT_TABLE.name in tables:
            part = LIMITS.on(executor)
            since = datetime.now(UTC) - _SILENT
            found = _Kept(
                clients=await part.limited_producer_list(name, updated_after=since, limit=_CLIENTS),
                keys=await part.limit_list(name, cap=_LOOKED_AT, limit=_KEYS),
            )
        if RATE_TABLE.name in tables:
            found = replace(found, rates=await RATES.on(executor).rate_list(name, limit=_KEYS))
        return found


def _told(clients: Sequence[LimitedProducer]) -> Sequence[ConcurrencyConfig]:
    """Return what clients keep to, each once; what cannot be read is left out."""
    told: dict[str, ConcurrencyConfig] = {}
    for client in clients:
        try:
            limits = ConcurrencyConfig.read(read_object(client.concurrency))
        except ConfigError:
            continue
        told.setdefault(limits.as_json(), limits)
    return tuple(told.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitForm:
    """What stands in the form, as text."""

    global_limit: str = ""
    local_limit: str = ""
    by_args: str = ""
    by_kind: bool = False
    all_args: bool = False

    @classmethod
    def of(cls, limits: ConcurrencyConfig) -> LimitForm:
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
        """Return what was posted."""

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
        """Return the limits; ConfigError, in words, for what are none."""
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
            raise ConfigError("Give at least one limit; to have none, remove what is set here.")
        return limits


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesLimits:
    """The form of a queue's limits."""

    template: ClassVar[str] = "queues/limits.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    queue: QueueRow
    form: LimitForm
    limits: QueueLimits
    problem: str
    """Why nothing was changed."""
    allowed: bool
    """Whether the viewer may change limits; the page says so where not."""
    back_url: str


async def edit(request: Request) -> Response:
    """Answer with the form, filled in with the limits that hold; who may not change them is told
    so. NotFound without such a queue; without a name it leads to all queues.
    """
    only(request, "name")
    name = request.query_params.get("name")
    if name is None:
        return RedirectResponse(url(request, "queues.index"))
    return respond(request, await _page(request, name))


async def update(request: Request) -> Response:
    """Set the limits of a queue, or remove what was set; a form that cannot be read is answered
    with what is wrong (400).
    """
    board, posted = dashboard(request), await form(request)
    name = posted.get("name", "")
    next_url = url(request, "queues.show", name=name) if name else ""
    if not name:
        raise BadRequest("Choose a queue.")
    told: str | None = None
    if posted.get("remove") != "1":
        filled = LimitForm.posted(posted)
        try:
            told = filled.read().as_json()
        except ConfigError as error:
            page = await _page(request, name, filled=filled, problem=str(error))
            return respond(request, page, status=400)
    await actions.set_concurrency(board.driver, name, told, time_limit=board.config.action_timeout)
    log.info("queue %r limited by %r: %s", name, access(request).user, told)
    title = "Limits of queue {} set" if told else "Limits of queue {} removed"
    detail = (
        "They hold instead of what its clients are configured with, at once."
        if told
        else "Each client keeps to its own configuration again."
    )
    notice = Notice(level="success", title=title.format(short_name(name)), details=(detail,))
    return done(request, notice, next=next_url, changed="queues")


ROUTES = (
    GuardedRoute("GET", "/queue-limits", "queues.limits", "queues.read", edit),
    GuardedRoute("POST", "/queue-limits", "queues.set_limits", RIGHT, update),
)


async def _page(
    request: Request, name: str, *, filled: LimitForm | None = None, problem: str = ""
) -> QueuesLimits:
    async with dashboard(request).driver.reading() as executor:
        queue = await actions.get(executor, name)
    limits = await limits_of(request, queue)
    holds = limits.holds
    if filled is None:
        filled = LimitForm.of(holds) if holds else LimitForm()
    return QueuesLimits(
        queue=queue,
        form=filled,
        limits=limits,
        problem=problem,
        allowed=access(request).may(RIGHT),
        back_url=url(request, "queues.show", name=queue.name),
    )


def _number(label: str, text: str) -> int:
    """Return a limit; 0 where nothing stands there. ConfigError for what is no whole number."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ConfigError(f"{label}: a whole number, or nothing for no limit.")
    return int(text)
