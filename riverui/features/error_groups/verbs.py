"""Decisions about groups of failed jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from riverui.errors import BadRequest
from riverui.features.error_groups.domain.groups import (
    ErrorDecision,
    ErrorGroup,
    ErrorState,
    sighting,
)
from riverui.features.error_groups.store import ErrorGroupStore
from riverui.storage.interface import Driver

RIGHT = "errors.manage"
"""The right to decide."""
MAX_REASON = 500
"""Longest reason, in characters: a sentence or two."""
MAX_RELEASE = 100
"""Longest name of a release, in characters; the same as for releases that jobs name."""
MAX_RELEASES = 100
"""Releases that are stored as having failed before."""
MAX_NUMBER = 2**40
"""Failed jobs, within an hour or in all: more than will occur."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a user asks for; each verb uses the fields that apply to it."""

    reason: str = ""
    release: str = ""
    until_at: datetime | None = None
    until_rate: int | None = None
    until_total: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorVerb:
    """A decision that can be made about a group."""

    name: str
    label: str
    icon: str
    done: str
    """The state afterwards, in a word."""
    state: ErrorState
    summary: str
    """What it does, for the API reference."""
    asks: bool
    """Whether it takes anything besides the group."""
    decide: Callable[[ErrorGroup, Asked], ErrorDecision]


def _resolve(group: ErrorGroup, asked: Asked) -> ErrorDecision:
    old = tuple(group.releases)[:MAX_RELEASES] if asked.release else ()
    return ErrorDecision(
        state=ErrorState.RESOLVED, reason=asked.reason, release=asked.release, old_releases=old
    )


def _ignore(group: ErrorGroup, asked: Asked) -> ErrorDecision:
    return ErrorDecision(
        state=ErrorState.IGNORED,
        reason=asked.reason,
        until_at=asked.until_at,
        until_rate=asked.until_rate,
        until_total=asked.until_total,
    )


def _unresolve(group: ErrorGroup, asked: Asked) -> ErrorDecision:
    return ErrorDecision(state=ErrorState.UNRESOLVED, reason=asked.reason)


ERROR_VERBS = {
    verb.name: verb
    for verb in (
        ErrorVerb(
            name="resolve",
            label="Resolve",
            icon="check",
            done="resolved",
            state=ErrorState.RESOLVED,
            summary="Marks a group as fixed; an attempt that starts later and fails with the"
            " same error reopens it.",
            asks=True,
            decide=_resolve,
        ),
        ErrorVerb(
            name="ignore",
            label="Ignore",
            icon="bed",
            done="ignored",
            state=ErrorState.IGNORED,
            summary="Hides a group from the list, permanently or until a time, a rate or a number.",
            asks=True,
            decide=_ignore,
        ),
        ErrorVerb(
            name="unresolve",
            label="Unresolve",
            icon="rotate-cw",
            done="unresolved",
            state=ErrorState.UNRESOLVED,
            summary="Makes a resolved or ignored group unresolved again.",
            asks=False,
            decide=_unresolve,
        ),
    )
}
"""Every verb on groups by name, in the order of the buttons."""


async def apply(
    driver: Driver,
    verb: ErrorVerb,
    group: ErrorGroup,
    asked: Asked,
    *,
    username: str,
    time_limit: timedelta | None = None,
) -> None:
    """Apply a verb to a group. Raise BadRequest for a text that is too long, or an invalid
    number.
    """
    for name, text, most in (
        ("reason", asked.reason, MAX_REASON),
        ("release", asked.release, MAX_RELEASE),
    ):
        if len(text) > most:
            raise BadRequest(f"The {name} takes at most {most} characters.")
        if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
            raise BadRequest(f"The {name} holds a character that cannot be stored.")
    for name, number in (("rate", asked.until_rate), ("total", asked.until_total)):
        if number is not None and not 1 <= number <= MAX_NUMBER:
            raise BadRequest(f"The {name} must be a whole number from 1 on.")
    decision = verb.decide(group, asked)
    async with driver.transaction(timeout=time_limit) as transaction:
        for part in group.parts:
            await ErrorGroupStore(transaction).error_group_decide(
                sighting(part), decision, username=username[:MAX_USER]
            )


MAX_USER = 200
"""Longest stored name of the user who decided, in characters."""
