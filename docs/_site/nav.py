"""Reads zensical.toml and its navigation."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from docs._site import reference
from docs._site.stage import ROOT

Nav: TypeAlias = "str | Mapping[str, str | Sequence[Nav]]"
"""An entry of the navigation, as MkDocs has them: a page, a titled page, or a titled list."""


def settings() -> dict[str, Any]:
    """Return what zensical.toml says, in the names that MkDocs has."""
    with (ROOT / "zensical.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def nav(source: Path) -> Iterator[Nav]:
    """Yield the navigation, without the pages that are not there and with the generated ones."""
    for entry in settings()["nav"]:
        yield from _present(entry, source)


def _present(entry: Nav, source: Path) -> Iterator[Nav]:
    if isinstance(entry, str):
        if entry.endswith("/"):
            yield from reference.names(entry)
        elif (source / entry).exists():
            yield entry
        return
    ((title, inner),) = entry.items()
    if isinstance(inner, str):
        if (source / inner).exists():
            yield entry
    elif present := [each for part in inner for each in _present(part, source)]:
        yield {title: present}


def places(entries: Sequence[Nav]) -> Iterator[str]:
    """Yield the page of each entry, those of groups too."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from [inner] if isinstance(inner, str) else places(inner)
