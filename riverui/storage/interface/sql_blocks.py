"""Reads named SQL blocks from .sql files, fills their slots with fragments and numbers parameters.

The files run in psql unchanged: parameters are psql's own `:name`, and a slot is a comment,
either `/* slot */` (nothing by default) or `/* slot: */ default /* :slot */`. A block is a whole
statement (`-- name: job_list`) or a part that fits into a slot of another block (`-- part:
job_term (job_list_by_id.terms)`; the tests check each part in the place that it names).

A slot takes only a `Fragment`, so no text from outside becomes SQL: user input is always the value
of a parameter.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(r"^-- (?:name: (\w+)|part: (\w+) \((\w+)\.(\w+)\))[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*--.*$", re.MULTILINE)
_TOKEN = re.compile(
    r"/\* (?P<begin>\w+): \*/|/\* :(?P<end>\w+) \*/|/\* (?P<slot>\w+) \*/"
    r"|(?<![:\w]):(?P<parameter>[a-z]\w*)"
)
_WORD = re.compile(r"[a-z_]+|[<>]=?|=")
_SEPARATOR = re.compile(r"[a-z, ]*")
_MAX_FILES = 128
"""Files whose parsed blocks are cached, so that the next driver of the same process, also with
another schema, need not parse them: three times the 37 of the Postgres driver.
"""
_MAX_TEXTS = 512
"""Statements whose text is cached before the cache is cleared; see _MAX_COLUMNS."""
_MAX_COLUMNS = 512
"""SQL texts whose columns are cached before the cache is cleared: more than the statements that
run repeatedly, so that it is filled only by statements made for one filter.
"""

Row = tuple[Any, ...]


def qualify(text: str, schema: str | None) -> str:
    """Return SQL with every `/* schema */` replaced by the quoted schema and a dot, or by
    nothing.
    """
    return text.replace("/* schema */", f'"{schema}".' if schema else "")


class Block(NamedTuple):
    """One block of a file, without comment lines; a part fits `slot` of the block `host`."""

    name: str
    sql: str
    host: str | None
    slot: str | None


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the blocks of a file's text."""
    parts = _BLOCK.split(text)
    for name, part, host, slot, body in zip(*(parts[n::5] for n in range(1, 6)), strict=True):
        sql = _COMMENT.sub("", body).strip().removesuffix(";")
        yield Block(name or part, sql, host, slot)


def read_blocks(text: str) -> dict[str, str]:
    """Return name → SQL of the blocks of a file's text, without comment lines."""
    return {block.name: block.sql for block in blocks_of(text)}


class Placeholder(NamedTuple):
    """A place for a value."""

    name: str


class Slot(NamedTuple):
    """A place for a fragment, with its default."""

    name: str
    default: Pieces


class Fragment:
    """A piece of SQL: a block by its name, what fills its slots, and the values of its parameters.

    A parameter without a value takes that of the enclosing fragment. Fragments of one statement may
    use the same names, each with its own value.
    """

    __slots__ = ("fixed", "key", "slots", "source", "values")

    def __init__(
        self,
        source: str | Pieces,
        values: Mapping[str, Any] | None = None,
        /,
        **slots: Fragment,
    ) -> None:
        self.source = source
        """The name of a block, or pieces: words, fragments, a program's own SQL."""
        self.values: Mapping[str, Any] = values or {}
        self.slots = slots
        keys = [part.fixed for part in slots.values()]
        pieces: Hashable = source
        if not isinstance(source, str):
            parts = [piece for piece in source if isinstance(piece, Fragment)]
            keys += [part.fixed for part in parts]
            pieces = tuple([None if piece in parts else piece for piece in source])
        self.key: Hashable = None if None in keys else (pieces, *slots, *keys)
        """Which pieces are in which slots; None if those have values, as every filter has its
        own.
        """
        self.fixed: Hashable = None if values else self.key
        """The same, None also if this fragment has values itself."""


def word(text: str) -> Fragment:
    """Return a bare name or a comparison; ValueError for anything else."""
    if not _WORD.fullmatch(text):
        raise ValueError(f"not a word of SQL: {text!r}")
    return Fragment((text,))


