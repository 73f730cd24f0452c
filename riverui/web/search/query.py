"""The job list's address: search text to JobFilter and back, plain form fields, cursors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from riverui.domain.jobs import JobState
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCursor, JobFilter, JobOrder, Op, Term
from riverui.web.search import grammar, json_terms, time_terms
from riverui.web.search.grammar import Part, SearchError

MAX_LENGTH = 2_000
"""Most characters of a search text: each of a page's links repeats it."""

FORM_FIELDS = tuple(field for field in Field if field is not Field.STATE)
"""Fields of the plain filter form; states have their own parameter."""

_PLAIN = re.compile(r"[^\s,\"*]+")
_CURSOR_ID = re.compile(r"-?[0-9]{1,19}")
_NO_SUCH_PAGE = "Invalid cursor: start again from the first page."


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A parsed search text."""

    text: str
    parts: tuple[Part, ...] = ()
    problem: SearchError | None = None
    """An error of the text as a whole."""

    @property
    def too_long(self) -> bool:
        """Return whether the text is too long to be parsed; only its beginning is kept."""
        return len(self.text) > MAX_LENGTH

    @property
    def errors(self) -> tuple[SearchError, ...]:
        """Return all errors; none for a valid search."""
        found = tuple(part.error for part in self.parts if part.error)
        return (self.problem, *found) if self.problem else found

    @property
    def terms(self) -> tuple[Term, ...]:
        """Return all conditions except those on states."""
        return tuple(
            term for part in self.parts for term in part.terms if term.field is not Field.STATE
        )

    @property
    def states(self) -> tuple[JobState, ...] | None:
        """Return the states that the text names; None if it has no state terms."""
        asked = [term for part in self.parts for term in part.terms if term.field is Field.STATE]
        if not asked:
            return None
        met = {
            state: all((state.value in t.values) is not t.negated for t in asked)
            for state in JobState
        }
        return tuple(state for state in JobState if met[state])

    def filter(self, states: Sequence[JobState] = ()) -> JobFilter:
        """Return the filter; states in the text override those given. Raise BadRequest if the text
        has errors.
        """
        if self.errors:
            raise BadRequest(self.errors[0].message)
        chosen = states if self.states is None else self.states
        return JobFilter(states=normal_states(chosen), terms=self.terms)

    def without(self, *drop: Part) -> str:
        """Return the text without some parts."""
        return " ".join(self.text[part.start : part.end] for part in self.parts if part not in drop)

    def without_states(self) -> str:
        """Return the text without its state terms, for the links of the state rail."""
        return self.without(*(part for part in self.parts if part.field is Field.STATE))

    def stateless(self) -> Search:
        """Return the search without its state terms; the other parts are not parsed again."""
        kept: list[Part] = []
        pieces: list[str] = []
        at = 0
        for part in self.parts:
            if part.field is Field.STATE:
                continue
            kept.append(part.moved(at - part.start))
            pieces.append(self.text[part.start : part.end])
            at += part.end - part.start + 1
        return Search(text=" ".join(pieces), parts=tuple(kept))

    def fields(self) -> dict[str, str]:
        """Return the same filter as plain form fields; a bare word appears in the field that it
        searches.
        """
        texts: dict[Field, list[str]] = {}
        errors = [part for part in self.parts if part.field is Field.ERROR and not part.error]
        for part in self.parts:
            if part.field is None or part.field is Field.STATE or part.error:
                continue
            value = self.text[part.value_start : part.end]
            values = part.terms[0].values
            if part.field is Field.KIND and part.bare:
                value = ",".join(_pattern_text(str(pattern)) for pattern in values)
            elif part.field is Field.ERROR:
                raw = str(values[0])
                # One plain text needs no quotes in a field of its own.
                if (
                    len(errors) > 1
                    or part.negated
                    or len(values) > 1
                    or raw[0] in '"-'
                    or raw != raw.strip()
                ):
                    value = ",".join(json_terms.quoted(str(text)) for text in values)
                else:
                    value = raw
            if value.startswith("-"):
                # In a field, a leading minus would negate the term.
                end = json_terms.BARE_PART.match(value)
                cut = end.end() if end and part.field in grammar.JSON else 1
                value = json_terms.quoted(value[:cut]) + value[cut:]
            texts.setdefault(part.field, []).append("-" * part.negated + value)
        return {field.value: " ".join(texts.get(field, ())) for field in FORM_FIELDS}


def parse(
    text: str,
    *,
    now: datetime,
    max_length: int = MAX_LENGTH,
    max_values: int = grammar.MAX_VALUES,
) -> Search:
    """Parse a search text. Never raise: `errors` holds messages and their positions."""
    if len(text) > max_length:
        # Keep one character more than the limit, so that the text is still too long when sent
        # again.
        kept = text[: max_length + 1]
        return _hopeless(
            kept, max_length, len(kept), f"A search takes at most {max_length:,} characters."
        )
    for at, char in enumerate(text):
        if char == "\0" or "\ud800" <= char <= "\udfff":
            return _hopeless(
                text, at, at + 1, f"The character U+{ord(char):04X} cannot be searched for."
            )
    parts = tuple(grammar.read(text, now, max_values=max_values))
    if len(parts) > grammar.MAX_TERMS:
        message = f"A search takes at most {grammar.MAX_TERMS} terms."
        return _hopeless(text, parts[-1].start, len(text), message)
    search = Search(text=text, parts=parts)
    if search.states == ():
        of_state = [part for part in parts if part.field is Field.STATE]
        message = "No job can be in all of these states; join them with a comma to mean any."
        problem = SearchError(start=of_state[0].start, end=of_state[-1].end, message=message)
        return Search(text=text, parts=parts, problem=problem)
    return search


def format(filter: JobFilter) -> str:  # noqa: A001 - the other direction of parse
    """Return the canonical text of a filter: `parse` returns the same filter, if its length limit
    allows.
    """
    states = [f"state:{','.join(filter.states)}"] if filter.states else []
    return " ".join(states + ["-" * term.negated + _term_text(term) for term in filter.terms])


def merge_fields(search: Search, fields: Mapping[str, str]) -> str:
    """Return the search text after the plain form was sent: its fields replace the terms on the
    same fields.
    """
    sent = [field for field in FORM_FIELDS if field.value in fields]
    kept = search.without(*(part for part in search.parts if part.field in sent))
    if not search.parts:
        # Keep text that could not be parsed, for the person to correct.
        kept = search.text.strip()
    texts = [kept, *(_field_text(field, fields[field.value]) for field in sent)]
    return " ".join(text for text in texts if text)


def searchable(text: str) -> bool:
    """Return whether a generated text is short enough for the search box; one that names many jobs
    is not.
    """
    return len(text) <= MAX_LENGTH and text.count(",") < grammar.MAX_VALUES


def parse_own(text: str, *, now: datetime) -> Search:
    """Parse a text written by `format`, which may be longer than the search box allows."""
    return parse(text, now=now, max_length=len(text), max_values=len(text))


def normal_states(states: Sequence[JobState]) -> tuple[JobState, ...]:
    """Return states in the order of a job's life; empty for all eight."""
    found = tuple(state for state in JobState if state in states)
    return () if len(found) == len(JobState) else found


