"""Parse the search box's grammar term by term. docs/dashboard/search.md documents it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from riverui.domain.jobs import JobState
from riverui.domain.values import MAX_BIGINT, MAX_SMALLINT
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, Op, Term
from riverui.web.search import json_terms, time_terms

MAX_TERMS = 50
"""Most terms of a search: each is a condition of the SQL."""
MAX_VALUES = 100
"""Most values of one term: as many ids or names as a person pastes."""

ALIASES = {
    "attempted": Field.STARTED,
    "attempts": Field.ATTEMPT,
    "errors": Field.ERROR,
    "finalized": Field.FINISHED,
    "ids": Field.ID,
    "kinds": Field.KIND,
    "meta": Field.METADATA,
    "priorities": Field.PRIORITY,
    "queues": Field.QUEUE,
    "states": Field.STATE,
    "tags": Field.TAG,
    "workers": Field.WORKER,
}
KEYS = {field.value: field for field in Field} | ALIASES
JSON = frozenset({Field.ARGS, Field.METADATA})
TIMES = frozenset({Field.CREATED, Field.SCHEDULED, Field.STARTED, Field.FINISHED})
NUMBERS = {
    Field.ATTEMPT: (0, MAX_SMALLINT),
    Field.ID: (-MAX_BIGINT - 1, MAX_BIGINT),
    Field.PRIORITY: (1, 4),
}

_STATE_WORDS = {
    "canceled": "cancelled",
    "dead": "discarded",
    "delayed": "scheduled",
    "done": "completed",
    "error": "retryable,discarded",
    "failed": "retryable,discarded",
    "queued": "available",
    "success": "completed",
    "waiting": "available",
}
"""State names of other job queues, and the states of River that they may mean."""
_COMPARISON = re.compile(r"<=|>=|<|>")
_OPERATOR = re.compile(r"[=!]?=|<=|>=|<|>")
"""Operators of other query languages; this grammar has a colon instead."""
_IDS = re.compile(r"[0-9]{1,18}(?:,[0-9]{1,18})*(?![^\s])")
"""A list of plain ids, as riverui itself writes them, perhaps thousands: parsed in one step."""
_INTEGER = re.compile(r"[0-9]{1,19}")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SPAN = re.compile(r"(?:[0-9.]+[smhdw])+")
_SEEN_KEY = re.compile(r"([^:*]+):")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchError:
    """An error in the search text, with the start and end of its piece."""

    start: int
    end: int
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One term of the text as written; a range has two conditions, an invalid term none."""

    start: int
    end: int
    field: Field | None
    value_start: int
    """The start of the value: after the key and its colon, or (for a path into JSON) after the
    first dot.
    """
    bare: bool
    """Whether it was written without a key."""
    negated: bool
    terms: tuple[Term, ...] = ()
    error: SearchError | None = None

    def moved(self, by: int) -> Part:
        """Return this valid term, moved by that many characters."""
        return replace(
            self, start=self.start + by, end=self.end + by, value_start=self.value_start + by
        )


def read(text: str, now: datetime, *, max_values: int = MAX_VALUES) -> list[Part]:
    """Return the terms of the text, at most MAX_TERMS + 1. Never raise: parts hold their errors."""
    return _Scanner(text, now, max_values).parts()


def token_end(text: str, at: int) -> int:
    """Return the end of the term that begins at `at`: the next white space outside quotes."""
    inside = False
    while at < len(text):
        char = text[at]
        if inside and char == "\\":
            at += 1
        elif char == '"':
            inside = not inside
        elif not inside and char.isspace():
            return at
        at += 1
    return len(text)


