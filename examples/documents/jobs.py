"""Every kind of job: what it carries, and the queue it goes through.

Args carry keys, not contents: the text of a page stays in storage. Each job does say how it is to
be embedded, so that a retry after a change of the settings embeds as the first try did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riverui import InsertOpts


@dataclass(frozen=True)
class Embedding:
    """How pages become vectors; stored with each job."""

    model: str = "text-1"
    dimensions: int = 8


@dataclass(frozen=True)
class ProcessFile:
    """The parent job of one file: split it, have its pages worked, and wait for them."""

    kind: ClassVar[str] = "process_file"

    document: int
    name: str
    customer: str
    embedding: Embedding

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="files", max_attempts=3)


@dataclass(frozen=True)
class ProcessPage:
    """Read one page and embed it."""

    kind: ClassVar[str] = "process_page"

    document: int
    page: int
    customer: str
    embedding: Embedding

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="pages", max_attempts=3)


@dataclass(frozen=True)
class IndexFile:
    """Put all pages of a file into the search index."""

    kind: ClassVar[str] = "index_file"

    document: int

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="index")


@dataclass(frozen=True)
class TellCustomer:
    """Tell a customer that an upload is done, and how it went."""

    kind: ClassVar[str] = "tell_customer"

    upload: str


@dataclass(frozen=True)
class ScanInbox:
    """Take in what lies in the inbox. Of no interest once it is done, and so removed then."""

    kind: ClassVar[str] = "scan_inbox"
    ephemeral: ClassVar[bool] = True
