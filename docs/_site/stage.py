"""Copy the pages of docs/ to where the site is built from, with the anchors that a forge gives to
headings, and addresses for files outside of docs/.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/riverui/riverui"
"""Where files that are not pages of the site can be read."""
FROM_THE_TOP = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
}
"""Pages outside of docs/, and their names in the site."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^(#{1,6}) +(.*?)(?: +#+)? *$")
SEARCH_WORDS = re.compile(r"^<!-- search: (.*) -->$")
"""A line below a heading: additional words for the site's search."""
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)(#[^)\s]*)?(?=\))")


def pages() -> dict[str, Path]:
    """Return the file of each written page by its address, relative to the site."""
    written = {
        file.relative_to(DOCS).as_posix(): file
        for file in sorted(DOCS.rglob("*.md"))
        if file.relative_to(DOCS).parts[0] != "_site"
    }
    return written | {name: ROOT / file for file, name in FROM_THE_TOP.items()}


def slugs(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield each heading and the anchor that a forge gives it: GitHub's rule."""
    seen: dict[str, int] = {}
    for line in prose_lines(markdown):
        if heading := _HEADING.match(line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2]).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            again = seen.get(slug, 0)
            seen[slug] = again + 1
            yield text, f"{slug}-{again}" if again else slug


def prose_lines(markdown: str) -> Iterator[str]:
    """Yield the lines of a page, with code replaced by empty lines."""
    fence = ""
    for line in markdown.splitlines():
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not line.strip(" `~")
            fence = "" if closes else fence
            yield ""
        elif found:
            fence = found[1]
            yield ""
        else:
            yield line


def map_prose(markdown: str, change: Callable[[str], str]) -> str:
    """Return the page with each line outside of code changed."""
    lines = zip(markdown.splitlines(), prose_lines(markdown), strict=True)
    return "\n".join(change(prose) if prose else line for line, prose in lines) + "\n"


def staged(name: str, file: Path) -> str:
    """Return a page as the site is built from it."""
    markdown = file.read_text(encoding="utf-8")
    anchors = iter([slug for _, slug in slugs(markdown)])

    def line_of_the_site(line: str) -> str:
        if SEARCH_WORDS.match(line):
            return ""
        line = _LINK.sub(lambda link: target(name, file, link[1]) + (link[2] or ""), line)
        return f"{line} {{: #{next(anchors)} }}" if _HEADING.match(line) else line

    return map_prose(markdown, line_of_the_site)


def target(name: str, file: Path, link: str) -> str:
    """Return the target of a page's relative link in the site: another file of the site, or one of
    the repository.
    """
    path = posixpath.normpath((file.parent.relative_to(ROOT) / link).as_posix())
    if path in FROM_THE_TOP:
        path = FROM_THE_TOP[path]
    elif path.startswith("docs/"):
        path = path.removeprefix("docs/")
    else:
        return f"{REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
    return posixpath.relpath(path, posixpath.dirname(name) or ".")


def stage(folder: Path) -> None:
    """Write all pages and their pictures to a folder."""
    for name, file in pages().items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(staged(name, file), encoding="utf-8")
    shutil.copytree(DOCS / "screens", folder / "screens")
    (folder / "assets").mkdir()
    for asset in ("static/favicon.svg", "docs/_site/site.css", "docs/_site/site.js"):
        shutil.copy(ROOT / asset, folder / "assets")
