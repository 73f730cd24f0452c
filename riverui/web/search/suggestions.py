"""Suggestions for the search box: keys, then names and paths from the database."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct

from riverui.domain.jobs import JobState
from riverui.errors import RiveruiError
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.params import Field
from riverui.storage.stores.suggestions import SuggestionStore
from riverui.web.http.context import Service
from riverui.web.search import grammar, json_terms, query

log = logging.getLogger("riverui.suggest")

OPTIONS = 15
"""Most options shown."""

_FETCHED = 100
"""Names per query; if there are fewer, one query serves every text typed."""
_FRESH = 10.0
"""Seconds for which names are cached."""
_KEPT = 200
"""Query results that are cached, of some 2 kB each."""
_MAX_QUERIES = 4
"""Most concurrent queries in a process, so that typing leaves connections for pages."""
_TIMEOUT = timedelta(seconds=1)
"""Time limit of a query: later suggestions are useless."""

_KEYS = {
    Field.KIND: ("kind:", "kind of job, e.g. kind:mail_send or kind:*mail*"),
    Field.QUEUE: ("queue:", "queue, e.g. queue:mailers"),
    Field.STATE: ("state:", "state, e.g. state:running,retryable"),
    Field.TAG: ("tag:", "tag, e.g. tag:vip"),
    Field.ARGS: ("args.", "value inside the args, e.g. args.customer.id:42"),
    Field.ERROR: ("error:", 'text of an error, e.g. error:"connection reset"'),
    Field.ID: ("id:", "job id, e.g. id:9381022"),
    Field.ATTEMPT: ("attempt:", "attempts so far, e.g. attempt:>3"),
    Field.PRIORITY: ("priority:", "1 (first) to 4"),
    Field.CREATED: ("created:", "inserted, e.g. created:<1h for the last hour"),
    Field.FINISHED: ("finished:", "finished, e.g. finished:<2026-11-01"),
    Field.STARTED: ("started:", "last attempt began, e.g. started:>10m"),
    Field.SCHEDULED: ("scheduled:", "due, e.g. scheduled:<+1h for the coming hour"),
    Field.METADATA: ("metadata.", "value inside the metadata, e.g. metadata.trace_id:abc"),
    Field.WORKER: ("worker:", "client that worked the job"),
}
_TIMES = {
    "<15m": "within the last 15 minutes",
    "<1h": "within the last hour",
    "<1d": "within the last day",
    ">1h": "more than an hour ago",
    ">1d": "more than a day ago",
    "today": "since midnight, UTC",
    "yesterday": "the day before, UTC",
}
_DUE = {
    "<now": "already due",
    "<+15m": "within the next 15 minutes",
    "<+1h": "within the next hour",
    ">+1d": "more than a day from now",
}
_ATTEMPTS = {"0": "no attempt yet", "1": "first attempt", ">1": "retried", ">5": "retried often"}
_PRIORITIES = {"1": "first", "2": "", "3": "", "4": "last"}

_TYPED = re.compile(r"(?P<minus>-?)(?P<key>[A-Za-z_]+)(?P<joint>[:.])(?P<rest>.*)", re.DOTALL)


class Option(Struct, frozen=True, kw_only=True):
    """One suggestion: the whole new search text, what to show, and what it means."""

    insert: str
    label: str
    hint: str = ""


class Suggestions:
    """Options for the search box, from names cached for all viewers."""

    def __init__(self, driver: Driver) -> None:
        self._names = _Names(driver)

    async def get(self, text: str, caret: int) -> tuple[Option, ...]:
        """Return at most OPTIONS options for the term under the caret; none if the database is slow
        or unavailable.
        """
        if len(text) > query.MAX_LENGTH or "\0" in text:
            return ()
        start, end = token_at(text, caret)
        typed = text[start:caret]
        before, after = text[:start], text[end:]
        options: list[Option] = []
        for token, label, hint, finished in await self._tokens(typed):
            space = " " if finished and not after else ""
            options.append(Option(insert=before + token + space + after, label=label, hint=hint))
        return tuple(options[:OPTIONS])

    async def names(self, field: Field, match: str) -> Sequence[str]:
        """Return at most OPTIONS names that contain `match`, those that begin with it first."""
        return await self._names.get(field, match)

    async def _tokens(self, typed: str) -> list[tuple[str, str, str, bool]]:
        """Return completions of a term: text, label, hint, and whether it is complete."""
        found = _TYPED.fullmatch(typed)
        field = grammar.KEYS.get(found["key"].lower()) if found else None
        if found is None or field is None:
            return await self._words(typed)
        minus, rest = found["minus"], found["rest"]
        if field in grammar.JSON:
            paths = (
                []
                if ":" in rest
                else [_path_text(path) for path in await self._names.get(field, rest)]
            )
            return [
                (f"{minus}{field.value}.{path}:", f"{field.value}.{path}", "", False)
                for path in paths
            ]
        if found["joint"] == ".":
            return []
        cut = _last_comma(rest) + 1
        kept, piece = rest[:cut], rest[cut:]
        match = re.sub(r'[*"\\]', "", piece)
        fixed = _fixed_values(field)
        if fixed is not None:
            pairs = [(value, hint) for value, hint in fixed.items() if match.lower() in value]
        else:
            pairs = [(value, "") for value in await self._names.get(field, match)]
        return [
            (
                f"{minus}{field.value}:{kept}{value if fixed else query.value_text(value)}",
                f"{field.value}:{value}",
                hint,
                True,
            )
            for value, hint in pairs
        ]

    async def _words(self, typed: str) -> list[tuple[str, str, str, bool]]:
        """Return terms for a bare word: the keys that contain it, then states, kinds and queues."""
        minus = "-" if typed.startswith("-") else ""
        word = typed.removeprefix("-").strip('"*').lower()
        keys = [
            (minus + key, key, hint, False)
            for field, (key, hint) in _KEYS.items()
            if field.value.startswith(word) or (len(word) > 2 and word in field.value)
        ]
        if len(word) < 2 or ":" in word:
            return keys
        states = [
            (f"{minus}state:{state}", f"state:{state}", "", True)
            for state in JobState
            if word in state
        ]
        named = []
        for field in (Field.KIND, Field.QUEUE):
            for name in await self._names.get(field, word):
                named.append(
                    (f"{minus}{query.term(field, name)}", f"{field.value}:{name}", "", True)
                )
        return keys[:4] + states + named


SUGGESTIONS = Service(make=lambda board: Suggestions(board.reads))
"""The suggestions of an app."""


class _Names:
    """Names from the database, cached; concurrent requests share one query."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._known: OrderedDict[tuple[Field, str], tuple[float, Sequence[str]]] = OrderedDict()
        self._flights: dict[tuple[Field, str], asyncio.Task[Sequence[str]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, field: Field, match: str) -> Sequence[str]:
        """Return names that contain `match`, the ones that begin with it first."""
        match = match.lower()[:200]
        # Most databases have few names: then one query serves every keystroke of all viewers.
        names = await self._fetched(field, "")
        if len(names) >= _FETCHED and match:
            names = await self._fetched(field, match)
        found = [name for name in names if match in name.lower()]
        return sorted(found, key=lambda name: (not name.lower().startswith(match), name))[:OPTIONS]

    async def _fetched(self, field: Field, match: str) -> Sequence[str]:
        key = (field, match)
        known = self._known.get(key)
        if known and time.monotonic() - known[0] < _FRESH:
            self._known.move_to_end(key)
            return known[1]
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._flights = loop, {}
        if key not in self._flights:
            if len(self._flights) >= _MAX_QUERIES:
                return known[1] if known else ()
            self._flights[key] = asyncio.create_task(self._fetch(field, match))
        return await asyncio.shield(self._flights[key])

    async def _fetch(self, field: Field, match: str) -> Sequence[str]:
        key = (field, match)
        names: Sequence[str] = ()
        try:
            async with self._driver.reading(timeout=_TIMEOUT) as executor:
                names = await _call(executor, field)(match=match, limit=_FETCHED)
        except RiveruiError as error:
            log.info("no suggestions for %s: %s", field.value, error)
        finally:
            self._known[key] = (time.monotonic(), names)
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            self._flights.pop(key, None)
        return names


def token_at(text: str, caret: int) -> tuple[int, int]:
    """Return start and end of the term in or just before the caret; both are the caret if there is
    none.
    """
    start = grammar.skip_space(text, 0)
    while start < len(text) and start <= caret:
        end = grammar.token_end(text, start)
        if caret <= end:
            return start, end
        start = grammar.skip_space(text, end)
    return caret, caret


def _call(executor: Executor, field: Field) -> Callable[..., Awaitable[Sequence[str]]]:
    if field in grammar.JSON:
        return lambda **given: SuggestionStore(executor).job_path_list(field.value, **given)
    if field is Field.KIND:
        return executor.jobs.kind_list
    if field is Field.QUEUE:
        return executor.queues.name_list
    found = SuggestionStore(executor)
    return found.job_tag_list if field is Field.TAG else found.job_worker_list


def _path_text(dotted: str) -> str:
    """Return a path from the database (whose parts hold no dots) in the search box's grammar."""
    return json_terms.path_text([json_terms.PathPart(name=name) for name in dotted.split(".")])


def _fixed_values(field: Field) -> Mapping[str, str] | None:
    """Return the fixed values of a field; None if they come from the database."""
    if field is Field.STATE:
        return {state.value: "" for state in JobState}
    if field is Field.SCHEDULED:
        return _DUE | _TIMES
    if field in grammar.TIMES:
        return _TIMES
    return {
        Field.PRIORITY: _PRIORITIES,
        Field.ATTEMPT: _ATTEMPTS,
        Field.ID: {},
        Field.ERROR: {},
    }.get(field)


def _last_comma(text: str) -> int:
    """Return the position of the last comma outside quotes; -1 without one."""
    inside, found, at = False, -1, 0
    while at < len(text):
        if inside and text[at] == "\\":
            at += 1
        elif text[at] == '"':
            inside = not inside
        elif text[at] == "," and not inside:
            found = at
        at += 1
    return found
