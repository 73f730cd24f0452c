"""Every kind of job: its args and its queue.

Args contain keys, not contents: the text of a page stays in storage. They do contain how to embed,
so that a retry after a change of the settings embeds as the first attempt did.
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
    """The parent job of one file: split it, insert a job per page, and wait for them."""

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
    """Add all pages of a file to the search index."""

    kind: ClassVar[str] = "index_file"

    document: int

    def insert_opts(self) -> InsertOpts:
        return InsertOpts(queue="index")


@dataclass(frozen=True)
class NotifyCustomer:
    """Notify a customer of the outcome of an upload."""

    kind: ClassVar[str] = "notify_customer"

    upload: str


@dataclass(frozen=True)
class ScanInbox:
    """Upload the files in the inbox. Its row is deleted when it succeeds."""

    kind: ClassVar[str] = "scan_inbox"
    ephemeral: ClassVar[bool] = True
