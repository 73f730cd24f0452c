"""The rows of a statement, read by the names of their columns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

Row = tuple[Any, ...]


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
