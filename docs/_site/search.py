"""Let the site's search find a page by its readers' words, and a guide before a class name.

The theme's search ranks titles before text, and titles by how near the word is to the front. So the
words of a heading's `<!-- search: … -->` become a hidden end of its title, and pages that should
come last get a hidden beginning.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs._site.stage import SEARCH_WORDS, pages, prose_lines, slugs

BEHIND = ("reference/python/", "reference/commands/", "reference/pro/", "project/")
"""Pages that rank below all others with the same word: names, lists, pages for developers."""
_HIDDEN = '<span hidden="hidden">{}</span>'
_FAR = _HIDDEN.format(" ·" * 40 + " ")
"""Enough meaningless words that the word is nearer to the front in each written title."""


def words_of_pages() -> dict[str, str]:
    """Return the additional search words of headings, by the address of the heading."""
    return dict(
        found for name, file in pages().items() for found in words_of(name, file.read_text("utf-8"))
    )


def words_of(name: str, markdown: str) -> Iterator[tuple[str, str]]:
    """Yield the address and the additional words of each heading of a page that has some."""
    page = re.sub(r"(^|/)index$", r"\1", posixpath.splitext(name)[0])
    address = f"{page}/" if page else ""
    anchors = iter([slug for _, slug in slugs(markdown)])
    current = address
    for line in prose_lines(markdown):
        if re.match("#{1,6} ", line):
            anchor = next(anchors)
            current = address if line.startswith("# ") else f"{address}#{anchor}"
        elif found := SEARCH_WORDS.match(line):
            yield current, found[1]


def improve(site: Path) -> None:
    """Rewrite the built site's search.json."""
    file = site / "search.json"
    index: dict[str, Any] = json.loads(file.read_text("utf-8"))
    words = words_of_pages()
    for item in index["items"]:
        if item["location"].startswith(BEHIND):
            item["title"] = _FAR + item["title"]
        elif more := words.pop(item["location"], None):
            item["title"] += _HIDDEN.format(f" {more}")
    if words:
        raise ValueError(f"search words below no heading of the site: {words}")
    file.write_text(json.dumps(index, ensure_ascii=False), "utf-8")
