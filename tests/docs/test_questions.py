"""docs/start/questions.md: at least thirty, each short and with a page that answers in full."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "start/questions.md"
_QUESTION = re.compile(r"^### (.*)\n((?:(?!#).*\n)*)", re.MULTILINE)
QUESTIONS: dict[str, str] = dict(_QUESTION.findall(PAGE.read_text(encoding="utf-8")))


def test_there_are_thirty_at_least() -> None:
    assert len(QUESTIONS) >= 30
    assert [title for title in QUESTIONS if not title.endswith("?")] == []


def test_a_question_is_answered_shortly_and_leads_to_a_page() -> None:
    """That its links hold is asked in `test_site.py`, of every page."""
    wrong = []
    for title, text in QUESTIONS.items():
        answer = re.sub(r"<!--.*?-->", "", text)
        words, _, links = answer.partition("→")
        sentences = len(re.findall(r"[.:!](?=\s|$)", words.strip()))
        if not 1 <= sentences <= 5:
            wrong.append(f"{title} is answered in {sentences} sentences")
        if not re.search(r"\]\((?!https:)[^)#]+\.md(?:#[^)]+)?\)", links):
            wrong.append(f"{title} leads to no page with a long answer")
    assert not wrong, "\n".join(wrong)


def test_the_tests_that_pages_name_exist() -> None:
    named = {
        f"{page.name}: {test}": DOCS.parent / test
        for page in DOCS.rglob("*.md")
        for test in re.findall(r"`(tests/[\w/]+\.py)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    missing = [name for name, file in named.items() if not file.is_file()]
    assert not missing, "\n".join(missing)
