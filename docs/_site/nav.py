"""Read zensical.toml and its navigation."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from docs._site import reference
from docs._site.stage import ROOT

Nav: TypeAlias = "str | Mapping[str, str | Sequence[Nav]]"
"""An entry of the navigation, as in MkDocs: a page, a titled page, or a titled list."""


def settings() -> dict[str, Any]:
    """Return the settings of zensical.toml under their names in MkDocs."""
    with (ROOT / "zensical.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def nav(entries: Sequence[Nav]) -> list[Nav]:
    """Return the navigation with the generated pages in their places."""
    made: list[Nav] = []
    for entry in entries:
        if isinstance(entry, str):
            made += reference.names() if entry == reference.FOLDER else [entry]
        else:
            made.append(
                {
                    title: inner if isinstance(inner, str) else nav(inner)
                    for title, inner in entry.items()
                }
            )
    return made


def places(entries: Sequence[Nav]) -> Iterator[str]:
    """Yield the page of each entry, including those of groups."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from [inner] if isinstance(inner, str) else places(inner)
