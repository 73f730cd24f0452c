"""The page shown when a request cannot be answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct


class ErrorShow(Struct, frozen=True, kw_only=True):
    """One failure in words: what happened, and what to do about it."""

    template: ClassVar[str] = "errors/error.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    kind: str
    """bad_request, conflict, database, forbidden, internal, login, not_found, schema, timeout or
    unauthorized.
    """
    title: str
    detail: str = ""
    command: str = ""
    """A shell command that helps, e.g. `riverui migrate-up`."""
    request_id: str = ""
    retry_url: str = ""
    """Where "Try again" leads; empty if another try cannot help."""
    back: tuple[str, str] | None = None
    """Label and address of a list to go on from, if that helps and the viewer may see it."""
