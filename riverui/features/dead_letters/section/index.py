"""The list of dead letters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.actions.job_verbs import DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.values import is_bigint
from riverui.errors import NotSupported, QueryTimeout, SchemaMissing
from riverui.features.dead_letters.domain import DeadJobListRow
from riverui.features.dead_letters.section import places
from riverui.features.dead_letters.store import DeadJobListParams, DeadJobPage, DeadLetterStore
from riverui.storage.interface import Executor
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import preferences
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.view.format import plain
from riverui.web.view.page_parts import Choice, Problem
from riverui.web.view.render import respond

_SHOWN = 100
"""Dead letters per page; an action takes ten times as many at once."""
_NAMES = 50
"""Kinds or queues offered in a menu."""
_NAME = 60
"""Longest name in a menu, in characters."""
_MOST_TEXT = 200
"""Longest search text, in characters."""


_NUMBER = re.compile(r"#([0-9]{1,19})")
"""The filter of the list, from the URL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterFilter:
    """What the URL asks for."""

    kind: str = ""
    queue: str = ""
    match: str = ""
    """A text that the error contains."""
    after: str = ""
    """The position after which the page starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLettersIndex:
    """The list of dead letters; those moved last come first."""

    template: ClassVar[str] = "dead_letters/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"dead-letters-list": "dead_letters/_list.html"}

    match: str
    asked: tuple[tuple[str, str], ...]
    """The URL's other parameters, for the search form."""
    kinds: tuple[Choice, ...]
    queues: tuple[Choice, ...]
    rows: tuple[DeadJobListRow, ...]
    args: bool
    """Whether args are shown."""
    searched: datetime | None
    """How far a search got before it stopped at its limit."""
    verbs: tuple[JobVerb, ...]
    """The verbs that this viewer may use."""
    bulk_urls: Mapping[str, str]
    """By verb: the URL of the preview of what it would do to all matches."""
    there: bool
    """Whether the table exists."""
    missing: str
    remedy: str
    filtered: bool
    self_url: str
    all_url: str
    first_url: str
    """The first page; empty if this is it."""
    older_url: str
    """The next page, or the next part of the search; empty if there is none."""
    problem: Problem | None


async def index(request: Request) -> Response:
    """Show the dead letters that the URL asks for."""
    only(request, "kind", "queue", "match", "after")
    board, asked, status = dashboard(request), read_filter(request), 200
    if (number := _NUMBER.fullmatch(asked.match)) and is_bigint(int(number[1])):
        return RedirectResponse(url(request, "dead_letters.show", id=int(number[1])), 302)
    page, problem, there = DeadJobPage(rows=(), more=False), None, True
    names: tuple[Sequence[str], Sequence[str]] = ((), ())
    params = DeadJobListParams(
        kind=asked.kind,
        queue=asked.queue,
        error=asked.match,
        after=places.read(asked.after),
        limit=_SHOWN,
    )
    try:
        async with board.driver.reading() as executor:
            page, names = await _read(executor, params)
    except (NotSupported, SchemaMissing):
        there = False
    except QueryTimeout as error:
        status, failure = error_page(request, error)
        problem = Problem(title=failure.title, detail=failure.detail)
    end = (page.rows[-1].died_at, page.rows[-1].job.id) if page.more else page.searched
    viewer, plainly = access(request), DeadLetterFilter()
    return respond(
        request,
        DeadLettersIndex(
            match=asked.match,
            asked=tuple(pair for pair in _pairs(asked) if pair[0] not in ("match", "after")),
            kinds=_names(request, asked, "kind", names[0]),
            queues=_names(request, asked, "queue", names[1]),
            rows=tuple(page.rows),
            args=_shows_args(request),
            searched=page.searched[0] if page.searched else None,
            verbs=tuple(verb for verb in (RETRY, DELETE) if viewer.may(verb.right)),
            bulk_urls={
                verb.name: _bulk_url(request, asked, verb)
                for verb in (RETRY, DELETE)
                if viewer.may(verb.right) and page.rows
            },
            there=there,
            missing=MISSING,
            remedy=REMEDY,
            filtered=replace(asked, after="") != plainly,
            self_url=_url(request, asked),
            all_url=_url(request, plainly),
            first_url=_url(request, asked, after="") if asked.after else "",
            older_url=_url(request, asked, after=places.written(end)) if end else "",
            problem=problem,
        ),
        status=status,
    )


def read_filter(request: Request) -> DeadLetterFilter:
    """Return the filter of the URL."""
    given = request.query_params
    return DeadLetterFilter(
        kind=given.get("kind", ""),
        queue=given.get("queue", ""),
        match=given.get("match", "").strip()[:_MOST_TEXT],
        after=given.get("after", ""),
    )


def _shows_args(request: Request) -> bool:
    """Return whether args are shown to this viewer."""
    shown = preferences(request).show_args
    return not dashboard(request).config.hide_args if shown is None else shown


async def _read(
    executor: Executor, params: DeadJobListParams
) -> tuple[DeadJobPage, tuple[Sequence[str], Sequence[str]]]:
    letters = DeadLetterStore(executor)
    return await letters.dead_job_list(params), await letters.dead_job_name_list(limit=_NAMES)


def _pairs(asked: DeadLetterFilter) -> list[tuple[str, str]]:
    return [(name, value) for name, value in asdict(asked).items() if value]


def _url(request: Request, asked: DeadLetterFilter, **changes: str) -> str:
    pairs = _pairs(replace(asked, **changes))
    return url(request, "dead_letters.index") + (f"?{urlencode(pairs)}" if pairs else "")


def _bulk_url(request: Request, asked: DeadLetterFilter, verb: JobVerb) -> str:
    pairs = [*_pairs(replace(asked, after="")), ("verb", verb.name), ("next", _url(request, asked))]
    return f"{url(request, 'dead_letters.bulk')}?{urlencode(pairs)}"


def _names(
    request: Request, asked: DeadLetterFilter, name: str, known: Sequence[str]
) -> tuple[Choice, ...]:
    """Return the kinds or the queues to choose from, including the chosen one."""
    chosen = getattr(asked, name)
    found = sorted({*known, *([chosen] if chosen else [])})
    labels = {"": f"Any {name}", **{value: plain(value, _NAME) for value in found}}
    return tuple(
        Choice(
            value=value,
            label=label,
            url=_url(request, asked, **{name: value, "after": ""}),
            current=value == chosen,
        )
        for value, label in labels.items()
    )
