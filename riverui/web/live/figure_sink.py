"""Where figures are handed on to as they are read: counters, and tables that keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from riverui.domain.figures import Tally
from riverui.storage.interface.figures import FailedAttempt


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledMinute:
    """A minute whose ends were read for good, two minutes after it was over."""

    at: int
    """When it begins, in seconds since 1970."""
    cells: Mapping[tuple[str, str], Tally]
    """By queue and kind; failed attempts and inserted jobs as far as they are known by now."""
    sampled: int
    early: bool
    """Whether it was over before anything was read: it was filled in."""


class FigureSink(Protocol):
    """Takes figures as they are read. Both methods return at once."""

    def settled(self, minute: SettledMinute) -> None:
        """Take a minute, the newest first where several are filled in. One may come again, as when
        the database's clock went back: it replaces the one before.
        """
        ...

    def failed(self, attempts: Sequence[FailedAttempt], *, times: int) -> None:
        """Take failed attempts that were not known yet, each standing for so many; those that began
        before the first reading are not told.
        """
        ...