def encode_cursor(cursor: JobCursor) -> str:
    """Return a cursor as text for an address; the parameter's name (`after`, `before`) gives its
    direction.
    """
    return (
        str(cursor.id) if cursor.at is None else f"{time_terms.exact_text(cursor.at)}~{cursor.id}"
    )


def decode_cursor(text: str, order: JobOrder, *, before: bool = False) -> JobCursor:
    """Parse a cursor of this order. Raise BadRequest if it is invalid."""
    at, tilde, digits = text.rpartition("~")
    timed = order in (JobOrder.TIME, JobOrder.TIME_DESC)
    if not (_CURSOR_ID.fullmatch(digits) and is_bigint(int(digits))) or bool(tilde) is not timed:
        raise BadRequest(_NO_SUCH_PAGE)
    if not timed:
        return JobCursor(at=None, id=int(digits), before=before)
    try:
        instant = datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%f%z")
    except ValueError:
        raise BadRequest(_NO_SUCH_PAGE) from None
    return JobCursor(at=instant, id=int(digits), before=before)


def value_text(text: str) -> str:
    """Return a name as a value of the search box, quoted if necessary."""
    return text if _PLAIN.fullmatch(text) else json_terms.quoted(text)


def term(field: Field, value: str) -> str:
    """Return the text of the term that finds jobs with exactly this value."""
    return f"{field.value}:{value_text(value)}"


