"""The documentation's site: its pages, links, reference and search, as `make docs` builds them."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import riverui
from docs._site import llms, reference, search
from docs._site.nav import places, settings
from docs._site.stage import DOCS, ROOT, pages, prose_lines, slugs
from riverui.cli.api.connect import CLIENT_SETTINGS
from riverui.cli.settings import SETTINGS
from riverui.cli.worker.settings import WORKER_SETTINGS
from tests.docs.programs import RUN_BY, guide

FORGE = sorted({*ROOT.glob("*.md"), *pages().values(), *ROOT.glob("examples/**/*.md")})
"""The pages that a forge shows."""


class Page(HTMLParser):
    """What a built page links to, loads, and can be linked to at."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and (href := given.get("href")):
            self.links.append(href)
        elif tag == "link" and given.get("rel") in ("prev", "next", "canonical"):
            self.links.append(given["href"] or "")
        else:
            loaded = [given.get(name) for name in ("href", "src", "srcset", "data", "poster")]
            self.loads += [each for each in loaded if each]


@cache
def built(site: Path) -> dict[str, Page]:
    """Return each built page by its address below the site's root."""
    found = {
        file.relative_to(site).as_posix().removesuffix("index.html"): Page(file)
        for file in sorted(site.rglob("*.html"))
    }
    assert len(found) > 60
    return found


def test_each_page_has_one_place_in_the_navigation() -> None:
    listed = list(places(settings()["nav"]))
    assert len(listed) == len(set(listed))
    written = set(listed) - {"reference/python/", "reference/commands.md"}
    assert written == set(pages())


def test_links_of_the_site_lead_to_a_page_and_a_place_on_it(site: Path) -> None:
    found = built(site)
    wrong, checked = [], 0
    for address, page in found.items():
        for link in {*page.links, *page.loads}:
            url = urlsplit(urljoin(f"https://site/{address}", link))
            if url.netloc != "site" or url.scheme != "https":
                continue
            checked += 1
            path = unquote(url.path.lstrip("/"))
            target = found.get(path)
            if target is None:
                there = (site / path).is_file()
            else:
                there = unquote(url.fragment) in target.anchors
            if not there:
                wrong.append(f"{address}: {link}")
    assert checked > 2_000
    assert wrong == []


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    foreign = [
        f"{address}: {load}"
        for address, page in built(site).items()
        for load in page.loads
        if urlsplit(load).netloc
    ]
    assert foreign == []
    for style in site.rglob("*.css"):
        assert not re.findall(
            r"(?:url\(|@import) *[\"']?(?:https?:)?//[^)\"']*", style.read_text(encoding="utf-8")
        ), style.name


@cache
def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links."""
    return {slug for _, slug in slugs(page.read_text(encoding="utf-8"))}


def test_links_hold_on_a_forge() -> None:
    wrong, checked = [], 0
    for page in FORGE:
        for line in prose_lines(page.read_text(encoding="utf-8")):
            for link in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", line):
                url = urlsplit(link[0] or link[1])
                if url.scheme:
                    continue
                checked += 1
                target = (page.parent / unquote(url.path)).resolve() if url.path else page
                if not target.exists() or (
                    url.fragment and target.suffix == ".md" and url.fragment not in anchors(target)
                ):
                    wrong.append(f"{page.relative_to(ROOT)}: {line}")
    assert checked > 800
    assert not wrong, "\n".join(wrong)


def test_pages_that_other_tests_run_are_named_there() -> None:
    for name, test in RUN_BY.items():
        assert f"{name.partition('/')[2]}.md" in (ROOT / test).read_text(encoding="utf-8"), name
    assert len(guide()) > 30


def test_the_first_app_of_embedding_is_made_as_it_is_written() -> None:
    page = (DOCS / "dashboard/embedding.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code
    made: dict[str, Any] = {}
    exec(code[1], made)
    assert [route.path for route in made["app"].routes] == ["/riverui"]


def index(site: Path) -> list[dict[str, Any]]:
    """Return what the page's search looks through."""
    items: list[dict[str, Any]] = json.loads((site / "search.json").read_text())["items"]
    return items


def title(item: dict[str, Any]) -> str:
    """Return what the search shows of a title: without the words that are only searched for."""
    shown = re.sub(r"<span hidden.*?</span>", "", item["title"])
    return html.unescape(re.sub(r"<[^>]*>", "", shown))


def test_search_words_stand_in_the_index_and_on_no_page(site: Path) -> None:
    words = search.words_of_pages()
    titles = {item["location"]: item["title"] for item in index(site)}
    assert len(words) > 80
    assert [place for place, more in words.items() if f" {more}</span>" not in titles[place]] == []
    for page in (site / "start/questions/index.html", site / "llms-full.txt"):
        assert "\n<!-- search:" not in page.read_text("utf-8"), page


def test_search_knows_each_public_name(site: Path) -> None:
    titles = {title(item) for item in index(site)}
    names = {*dir(riverui)} - {"__version__"}
    assert len(names) > 100
    assert names - titles - {"errors", "testing"} == set()
    assert {"riverui.errors", "riverui.testing"} <= titles
    for page, entries in reference.contents().items():
        assert {name for name, _ in entries} <= titles, page


def test_search_knows_each_setting(site: Path) -> None:
    text = "\n".join(item["text"] for item in index(site))
    for setting in dict.fromkeys((*SETTINGS, *WORKER_SETTINGS, *CLIENT_SETTINGS)):
        for name in filter(None, (*setting.env_names, setting.flag)):
            assert name in text, name


def test_each_page_stands_in_llms_txt_with_a_line_on_it(site: Path) -> None:
    told = (site / "llms.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^- \[(.+?)\]\((.*?)\): (.+)$", told, re.MULTILINE)
    source = site.parent / "source"
    there = {file.relative_to(source).as_posix() for file in source.rglob("*.md")}
    assert {
        f"{place}index.md" if place.endswith("/") or not place else f"{place}.md"
        for _, place, _ in lines
    } == there
    assert all(3 < len(summary) <= llms.SUMMARY_CHARACTERS + 2 for _, _, summary in lines)


def test_llms_full_txt_holds_all_pages_within_its_bound(site: Path) -> None:
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert len(full.encode()) <= llms.FULL_BYTES
    assert "left out here" not in full
    for file in pages().values():
        assert file.read_text(encoding="utf-8").splitlines()[0] in full


def test_slugs_are_those_of_github() -> None:
    text = "# A b\n## `--x` / [Y](z.md)!\n```\n# no\n```\n## A b\n### 3. snake_case — ö\n"
    assert [slug for _, slug in slugs(text)] == ["a-b", "--x--y", "a-b-1", "3-snake_case--ö"]
