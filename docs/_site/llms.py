"""Write llms.txt, the list of pages with a line on each, and llms-full.txt with all pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs._site.nav import places
from docs._site.stage import REPOSITORY, prose_lines

FULL_BYTES = 1_500_000
"""Maximum bytes of llms-full.txt, about 400,000 tokens: more than that fits no model at once. Pages
beyond it are named and omitted.
"""
SUMMARY_CHARACTERS = 200
"""Characters of a page's summary in llms.txt: a sentence or two."""
_NO_PROSE = ("", "#", "|", "-", "<", ">", "!", "{")
"""The first characters of headings, tables, lists and pictures."""
_ATTRIBUTES = re.compile(r" \{: #[^}]*\}$", re.MULTILINE)


def write(site: Path, source: Path, project: Mapping[str, Any]) -> None:
    """Write both files into the site, in the order of its navigation."""
    head = f"# {project['site_name']}\n\n> {project['site_description']}\n\n"
    brief = [head, f"All pages in one file: llms-full.txt. Source: {REPOSITORY}\n"]
    full = head
    for entry in project["nav"]:
        ((title, inner),) = entry.items()
        brief.append(f"\n## {title}\n\n")
        for place in places(inner):
            text = _ATTRIBUTES.sub("", (source / place).read_text(encoding="utf-8"))
            address = place.removesuffix(".md").removesuffix("index")
            brief.append(f"- [{heading(text)}]({address}): {summary(text)}\n")
            part = f"---\n\nPage: /{address}\n\n{text.strip()}\n\n"
            fits = len((full + part).encode()) <= FULL_BYTES
            full += part if fits else f"---\n\nPage: /{address} (left out here)\n\n"
    (site / "llms.txt").write_text("".join(brief), encoding="utf-8")
    (site / "llms-full.txt").write_text(full, encoding="utf-8")


def heading(markdown: str) -> str:
    """Return a page's title."""
    return next(line[2:].strip() for line in markdown.splitlines() if line.startswith("# "))


def summary(markdown: str) -> str:
    """Return the first sentences of a page as plain text, truncated if they are long."""
    paragraphs = "\n".join(prose_lines(markdown)).split("\n\n")
    first = next((each for each in map(str.strip, paragraphs) if each[:1] not in _NO_PROSE), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).replace("**", "")
    if len(plain) <= SUMMARY_CHARACTERS:
        return plain
    cut = plain[:SUMMARY_CHARACTERS]
    return cut[: cut.rindex(". ") + 1] if ". " in cut else cut[: cut.rindex(" ")] + " …"
