"""docs/questions.md: at least thirty, each short and with a page that answers in full."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "questions.md"
_QUESTION = re.compile(r"^### (.*)\n((?:(?!#).*\n)*)", re.MULTILINE)
QUESTIONS: dict[str, str] = dict(_QUESTION.findall(PAGE.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links, as forges and the site name them."""
    without_code = re.sub(
        r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    }


def test_there_are_thirty_at_least() -> None:
    assert len(QUESTIONS) >= 30
    assert [title for title in QUESTIONS if not title.endswith("?")] == []


@pytest.mark.parametrize("title", QUESTIONS)
def test_a_question_is_answered_shortly_and_leads_to_a_page(title: str) -> None:
    answer = re.sub(r"<!--.*?-->", "", QUESTIONS[title])
    words, arrow, links = answer.partition("→")
    assert arrow, "where is the long answer?"
    assert 1 <= len(re.findall(r"[.:!](?=\s|$)", words.strip())) <= 5
    targets = re.findall(r"\]\((?!https:)([^)#]+)(?:#([^)]+))?\)", links)
    assert targets
    for page, anchor in targets:
        assert (DOCS / page).is_file(), page
        assert not anchor or anchor in anchors(DOCS / page), f"{page}#{anchor}"


@pytest.mark.parametrize(
    "page",
    ["start-dashboard", "start-worker", "states", "guarantees", "leader", "not-stored", "compare"],
)
def test_links_of_the_pages_about_it_hold_to_the_heading(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for name, anchor in re.findall(r"\]\(([\w/-]*(?:\.md)?)#([^)]+)\)", text):
        assert anchor in anchors(DOCS / name if name else DOCS / f"{page}.md"), f"{name}#{anchor}"
    for test in re.findall(r"`(tests/[\w/]+\.py)`", text):
        assert (DOCS.parent / test).is_file(), test
