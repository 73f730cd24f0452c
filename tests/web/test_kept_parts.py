"""Parts of pages are drawn once for what they are made of, and for nothing else."""

from __future__ import annotations

import re

from httpx2 import AsyncClient

from riverui.web.view.render import KeptParts


def test_a_part_is_drawn_once_for_each_key_and_the_oldest_make_room() -> None:
    drawn: list[str] = []
    parts = KeptParts(most=10, all=25)

    def get(key: str, size: int = 10) -> str:
        def draw() -> str:
            drawn.append(key)
            return "x" * size

        return parts.part(key, draw)

    assert get("a") == get("a") == "x" * 10
    get("b")
    get("a")
    get("c")
    assert drawn == ["a", "b", "c"]
    # `b` is the one that nobody asked for since.
    get("a")
    get("b")
    assert drawn == ["a", "b", "c", "b"]
    assert parts.size == 20
    get("long", 11)
    get("long", 11)
    assert drawn[-2:] == ["long", "long"]
    assert parts.size == 20


async def test_parts_differ_by_address_and_preferences(
    client: AsyncClient,
) -> None:
    pages: dict[str, str] = {}
    for kind in ("mail", "<b>", "mail", "<b>"):
        page = (await client.get("/jobs", params={"q": f'kind:"{kind}"'})).text
        page = re.sub('data-now="[^"]+"', "", page)
        assert ("&#34;&lt;b&gt;&#34;" in page) == (kind == "<b>")
        assert pages.setdefault(kind, page) == page
    for theme in ("dark", "light"):
        await client.post("/preferences", data={"theme": theme, "next": "/jobs"})
        page = (await client.get("/jobs")).text
        assert re.findall(r'value="(\w+)"\s+aria-pressed="true">(?:Dark|Light)', page) == [theme]
