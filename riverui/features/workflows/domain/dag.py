"""Checks the tasks of a workflow: their names, missing dependencies and cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from riverui.errors import (
    DependencyCycleError,
    DuplicateTaskError,
    InsertError,
    MissingDependencyError,
)

MAX_TASK_NAME = 200
"""Characters of a task's name: room for a sentence, and three fit into one index entry."""
MAX_WORKFLOW_ID = 128
"""Characters of a workflow's id: River's limit for its own ids."""
MAX_WORKFLOW_NAME = 1_000
"""Characters of a workflow's name."""
_SHOWN = 80
"""Characters of a name that an error quotes."""
_MAX_OF_CYCLE = 10
"""Tasks of a cycle that an error names."""


def check_name(name: object, what: str = "task", most: int = MAX_TASK_NAME) -> str:
    """Return the name of a task, or of `what`. Raise InsertError if it is empty, too long, or
    cannot be stored by Postgres.
    """
    if not isinstance(name, str) or not name.strip():
        raise InsertError(f"A {what} needs a name that is a text, not {shown(name)}.")
    if len(name) > most:
        raise InsertError(
            f"The {what} {shown(name)} has {len(name):,} characters: at most {most:,}."
        )
    return check_text(name, what)


def check_text(text: str, what: str) -> str:
    """Return the text; raise InsertError if Postgres cannot store it."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InsertError(f"The {what} {shown(text)} has characters that Postgres cannot store.")
    return text


def shown(name: object) -> str:
    """Return a name as an error quotes it, shortened if long."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def in_order(deps: Mapping[str, Sequence[str]], existing: Collection[str] | None = ()) -> list[str]:
    """Return the names of new tasks, each after those it waits for, otherwise in the given order.

    `deps` has the dependencies of each, `existing` the tasks already inserted; None if these are
    unknown and will be checked on insert. Raise DuplicateTaskError, MissingDependencyError or
    DependencyCycleError if the tasks are no workflow.
    """
    known = existing if existing is not None else ()
    for name in deps:
        if name in known:
            raise DuplicateTaskError(f"The workflow already has a task {shown(name)}.")
    waits: dict[str, int] = {}
    followers: dict[str, list[str]] = {}
    for name, names in deps.items():
        own = dict.fromkeys(names)
        if existing is not None:
            for dep in own:
                if dep not in deps and dep not in known:
                    raise MissingDependencyError(
                        f"Task {shown(name)} waits for {shown(dep)}, which is not a task of the"
                        " workflow."
                    )
        inner = [dep for dep in own if dep in deps]
        waits[name] = len(inner)
        for dep in inner:
            followers.setdefault(dep, []).append(name)
    ready = deque(name for name, count in waits.items() if not count)
    ordered: list[str] = []
    while ready:
        name = ready.popleft()
        ordered.append(name)
        for follower in followers.get(name, ()):
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    if len(ordered) < len(deps):
        raise DependencyCycleError(
            _cycle_message(_cycle(deps, [name for name in waits if waits[name]]))
        )
    return ordered


def downstream(deps: Mapping[str, Iterable[str]], roots: Iterable[str]) -> set[str]:
    """Return the roots and all tasks that wait for one of them, directly or indirectly."""
    followers: dict[str, list[str]] = {}
    for name, names in deps.items():
        for dep in names:
            followers.setdefault(dep, []).append(name)
    found = set(roots)
    ahead = list(found)
    while ahead:
        for follower in followers.get(ahead.pop(), ()):
            if follower not in found:
                found.add(follower)
                ahead.append(follower)
    return found


def _cycle(deps: Mapping[str, Sequence[str]], left: Sequence[str]) -> list[str]:
    """Return the tasks of one cycle among those that cannot be ordered; each waits for the next,
    the last for the first.
    """
    among = set(left)
    path: dict[str, int] = {}
    name = left[0]
    while name not in path:
        path[name] = len(path)
        name = next(dep for dep in deps[name] if dep in among)
    return list(path)[path[name] :]


def _cycle_message(cycle: Sequence[str]) -> str:
    names = [shown(name) for name in cycle[:_MAX_OF_CYCLE]]
    if len(cycle) > _MAX_OF_CYCLE:
        names.append(f"… ({len(cycle):,} tasks)")
    if len(cycle) == 1:
        return f"Task {names[0]} waits for itself."
    return f"Tasks wait for one another in a circle: {' → '.join([*names, names[0]])}."