def join(fragments: Iterable[Fragment], separator: str = " ") -> Fragment:
    """Return the fragments joined by a separator; ValueError if that has more than bare words and
    commas.
    """
    if not _SEPARATOR.fullmatch(separator):
        raise ValueError(f"not a separator: {separator!r}")
    pieces: list[Piece] = []
    for fragment in fragments:
        pieces += (separator, fragment) if pieces else (fragment,)
    return Fragment(tuple(pieces))


EMPTY = Fragment(())
"""Empties a slot that has a default."""

Piece = str | Placeholder | Slot | Fragment
Pieces = tuple[Piece, ...]


def parse_block(text: str) -> Pieces:
    """Return a block's text in pieces; ValueError if a slot does not end."""
    open_slots: list[str] = []
    levels: list[list[Piece]] = [[]]
    place = 0
    for match in _TOKEN.finditer(text):
        levels[-1].append(text[place : match.start()])
        place = match.end()
        if begun := match["begin"]:
            open_slots.append(begun)
            levels.append([])
        elif ended := match["end"]:
            if not open_slots or open_slots.pop() != ended:
                raise ValueError(f"the slot {ended} ends without a beginning")
            default = tuple(levels.pop())
            levels[-1].append(Slot(ended, default))
        elif slot := match["slot"]:
            levels[-1].append(Slot(slot, ()))
        else:
            levels[-1].append(Placeholder(match["parameter"]))
    if open_slots:
        raise ValueError(f"the slot {open_slots[-1]} has no end")
    return (*levels[0], text[place:])


def _slots(pieces: Pieces) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, Slot):
            yield piece.name
            yield from _slots(piece.default)


class _Writer:
    """Writes a fragment as one text with `$1`, `$2`, … for its parameters."""

    def __init__(self, blocks: Mapping[str, Pieces], slots: Mapping[str, Collection[str]]) -> None:
        self._blocks = blocks
        self._slots = slots
        self._written: list[str] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self.parameters: list[tuple[Fragment, str]] = []
        """The fragment that has the value of each parameter in order, and its name there."""

    @property
    def text(self) -> str:
        """The text written so far."""
        return "".join(self._written)

    def write(self, fragment: Fragment, around: tuple[Fragment, ...] = ()) -> None:
        """Write a fragment nested in others, the innermost of `around` last."""
        source = fragment.source
        if isinstance(source, str):
            if unknown := fragment.slots.keys() - self._slots[source]:
                raise KeyError(f"{source} has no slot {', '.join(sorted(unknown))}")
            source = self._blocks[source]
        self._pieces(source, (*around, fragment))

    def _pieces(self, pieces: Pieces, scope: tuple[Fragment, ...]) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                self._written.append(piece)
            elif isinstance(piece, Placeholder):
                self._parameter(piece.name, scope)
            elif isinstance(piece, Fragment):
                self.write(piece, scope)
            elif (filled := scope[-1].slots.get(piece.name)) is not None:
                self.write(filled, scope)
            else:
                self._pieces(piece.default, scope)

    def _parameter(self, name: str, scope: tuple[Fragment, ...]) -> None:
        owner = next((part for part in reversed(scope) if name in part.values), scope[0])
        key = (id(owner), name)
        if key not in self._numbers:
            self.parameters.append((owner, name))
            self._numbers[key] = len(self.parameters)
        self._written.append(f"${self._numbers[key]}")


def _text_key(fragment: Fragment, owners: list[Fragment], seen: dict[int, int]) -> Hashable:
    """Return what the text of a fragment depends on: all but its values. `owners` collects the
    fragments that may have values, each once, and `seen` their positions in it by identity.
    """
    if fragment.fixed is not None and owners:
        return fragment.fixed
    place = seen.setdefault(id(fragment), len(owners))
    if place == len(owners):
        owners.append(fragment)
    source: Hashable = fragment.source
    if not isinstance(fragment.source, str):
        source = tuple(
            [
                _text_key(piece, owners, seen) if isinstance(piece, Fragment) else piece
                for piece in fragment.source
            ]
        )
    slots = [(name, _text_key(part, owners, seen)) for name, part in fragment.slots.items()]
    return source, place, (*fragment.values,), (*slots,)


class _Parsed(NamedTuple):
    """One block, ready to be written."""

    text: str
    pieces: Pieces
    slots: frozenset[str]