def equal(field: Field, *values: int | str) -> Term:
    """Return the condition that a field is any of these values."""
    return Term(field=field, op=Op.EQ, values=values)


def contains(field: Field, key: str, value: bool | str) -> Term:
    """Return the condition that args or metadata have this value at a key."""
    return Term(field=field, op=Op.CONTAINS, values=(json_terms.dump({key: value}),))


def _hopeless(text: str, start: int, end: int, message: str) -> Search:
    return Search(text=text, problem=SearchError(start=start, end=end, message=message))


def _pattern_text(pattern: str) -> str:
    return "*".join(value_text(piece) if piece else "" for piece in pattern.split("*"))


def _json_value_text(value: object) -> str:
    if not isinstance(value, str) or isinstance(value, json_terms.Number):
        return json_terms.dump(value)
    try:
        bare = (
            _PLAIN.fullmatch(value) and value[0] not in "{[" and json_terms.scalar(value) is value
        )
    except BadRequest:
        bare = False
    return value if bare else json_terms.quoted(value)


def _json_term_text(term: Term) -> str:
    found = [json_terms.scan(str(value), 0)[0] for value in term.values]
    pairs = [json_terms.unnest(value) for value in found]
    paths = {pair[0] for pair in pairs if pair}
    if None in pairs or len(paths) > 1:
        return f"{term.field.value}:{','.join(json_terms.dump(value) for value in found)}"
    values = ",".join(_json_value_text(pair[1]) for pair in pairs if pair)
    return f"{term.field.value}.{json_terms.path_text(paths.pop())}:{values}"


def _term_text(term: Term) -> str:
    if term.op is Op.CONTAINS:
        return _json_term_text(term)
    texts = []
    for value in term.values:
        if isinstance(value, datetime):
            texts.append(time_terms.text_of(term.op, value))
        elif term.op is Op.LIKE and term.field is not Field.ERROR:
            texts.append(_pattern_text(str(value)))
        else:
            texts.append(value_text(str(value)))
    compared = "" if term.op in (Op.EQ, Op.LIKE) else term.op.value
    return f"{term.field.value}:{compared}{','.join(texts)}"


def _field_text(field: Field, text: str) -> str:
    """Return the value of a plain form field as terms of the search text."""
    text = text.strip()
    if field is Field.ERROR and text and not text.startswith(('"', '-"')):
        return f"error:{value_text(text)}"
    if field in grammar.TIMES:
        text = re.sub(r"(\d{4}-\d\d-\d\d)\s+(?=\d\d:)", r"\1T", text)
        text = re.sub(r"([<>]=?)\s+", r"\1", text)
    if '"' not in text:
        text = re.sub(r"\s*,\s*", ",", text)
    terms = []
    at = 0
    while at < len(text):
        negated = text[at] == "-" and at + 1 < len(text)
        start = at + negated
        end = grammar.token_end(text, start)
        joint = ":"
        if field in grammar.JSON:
            if text[start] in "{[":
                end = _json_end(text, start)
            else:
                joint = "."
        terms.append(f"{'-' * negated}{field.value}{joint}{text[start:end]}")
        at = grammar.skip_space(text, end)
    return " ".join(terms)


def _json_end(text: str, at: int) -> int:
    """Return the end of a list of JSON values; an invalid one runs to the end of the text."""
    while True:
        try:
            at = json_terms.scan(text, at)[1]
        except BadRequest:
            return len(text)
        if not text.startswith(",", at):
            return at
        at += 1
