"""Facts with any values of their fields' types, for tests of what holds whatever is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from riverui.domain.figures import Figures, Tally
from riverui.domain.findings import Unread
from riverui.domain.health.slo import Objective, ObjectiveFigures
from riverui.domain.jobs import UNKNOWN_KIND, JsonText
from riverui.domain.partitions import Partition
from riverui.domain.time import FIRST, LAST
from tests.health_facts import NOW, SECOND, figures, tally

T = TypeVar("T")

UNREAD = Unread(why="The query took too long.")
_COUNTS = st.integers(0, 1_000)
_SPANS = st.integers(-(10**5), 10**6).map(lambda seconds: seconds * SECOND)
_TIMES = st.sampled_from([FIRST, LAST, NOW]) | _SPANS.map(lambda span: NOW - span)
_NAMES = st.sampled_from(["mail", "hooks", "mail_send", "*", "a", "k" * 200])
_TALLIES = st.builds(
    tally,
    st.integers(0, 500),
    st.integers(0, 500),
    wait=st.integers(0, 10**5).map(lambda s: s * SECOND),
    run=st.integers(0, 10**5).map(lambda s: s * SECOND),
)
_PARTITIONS = st.sampled_from([Partition(by_args=("a",)), Partition(by_kind=True)])
_FIGURES = st.builds(
    lambda tallies, pairs, read_at, complete: figures(
        lambda ago: tallies[ago % len(tallies)], pairs, read_at=read_at, complete=complete
    ),
    st.lists(st.none() | _TALLIES, min_size=1, max_size=6),
    st.dictionaries(st.tuples(_NAMES, _NAMES), _TALLIES, max_size=3),
    st.none() | _TIMES,
    st.booleans(),
)
_CHOSEN: Mapping[Any, st.SearchStrategy[Any]] = {
    int: _COUNTS,
    str: _NAMES,
    float: st.floats(0, 1),
    bool: st.booleans(),
    bytes: st.none(),
    datetime: _TIMES,
    timedelta: st.timedeltas(timedelta(0), timedelta(days=9)),
    NoneType: st.none(),
    JsonText: st.just(JsonText(text="{}", size=2)),
    Partition: _PARTITIONS,
    Tally: _TALLIES,
    Unread: st.just(UNREAD),
    Figures: _FIGURES,
    Sequence[ObjectiveFigures]: st.lists(
        st.builds(
            ObjectiveFigures,
            objective=st.builds(
                Objective, queue=_NAMES, target=st.floats(0.9, 0.999), within=_SPANS
            ),
            hour=_FIGURES,
            hours=_FIGURES,
        ),
        max_size=1,
    ),
}
"""Values of types that allow not everything, or whose values the facts are compared with."""
_NAMED: Mapping[str, st.SearchStrategy[Any]] = {
    "cap": st.sampled_from([3, 1_000]),
    "error": st.sampled_from(["boom", UNKNOWN_KIND]),
    "priority": st.integers(1, 4),
}
"""Values of numbers and texts by the names of their fields."""


def anything(made: type[T], **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Return instances of a class with any values of its fields' types, but for those chosen."""
    hints = {name: hint for name, hint in get_type_hints(made).items() if name not in chosen}
    return st.builds(made, **chosen, **{name: _value(hint, name) for name, hint in hints.items()})


def _value(hint: Any, name: str) -> st.SearchStrategy[Any]:
    """Return values of a type, for a field of this name."""
    if hint in (int, str) and name in _NAMED:
        return _NAMED[name]
    if hint in _CHOSEN:
        return _CHOSEN[hint]
    parts = [_value(part, name) for part in get_args(hint) if part is not ...]
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return st.one_of(parts)
    if origin in (Mapping, dict):
        return st.dictionaries(*parts, max_size=3)
    if origin is frozenset:
        return st.frozensets(*parts, max_size=3)
    if origin is tuple and ... not in get_args(hint):
        return st.tuples(*parts)
    if origin in (Sequence, tuple):
        return st.lists(*parts, max_size=4).map(tuple)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return anything(hint)
