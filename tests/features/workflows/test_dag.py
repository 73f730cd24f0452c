"""The checks of a workflow's tasks."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from riverui.errors import (
    DependencyCycleError,
    DuplicateTaskError,
    InsertError,
    MissingDependencyError,
)
from riverui.features.workflows.domain.dag import check_name, downstream, in_order


@st.composite
def dags(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw tasks that wait for earlier ones, in any order."""
    count = draw(st.integers(0, 12))
    names = [f"t{number}" for number in range(count)]
    tasks = [
        (name, draw(st.lists(st.sampled_from(names[:place]), max_size=4)) if place else [])
        for place, name in enumerate(names)
    ]
    return dict(draw(st.permutations(tasks)))


@given(dags())
def test_tasks_come_behind_those_that_they_wait_for(deps: dict[str, list[str]]) -> None:
    ordered = in_order(deps)
    assert sorted(ordered) == sorted(deps)
    places = {name: place for place, name in enumerate(ordered)}
    assert all(places[dep] < places[name] for name, names in deps.items() for dep in names)


@given(dags(), st.data())
def test_a_circle_is_found_and_told(deps: dict[str, list[str]], data: st.DataObject) -> None:
    ordered = in_order(deps)
    if not ordered:
        return
    last = data.draw(st.sampled_from(ordered))
    first = data.draw(st.sampled_from(sorted(_behind(deps, last))))
    deps[first] = [*deps[first], last]
    with pytest.raises(DependencyCycleError, match=r"itself|circle"):
        in_order(deps)


def _behind(deps: dict[str, list[str]], name: str) -> set[str]:
    """Return a task and all its dependencies, direct and indirect."""
    found = {name}
    for dep in deps[name]:
        found |= _behind(deps, dep)
    return found


@given(dags())
def test_downstream_is_the_other_way_round(deps: dict[str, list[str]]) -> None:
    for root in deps:
        assert downstream(deps, [root]) == {name for name in deps if root in _behind(deps, name)}


def test_the_circle_is_named() -> None:
    with pytest.raises(DependencyCycleError, match=r"'b' → 'c' → 'b'\.|'c' → 'b' → 'c'\."):
        in_order({"a": ["b"], "b": ["c"], "c": ["b"]})
    with pytest.raises(DependencyCycleError, match="Task 'a' waits for itself"):
        in_order({"a": ["a"]})
    ring = {f"t{number}": [f"t{(number + 1) % 20_000}"] for number in range(20_000)}
    with pytest.raises(DependencyCycleError, match=r"… \(20,000 tasks\)") as raised:
        in_order(ring)
    assert len(str(raised.value)) < 300


def test_what_is_not_there_or_twice() -> None:
    with pytest.raises(MissingDependencyError, match="'a' waits for 'b'"):
        in_order({"a": ["b"]})
    assert in_order({"a": ["b"]}, {"b"}) == ["a"]
    assert in_order({"a": ["b"]}, None) == ["a"]
    with pytest.raises(DuplicateTaskError, match="'a'"):
        in_order({"a": []}, {"a"})


def test_a_long_chain_and_a_wide_join() -> None:
    chain = {f"t{number}": [f"t{number + 1}"] for number in range(20_000)} | {"t20000": []}
    assert in_order(chain)[0] == "t20000"
    names = [f"t{number}" for number in range(20_000)]
    assert in_order({"all": names, **dict.fromkeys(names, ())})[-1] == "all"


@pytest.mark.parametrize("name", ["", "  ", None, 7, "x" * 201, "a\0b", "\ud800"])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(InsertError) as raised:
        check_name(name)
    str(raised.value).encode()


@pytest.mark.parametrize("name", ["x" * 200, "Prüfung №1 🎉", "a\"b'c\\d{},", "a\nb", "🎉" * 200])
def test_odd_names(name: str) -> None:
    assert check_name(name) == name
