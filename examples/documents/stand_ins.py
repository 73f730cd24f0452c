"""Stand-ins for services on a network: a parser, a model that reads, one that embeds. They are
deterministic, and certain words in a text make them fail.
"""

from __future__ import annotations

import asyncio
import hashlib

from examples.documents.jobs import Embedding

PAGE_BREAK = "\f"


class ParseError(Exception):
    """The file cannot be split into pages."""


class Unreadable(Exception):
    """The page cannot be read."""


def split(content: str) -> list[str]:
    """Return the pages of a file."""
    if not content.strip() or "encrypted" in content:
        raise ParseError("the file is empty or encrypted")
    return content.split(PAGE_BREAK)


async def read_page(content: str, attempt: int, *, seconds: float) -> str:
    """Return the text of a page; a smudged one is read at the second attempt."""
    await asyncio.sleep(seconds)
    if "unreadable" in content or ("smudged" in content and attempt == 1):
        raise Unreadable("the page cannot be read")
    return content.strip()


async def embed(text: str, embedding: Embedding, *, seconds: float) -> list[float]:
    """Return the vector of a text."""
    await asyncio.sleep(seconds)
    digest = hashlib.sha256(f"{embedding.model} {text}".encode()).digest()
    return [byte / 255 for byte in digest[: embedding.dimensions]]


def sample_files(count: int) -> list[tuple[str, str]]:
    """Return names and contents of files. Every tenth has three pages, the others one. Of each
    hundred, one is broken, one has a page that nobody can read, and one is smudged.
    """
    special = {13: "encrypted", 37: f"cover{PAGE_BREAK}unreadable", 71: "smudged"}
    files = []
    for number in range(count):
        pages = 3 if number % 10 == 0 else 1
        text = PAGE_BREAK.join(f"File {number}, page {page + 1}" for page in range(pages))
        files.append((f"{number:05}.txt", special.get(number % 100, text)))
    return files