def skip_space(text: str, at: int) -> int:
    """Return the start of the next term."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


class _Nonsense(Exception):
    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.error = SearchError(start=start, end=max(end, start + 1), message=message)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    """One value of a list: its text, whether any of it was quoted, and where its wildcards are."""

    start: int
    end: int
    text: str = ""
    quoted: bool = False
    wild: bool = False
    """Whether it has a `*` outside quotes."""
    starred: bool = False
    """Whether it has a `*` inside quotes."""
    json: object = None
    structured: bool = False
    """Whether it was written as a JSON object or array, which `json` holds."""


class _Scanner:
    """Scans the text term by term; an invalid term is recorded, and scanning continues after it."""

    def __init__(self, text: str, now: datetime, max_values: int) -> None:
        self.text = text
        self.now = now
        self.max_values = max_values
        self.at = 0
        self.bare = False
        self.field: Field | None = None
        self.negated = False
        self.value_start = 0

    def parts(self) -> list[Part]:
        found: list[Part] = []
        self.at = skip_space(self.text, 0)
        while self.at < len(self.text) and len(found) <= MAX_TERMS:
            start = self.at
            self.field, self.negated, self.bare, self.value_start = None, False, False, start
            terms: tuple[Term, ...] = ()
            error = None
            try:
                terms = self.term()
            except _Nonsense as nonsense:
                error = nonsense.error
                self.at = max(self.at, token_end(self.text, start))
            found.append(
                Part(
                    start=start,
                    end=self.at,
                    field=self.field,
                    value_start=self.value_start,
                    bare=self.bare,
                    negated=self.negated,
                    terms=terms,
                    error=error,
                )
            )
            self.at = skip_space(self.text, self.at)
        return found

    def term(self) -> tuple[Term, ...]:
        """Parse the next term and return its conditions."""
        after = self.text[self.at + 1 : self.at + 2]
        if self.text[self.at] == "-" and after and not after.isspace():
            self.negated = True
            self.at += 1
        self.value_start = self.at
        key = _KEY.match(self.text, self.at)
        if key is None or key.end() == len(self.text):
            return self.word()
        field, after = KEYS.get(key.group().lower()), self.text[key.end()]
        if after == ":":
            if field is None:
                raise _Nonsense(_unknown_key(key.group()), key.start(), key.end())
            self.field = field
            self.at = self.value_start = key.end() + 1
            return self.contained(field, ()) if field in JSON else self.keyed(field)
        if after in ".[" and field in JSON:
            self.field = field
            self.at = key.end()
            self.value_start = key.end() + 1
            return self.contained(field, self.path(key.group()))
        if operator := _OPERATOR.match(self.text, key.end()):
            self.refuse_operator(key, field, operator)
        return self.word()

    def refuse_operator(
        self, key: re.Match[str], field: Field | None, operator: re.Match[str]
    ) -> None:
        """Reject `kind=mail`, which would search for kinds containing that text. A kind may contain
        < and >, but not after a key.
        """
        end, op = token_end(self.text, key.start()), operator.group()
        compared = op not in ("=", "==", "!=") and (field in TIMES or field in NUMBERS)
        if not compared and "=" not in op:
            return
        if field is None:
            raise _Nonsense(_unknown_key(key.group(), "="), key.start(), operator.end())
        minus = "-" if self.negated or op == "!=" else ""
        value = self.text[operator.end() : end][:60]
        message = (
            f"“{self.text[key.start() : end][:60]}” is not a search term:"
            f" did you mean {minus}{field.value}:{op if compared else ''}{value}?"
        )
        raise _Nonsense(message, key.start(), end)

    def word(self) -> tuple[Term, ...]:
        """Parse a term without a key: numbers are ids, words are parts of kinds."""
        self.bare = True
        values = self.values("-", json=False)
        if all(_INTEGER.fullmatch(value.text) and not value.quoted for value in values):
            self.field = Field.ID
            return self.numbers(Field.ID, values)
        self.field = Field.KIND
        for value in values:
            if not value.quoted and (key := _SEEN_KEY.match(value.text)):
                raise _Nonsense(_unknown_key(key.group(1)), value.start, value.end)
            if value.starred or not value.text.strip("*"):
                raise _Nonsense("This cannot be searched for in kinds.", value.start, value.end)
        patterns = (value.text if value.wild else f"*{value.text}*" for value in values)
        return (self.make(Field.KIND, Op.LIKE, patterns),)

    def keyed(self, field: Field) -> tuple[Term, ...]:
        """Parse the value of a term on a field other than JSON, after its colon, and return its
        conditions.
        """
        if field is Field.ID and (found := _IDS.match(self.text, self.at)):
            ids = [int(text) for text in found[0].split(",")]
            if len(ids) <= self.max_values:
                self.at = found.end()
                return (self.make(field, Op.EQ, ids),)
        values = self.values(f"{field.value}:", json=False)
        start, end = values[0].start, values[-1].end
        if field in TIMES:
            return self.times(field, values)
        if field in NUMBERS:
            return self.numbers(field, values)
        if field is Field.STATE:
            return (self.make(field, Op.EQ, [_state(value) for value in values]),)
        if field is Field.ERROR:
            if not all(value.text.strip("* ") for value in values):
                raise _Nonsense("error: needs some text to find.", start, end)
            return (self.make(field, Op.LIKE, [value.text for value in values]),)
        wild = any(value.wild for value in values)
        if wild and any(value.starred for value in values):
            raise _Nonsense("A pattern cannot also contain a quoted *.", start, end)
        return (self.make(field, Op.LIKE if wild else Op.EQ, [value.text for value in values]),)

    def numbers(self, field: Field, values: list[_Value]) -> tuple[Term, ...]:
        first = values[0]
        compared = _COMPARISON.match(first.text)
        if not compared and ".." not in first.text:
            return (
                self.make(field, Op.EQ, [_integer(field, value.text, value) for value in values]),
            )
        if len(values) > 1:
            raise _Nonsense(
                f"{field.value}: a comparison takes one value.", first.start, values[-1].end
            )
        if compared:
            number = _integer(field, first.text[compared.end() :], first)
            return (self.make(field, Op(compared.group()), [number]),)
        return self.range(field, first, lambda op, text: (op, _integer(field, text, first)))

    def times(self, field: Field, values: list[_Value]) -> tuple[Term, ...]:
        first = values[0]
        if len(values) > 1:
            raise _Nonsense(f"{field.value}: takes one time or range.", first.start, values[-1].end)
        try:
            if compared := _COMPARISON.match(first.text):
                op, instant = time_terms.compare(
                    Op(compared.group()), first.text[compared.end() :], self.now
                )
                return (self.make(field, op, [instant]),)
            if ".." in first.text:
                return self.range(field, first, self.bound)
            moment = time_terms.parse(first.text, self.now)
        except BadRequest as error:
            raise _Nonsense(str(error), first.start, first.end) from None
        if moment.exact:
            return (self.make(field, Op.EQ, [moment.start]),)
        self.refuse_negated_range(first)
        return (self.make(field, Op.GE, [moment.start]), self.make(field, Op.LT, [moment.end]))

    def bound(self, op: Op, text: str) -> tuple[Op, datetime]:
        # In a range, a span is the instant that long ago: 2h..1h runs from two hours to one hour
        # ago.
        return time_terms.compare(op, f"-{text}" if _SPAN.fullmatch(text) else text, self.now)

    def range(
        self, field: Field, value: _Value, bound: Callable[[Op, str], tuple[Op, int | datetime]]
    ) -> tuple[Term, ...]:
        low, _, high = value.text.partition("..")
        if not low and not high:
            raise _Nonsense(
                "A range needs a beginning or an end: 2..5, 2.. or ..5.", value.start, value.end
            )
        if low and high:
            self.refuse_negated_range(value)
        terms = []
        for op, text in ((Op.GE, low), (Op.LE, high)):
            if text:
                op, found = bound(op, text)
                terms.append(self.make(field, op, [found]))
        return tuple(terms)

    def refuse_negated_range(self, value: _Value) -> None:
        if self.negated:
            raise _Nonsense("A minus cannot exclude a range: use < or >.", value.start, value.end)

    def contained(self, field: Field, path: tuple[json_terms.PathPart, ...]) -> tuple[Term, ...]:
        """Parse a value of args or metadata, after its colon, and return its condition."""
        texts = []
        for value in self.values(f"{field.value}:", json=True):
            try:
                found = value.json
                if not value.structured:
                    found = value.text if value.quoted else json_terms.scalar(value.text)
                if path:
                    found = json_terms.nest(path, found)
            except BadRequest as error:
                raise _Nonsense(str(error), value.start, value.end) from None
            if not isinstance(found, dict):
                name, word = field.value, value.text[:60] if ":" in value.text else "customer.id:42"
                message = f'{name} is an object: write {name}.{word} or {name}:{{"key":1}}'
                raise _Nonsense(message, value.start, value.end)
            if value.wild:
                message = (
                    f"{field.value} matches whole values only. Quote the * to search for it as"
                    " it is."
                )
                raise _Nonsense(message, value.start, value.end)
            texts.append(json_terms.dump(found))
        return (self.make(field, Op.CONTAINS, texts),)

    def path(self, key: str) -> tuple[json_terms.PathPart, ...]:
        """Parse the path between `args` and the colon, from its first dot, and skip the colon."""
        start = self.at
        try:
            parts, self.at = json_terms.scan_path(self.text, start, example=f"{key}.customer.id:42")
        except json_terms.PathError as error:
            self.at = error.end
            raise _Nonsense(error.message, error.start, error.end) from None
        written = key + self.text[start : self.at][:60]
        path, equals, value = (key + self.text[start : token_end(self.text, start)]).partition("=")
        if equals and not self.text.startswith(":", self.at):
            message = f"{written} needs a colon: did you mean {path[:60]}:{value[:60] or 42}?"
            raise _Nonsense(message, start, self.at)
        if not parts:
            raise _Nonsense(f"{key} is an object: write {key}.customer.id:42", start, self.at)
        if not self.text.startswith(":", self.at):
            raise _Nonsense(f"{written} needs a value: {written}:42", start, self.at)
        self.at += 1
        return parts

    def values(self, key: str, *, json: bool) -> list[_Value]:
        """Parse a list of values, up to the next white space."""
        values = [self.value(key, json=json)]
        while self.text.startswith(",", self.at):
            self.at += 1
            values.append(self.value("a comma", json=json))
        if self.at < len(self.text) and not self.text[self.at].isspace():
            raise _Nonsense("A space is missing before this.", self.at, self.at + 1)
        if len(values) > self.max_values:
            message = f"A term takes at most {self.max_values} values."
            raise _Nonsense(message, values[0].start, self.at)
        return values

    def value(self, after: str, *, json: bool) -> _Value:
        start = self.at
        if json and self.text[start : start + 1] in ("{", "["):
            try:
                found, self.at = json_terms.scan(self.text, start)
            except BadRequest as error:
                self.at = len(self.text)
                raise _Nonsense(str(error), start, len(self.text)) from None
            return _Value(start=start, end=self.at, json=found, structured=True)
        pieces: list[str] = []
        quoted = wild = starred = False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "," or char.isspace():
                break
            if char == '"':
                piece = self.quoted()
                quoted = True
                starred = starred or "*" in piece
            else:
                end = self.at
                while (
                    end < len(self.text)
                    and self.text[end] not in ',"'
                    and not self.text[end].isspace()
                ):
                    end += 1
                piece = self.text[self.at : end]
                self.at = end
                wild = wild or "*" in piece
            pieces.append(piece)
        if not pieces:
            raise _Nonsense(
                f"A value is missing after {after} (without a space).", max(0, start - 1), start
            )
        return _Value(
            start=start,
            end=self.at,
            text="".join(pieces),
            quoted=quoted,
            wild=wild,
            starred=starred,
        )

    def quoted(self) -> str:
        """Parse a quoted text, from its opening quote."""
        try:
            text, self.at = json_terms.scan_quoted(self.text, self.at)
        except json_terms.PathError as error:
            self.at = error.end
            raise _Nonsense(error.message, error.start, error.end) from None
        return text

    def make(self, field: Field, op: Op, values: Iterable[int | str | datetime]) -> Term:
        return Term(field=field, op=op, values=tuple(dict.fromkeys(values)), negated=self.negated)


def _integer(field: Field, text: str, value: _Value) -> int:
    low, high = NUMBERS[field]
    if not _INTEGER.fullmatch(text.removeprefix("-")):
        raise _Nonsense(
            f"{field.value}: must be a whole number, not “{text[:40]}”.", value.start, value.end
        )
    if not low <= (number := int(text)) <= high:
        raise _Nonsense(f"{field.value}: must be from {low} to {high}.", value.start, value.end)
    return number


def _state(value: _Value) -> str:
    text = value.text.lower()
    if text in list(JobState):
        return text
    meant = _STATE_WORDS.get(text)
    near = [meant] if meant else difflib.get_close_matches(text, list(JobState), n=1)
    hint = f"did you mean {near[0]}?" if near else f"use {', '.join(JobState)}."
    raise _Nonsense(f"“{value.text[:40]}” is not a state: {hint}", value.start, value.end)


def _unknown_key(key: str, sign: str = ":") -> str:
    near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=0.6)
    if near:
        return f"“{key[:40]}{sign}” is not a search term: did you mean {KEYS[near[0]].value}:?"
    keys = ", ".join(f"{field.value}:" for field in Field)
    return f"“{key[:40]}{sign}” is not a search term. Terms begin with {keys}."