@lru_cache(maxsize=_MAX_FILES)
def _parsed(text: str) -> Mapping[str, _Parsed]:
    """Return the blocks of a file's text by their names."""
    found: dict[str, _Parsed] = {}
    for name, block in read_blocks(text).items():
        pieces = parse_block(block)
        found[name] = _Parsed(block, pieces, frozenset(_slots(pieces)))
    return found


@lru_cache(maxsize=512)
def number(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a block's text with `$1`, `$2`, … for its parameters, and their names in that
    order.
    """
    writer = _Writer({}, {})
    writer.write(Fragment(parse_block(text)))
    return writer.text, tuple(name for _, name in writer.parameters)


class Queries:
    """All blocks of some files, for one schema."""

    def __init__(self, files: Iterable[Path], schema: str | None) -> None:
        blocks: dict[str, _Parsed] = {}
        self._ready: dict[Hashable, tuple[str, tuple[tuple[int, str], ...]]] = {}
        self._columns: dict[str, tuple[str, ...]] = {}
        for file in files:
            more = _parsed(qualify(file.read_text(encoding="utf-8"), schema))
            if twice := more.keys() & blocks.keys():
                raise KeyError(f"SQL block named twice: {', '.join(sorted(twice))}")
            blocks.update(more)
        self._texts = {name: block.text for name, block in blocks.items()}
        self._blocks = {name: block.pieces for name, block in blocks.items()}
        self._slots = {name: block.slots for name, block in blocks.items()}

    @property
    def names(self) -> Sequence[str]:
        """Every block's name."""
        return tuple(self._texts)

    def text(self, name: str) -> str:
        """Return the text of one block in its file, for this schema."""
        return self._texts[name]

    def render(self, statement: Fragment) -> tuple[str, list[Any]]:
        """Return a statement's SQL with numbered parameters, and their values in that order.

        KeyError for an unknown block or slot, and for a parameter without a value. The SQL is
        cached for fragments of the same shape with other values.
        """
        owners: list[Fragment] = []
        shape = _text_key(statement, owners, {})
        ready = self._ready.get(shape)
        if ready is None:
            writer = _Writer(self._blocks, self._slots)
            writer.write(statement)
            places = {id(owner): place for place, owner in enumerate(owners)}
            parameters = tuple((places[id(owner)], name) for owner, name in writer.parameters)
            if len(self._ready) >= _MAX_TEXTS:
                self._ready.clear()
            ready = self._ready[shape] = writer.text, parameters
        text, parameters = ready
        return text, [owners[place].values[name] for place, name in parameters]

    def columns(self, text: str, read: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Return the names of the columns of a statement's result, `read` from its first
        result.
        """
        names = self._columns.get(text)
        if names is None:
            if len(self._columns) >= _MAX_COLUMNS:
                self._columns.clear()
            names = self._columns[text] = read()
        return names


class Rows(list[Row]):
    """The result of a statement. Columns are read by name, not by position."""

    __slots__ = ("names",)

    def __init__(self, rows: Iterable[Row] = (), names: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.names = tuple(names)
        """The columns in order; empty for a statement without a result."""

    def records(self) -> list[Any]:
        """Return the rows with their columns as attributes."""
        return list(map(_record(self.names), self))

    def first(self) -> Any:
        """Return the first row with its columns as attributes, None if there is none."""
        return _record(self.names)(self[0]) if self else None

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Return each column's values in the order of the rows: the fastest way for many rows."""
        columns = zip(*self, strict=True) if self else repeat((), len(self.names))
        return dict(zip(self.names, columns, strict=True))

    def column(self, name: str) -> list[Any]:
        """Return one column's values in the order of the rows."""
        place = self.names.index(name)
        return [row[place] for row in self]

    def values(self) -> list[Any]:
        """Return the values of the only column."""
        return [value for (value,) in self]

    def value(self) -> Any:
        """Return the first of `values`, None without a row."""
        if not self:
            return None
        (value,) = self[0]
        return value


@lru_cache(maxsize=512)
def _record(names: tuple[str, ...]) -> Callable[[Row], Any]:
    """Return a function that makes a row a named tuple; one class for each list of names."""
    record: Any = namedtuple("Record", names)  # type: ignore[misc]
    make: Callable[[Row], Any] = record._make
    return make
