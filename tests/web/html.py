"""Reads our pages by meaning: elements, their text, links and forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from httpx2 import AsyncClient

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)


@dataclass(slots=True)
class Element:
    """One element with its children in order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, white space collapsed."""
        return re.sub(r"\s+", " ", "".join(self.pieces())).strip()

    def pieces(self) -> Iterator[str]:
        """Yield the texts inside, in their order."""
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child.pieces()

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """Return the elements with this tag and these attributes (`class_` finds one of the
        classes).
        """
        return [element for element in self.walk() if element.fits(tag, attributes)]

    def one(self, tag: str = "", **attributes: str) -> Element:
        """Return the only such element."""
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} elements {tag} {attributes}"
        return found[0]

    def link(self, text: str) -> str:
        """Where the link with this text leads."""
        found = [element for element in self.all("a") if element.text == text]
        assert found, f"no link {text!r} among {[element.text for element in self.all('a')]}"
        return found[0].attributes["href"]

    def fields(self) -> list[tuple[str, str]]:
        """Return what this form sends when nothing is touched, without its buttons."""
        return [
            (element.attributes["name"], element.attributes.get("value", ""))
            for element in self.all("input")
            if element.attributes.get("type") not in ("checkbox", "submit")
            and "name" in element.attributes
        ]

    def fits(self, tag: str, attributes: dict[str, str]) -> bool:
        """Return whether the element has this tag and these attributes."""
        if tag and self.tag != tag:
            return False
        for name, value in attributes.items():
            if name == "class_":
                if value not in self.attributes.get("class", "").split():
                    return False
            elif self.attributes.get(name.replace("_", "-")) != value:
                return False
        return True


def parse(text: str) -> Element:
    """Return the page or fragment as a tree."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self._open) - 1, 0, -1):
            if self._open[depth].tag == tag:
                del self._open[depth:]
                return

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


async def get(client: AsyncClient, path: str, status: int = 200) -> Element:
    """Return the page at an address, once it was answered with that status."""
    answer = await client.get(path)
    assert answer.status_code == status, answer.text[:2000]
    return parse(answer.text)
